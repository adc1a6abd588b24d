"""Rows that a process function puts out, checked one by one: what does not fit is an error of the call."""

import datetime
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.time_range import time_error
from penstock.engine.operators.functions.python_rows import dataclass_row
from penstock.engine.operators.functions.user_results import batch_of, check_known, time_errors
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
        elif (fields := dataclass_row(result)) is not None:
            self.add_row(fields)
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
        check_known(row, self._names)
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
    rows = batch_of(result, fields, "a BatchProcess must return None,")
    for row, reason in time_errors(rows, time).items():
        raise SchemaError(f"in row {row + 1} of the result, {reason}")
    return rows


_UNFIT = "a process function must return None, a row (dict or dataclass) or an iterable of rows, not {}"


def _exact(kind: pa.DataType) -> type:
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return datetime.datetime
    return _EXACT.get(kind, object)


def _as_dict(row: Any) -> dict[str, Any]:
    if isinstance(row, dict):
        return row
    fields = dataclass_row(row)
    if fields is None:
        raise SchemaError(_UNFIT.format(f"an iterable of {type(row).__name__}"))
    return fields
