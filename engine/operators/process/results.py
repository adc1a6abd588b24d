"""Rows that a process function puts out, checked one by one: what does not fit is an error of the call."""

import dataclasses
import datetime
import difflib
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.normalise import to_schema
from penstock.engine.connectors.time_range import time_error, unusable_times
from penstock.engine.operators.process.types import ValueType
from penstock.model.errors import SchemaError
from penstock.model.schema import TimeColumn

_EXACT = {
    pa.int64(): int,
    pa.float64(): float,
    pa.string(): str,
    pa.bool_(): bool,
    pa.binary(): bytes,
    pa.date32(): datetime.date,
}
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


class ResultRows:
    """Result rows of a row-wise function until they become a batch.

    ``values`` holds the values of one row behind those of the other, ``width`` of each: nothing the garbage collector
    would have to look at.
    """

    def __init__(self, fields: pa.Schema, time: TimeColumn | None) -> None:
        """``time`` is the event time among the fields, which must not be null."""
        self.values: list[Any] = []
        self.width = len(fields)
        self._fields = fields
        self._names = fields.names
        self._types = [ValueType(None, field.type, f"column {field.name!r} of the result") for field in fields]
        self._time = None if time is None else time.name
        self.add_row = self._adder()

    def add(self, result: Any) -> None:
        """Take what one call returned: nothing, a row, or any number of rows.

        Raises:
            SchemaError: a row does not fit.
        """
        if type(result) is dict:
            self.add_row(result)
        elif result is None:
            return
        elif dataclasses.is_dataclass(result) and not isinstance(result, type):
            self.add_row(_as_dict(result))
        elif isinstance(result, Iterable) and not isinstance(result, str | bytes):
            for row in result:
                self.add_row(row if type(row) is dict else _as_dict(row))
        else:
            raise SchemaError(_UNFIT.format(type(result).__name__))

    def take(self) -> pa.RecordBatch:
        """Return the rows as a batch and forget them."""
        arrays = [pa.array(self.values[place :: self.width], field.type) for place, field in enumerate(self._fields)]
        self.values.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._fields)

    def _adder(self) -> Callable[[dict[str, Any]], None]:
        """Return what takes one row, or raises SchemaError if it does not fit; called for every row there is."""
        getter = itemgetter(*self._names) if self._names else tuple
        values_of: Any = getter if self.width != 1 else lambda row: (getter(row),)
        checked, produced, width = self._checked, self.values, self.width
        # Rows whose values have exactly these types need no look at each value.
        exact = tuple(_exact(field.type) for field in self._fields)
        integers = [place for place, kind in enumerate(exact) if kind is int]
        texts = [place for place, kind in enumerate(exact) if kind is str]

        def add_row(row: dict[str, Any]) -> None:
            nonlocal produced
            try:
                values = values_of(row)
            except KeyError:
                produced += checked(row)
                return
            if tuple(map(type, values)) != exact or len(row) != width:
                produced += checked(row)
                return
            for place in integers:
                if not _LEAST <= values[place] <= _GREATEST:
                    values = checked(row)
            for place in texts:
                if not values[place].isascii():
                    values = checked(row)
            produced += values

        return add_row

    def _checked(self, row: dict[str, Any]) -> tuple[Any, ...]:
        unknown = [name for name in row if name not in self._names]
        if unknown:
            close = difflib.get_close_matches(str(unknown[0]), self._names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(self._names)}"
            raise SchemaError(f"the function returned {unknown[0]!r}, which is not in its schema{hint}")
        if self._time is not None and row.get(self._time) is None:
            raise SchemaError(f"in the result, {time_error(self._time, True)}")
        return tuple(
            None if row.get(name) is None else type_.admit(row[name])
            for name, type_ in zip(self._names, self._types, strict=True)
        )


def batch_results(result: Any, fields: pa.Schema, time: TimeColumn | None) -> pa.RecordBatch | None:
    """Return what a vectorised function returned as rows of the fields; None: nothing.

    Raises:
        SchemaError: it is nothing Arrow-like, or does not fit.
    """
    if result is None:
        return None
    if not isinstance(result, pa.RecordBatch):
        arrow = hasattr(result, "__arrow_c_stream__") or hasattr(result, "__arrow_c_array__")
        if not arrow and not isinstance(result, dict):
            raise SchemaError(
                "a BatchProcess must return None, an object with the Arrow PyCapsule interface (pyarrow, polars, "
                f"pandas) or a dict of columns, not {type(result).__name__}"
            )
        table = pa.table(result)
        batches = table.combine_chunks().to_batches()
        result = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    rows = to_schema(result, fields)
    if time is not None:
        times = rows.column(time.name)
        bad = unusable_times(times)
        if bad is not None:
            row = int(bad.argmax())
            raise SchemaError(f"in row {row + 1} of the result, {time_error(time.name, not times[row].is_valid)}")
    return rows


_UNFIT = "a process function must return None, a row (dict or dataclass) or an iterable of rows, not {}"


def _exact(kind: pa.DataType) -> type:
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return datetime.datetime
    return _EXACT.get(kind, object)


def _as_dict(row: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    if isinstance(row, dict):
        return row
    raise SchemaError(_UNFIT.format(f"an iterable of {type(row).__name__}"))
