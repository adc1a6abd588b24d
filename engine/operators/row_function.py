"""User functions on rows: map, flat_map and filter.

The only place where rows become Python objects; a function whose parameters are named like columns gets just those
columns, without a dict per row.
"""

import dataclasses
import difflib
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.time_range import time_error, unusable_times
from penstock.engine.elements import Batch
from penstock.engine.operators.contract import MAIN, Emission, Operator
from penstock.engine.operators.event_time import kept_time
from penstock.engine.operators.python_rows import python_rows, python_values
from penstock.model.errors import SchemaError
from penstock.model.job_graph import RowFunctionSpec
from penstock.model.schema import WEIGHT, StreamSchema


class RowFunction(Operator):
    """Calls the user's function once per row; a row for which it raises becomes a dead letter.

    So does one whose result does not fit the schema or has no usable event time.
    """

    def __init__(self, spec: RowFunctionSpec, schema: StreamSchema, name: str) -> None:
        """Take the spec; ``schema`` is the input's."""
        self._spec = spec
        self._names = schema.fields.names
        self._changelog = schema.changelog
        self._time = kept_time(schema, spec.fields)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Call the function for every row of one batch."""
        self.context.counters.rows_in += batch.rows.num_rows
        if self._spec.kind == "filter":
            yield from self._filter(batch)
        else:
            yield from self._map(batch)

    def _calls(self, rows: pa.RecordBatch) -> Iterator[Callable[[], Any]]:
        function = self._spec.function
        try:
            arguments = self._arguments(rows)
        except (ValueError, OverflowError):
            # Python has no value for something in these rows; the call of the row that holds it will say so.
            for index in range(rows.num_rows):
                yield partial(self._convert_and_call, rows.slice(index, 1))
            return
        for values in arguments:
            yield partial(function, *values)

    def _arguments(self, rows: pa.RecordBatch) -> Iterable[tuple[Any, ...]]:
        """Return what the function takes, per row."""
        if self._spec.columns is None:
            return zip(python_rows(rows, self._names), strict=True)
        return zip(*[python_values(rows.column(name)) for name in self._spec.columns], strict=True)

    def _convert_and_call(self, row: pa.RecordBatch) -> Any:
        (values,) = self._arguments(row)
        return self._spec.function(*values)

    def _filter(self, batch: Batch) -> Iterator[Emission]:
        kept: list[int] = []
        failed: list[tuple[int, str]] = []
        for index, call in enumerate(self._calls(batch.rows)):
            try:
                if call():
                    kept.append(index)
            except Exception:
                failed.append((index, traceback.format_exc(limit=-3)))
        self._reject(batch.rows, failed)
        self.context.counters.passed += len(kept)
        self.context.counters.filtered += batch.rows.num_rows - len(kept) - len(failed)
        yield MAIN, batch.with_rows(batch.rows.take(pa.array(kept, pa.int64())))

    def _map(self, batch: Batch) -> Iterator[Emission]:
        produced: list[dict[str, Any]] = []
        origin: list[int] = []
        failed: list[tuple[int, str]] = []
        flat = self._spec.kind == "flat_map"
        for index, call in enumerate(self._calls(batch.rows)):
            try:
                results = [self._row(item) for item in call()] if flat else [self._row(call())]
            except Exception:
                failed.append((index, traceback.format_exc(limit=-3)))
                continue
            produced.extend(results)
            origin.extend([index] * len(results))
        rows, origin, unfit = self._with_times(*self._to_batch(produced, origin))
        # A flat_map row is passed or rejected as a whole.
        failed.extend(unfit.items())
        self._reject(batch.rows, failed)
        self.context.counters.passed += batch.rows.num_rows - len(failed)
        if self._changelog:
            weights = batch.rows.column(WEIGHT).take(pa.array(origin, pa.int64()))
            rows = rows.append_column(pa.field(WEIGHT, pa.int8(), nullable=False), weights)
        for start in range(0, rows.num_rows, self.context.batch_rows):
            yield MAIN, batch.with_rows(rows.slice(start, self.context.batch_rows))

    def _row(self, result: Any) -> dict[str, Any]:
        if dataclasses.is_dataclass(result) and not isinstance(result, type):
            result = dataclasses.asdict(result)
        fields = self._spec.fields
        if not isinstance(result, dict):
            if len(fields) == 1 and self._spec.columns is not None:
                return {fields.names[0]: result}
            raise SchemaError(f"the function must return a dict or a dataclass, not {type(result).__name__}")
        unknown = [key for key in result if key not in fields.names]
        if unknown:
            close = difflib.get_close_matches(str(unknown[0]), fields.names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(fields.names)}"
            raise SchemaError(f"the function returned {unknown[0]!r}, which is not in its schema{hint}")
        return result

    def _to_batch(
        self, produced: list[dict[str, Any]], origin: list[int]
    ) -> tuple[pa.RecordBatch, list[int], dict[int, str]]:
        """Return the batch, the input row of each of its rows, and the error of each input row that did not fit."""
        fields = self._spec.fields
        try:
            return pa.RecordBatch.from_pylist(produced, schema=fields), origin, {}
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            unfit: dict[int, str] = {}
            for row, index in zip(produced, origin, strict=True):
                try:
                    pa.RecordBatch.from_pylist([row], schema=fields)
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    unfit[index] = f"the result does not fit the schema: {error}"
            kept = [(row, index) for row, index in zip(produced, origin, strict=True) if index not in unfit]
            rows = pa.RecordBatch.from_pylist([row for row, _ in kept], schema=fields)
            return rows, [index for _, index in kept], unfit

    def _with_times(
        self, rows: pa.RecordBatch, origin: list[int], unfit: dict[int, str]
    ) -> tuple[pa.RecordBatch, list[int], dict[int, str]]:
        """Take out the input rows of which some result has no usable event time."""
        if self._time is None or not rows.num_rows:
            return rows, origin, unfit
        times = rows.column(self._time.name)
        bad = unusable_times(times)
        if bad is None:
            return rows, origin, unfit
        for row in np.flatnonzero(bad).tolist():
            unfit[origin[row]] = f"in the result, {time_error(self._time.name, not times[row].is_valid)}"
        kept = [row for row, index in enumerate(origin) if index not in unfit]
        return rows.take(pa.array(kept, pa.int64())), [origin[row] for row in kept], unfit

    def _reject(self, rows: pa.RecordBatch, failed: list[tuple[int, str]]) -> None:
        if not failed:
            return
        failed.sort()
        bad = rows.take(pa.array([index for index, _ in failed], pa.int64()))
        self.context.counters.dead_lettered += bad.num_rows
        self.context.dead_letters.reject(self.context.name, bad, [text for _, text in failed])
