"""The results of user functions as Arrow columns: all at once where it fits, else by halves to find what does not."""

import dataclasses
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa

from penstock.engine.operators.functions.row_calls import Failures
from penstock.engine.operators.functions.user_results import check_known
from penstock.model.errors import SchemaError

UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What pyarrow raises for a value that its type cannot hold."""


class RowResults:
    """Turns results into rows of ``fields``: dicts, dataclasses or, with ``bare``, the value of the only column."""

    def __init__(self, fields: pa.Schema, bare: bool) -> None:
        """Take the schema; ``bare`` only where a result cannot be mistaken for a row."""
        self._fields = fields
        self._names = fields.names
        self._bare = bare and len(fields) == 1
        self._flat = not any(pa.types.is_nested(field.type) for field in fields)

    def to_rows(self, results: Sequence[Any]) -> tuple[pa.RecordBatch, list[int], Failures]:
        """Return the rows, the result each of them was, and why each of the others is none, by number."""
        try:
            columns = self._columns(results)
            if columns is not None:
                arrays = [pa.array(values, field.type) for values, field in zip(columns, self._fields, strict=True)]
                rows = pa.RecordBatch.from_arrays(arrays, schema=self._fields)
                if not _missing(rows):
                    return rows, list(range(len(results))), {}
        except UNFIT:
            pass
        return self._isolating(results)

    def _columns(self, results: Sequence[Any]) -> list[Sequence[Any]] | None:
        """Return the results' values by column; None if they are not all of one simple make."""
        kinds = set(map(type, results))
        if len(kinds) != 1:
            return None
        kind = kinds.pop()
        if kind is dict:
            if set(map(len, results)) != {len(self._names)}:
                return None
            try:
                return [list(map(itemgetter(name), results)) for name in self._names]
            except KeyError:
                return None
        if dataclasses.is_dataclass(kind):
            if not self._flat or {field.name for field in dataclasses.fields(kind)} != set(self._names):
                return None
            return [list(map(attrgetter(name), results)) for name in self._names]
        return [results] if self._bare else None

    def _isolating(self, results: Sequence[Any]) -> tuple[pa.RecordBatch, list[int], Failures]:
        """Convert what is a row at all; one that does not fit costs about log2(rows) more conversions."""
        fitting: list[dict[str, Any]] = []
        origin: list[int] = []
        failures: Failures = {}
        for index, result in enumerate(results):
            try:
                fitting.append(self._row(result))
                origin.append(index)
            except SchemaError as error:
                failures[index] = f"{type(error).__name__}: {error}"
        batches, kept = self._halved(fitting, origin, failures)
        return pa.concat_batches(batches or [pa.RecordBatch.from_pylist([], schema=self._fields)]), kept, failures

    def _halved(
        self, rows: list[dict[str, Any]], origin: list[int], failures: Failures
    ) -> tuple[list[pa.RecordBatch], list[int]]:
        """Convert rows and halve them while that fails; note each that does not fit even alone."""
        try:
            batch = pa.RecordBatch.from_pylist(rows, schema=self._fields)
            if missing := _missing(batch):
                raise ValueError(f"column {missing!r} must not be null")
            return [batch], origin
        except UNFIT as error:
            if len(rows) == 1:
                failures[origin[0]] = f"the result does not fit the schema: {error}"
                return [], []
        half = len(rows) // 2
        first, kept_first = self._halved(rows[:half], origin[:half], failures)
        second, kept_second = self._halved(rows[half:], origin[half:], failures)
        return first + second, kept_first + kept_second

    def _row(self, result: Any) -> dict[str, Any]:
        if dataclasses.is_dataclass(result) and not isinstance(result, type):
            result = dataclasses.asdict(result)
        if not isinstance(result, dict):
            if self._bare:
                return {self._names[0]: result}
            raise SchemaError(f"the function must return a dict or a dataclass, not {type(result).__name__}")
        check_known(result, self._names)
        return result


def _missing(rows: pa.RecordBatch) -> str | None:
    """Return the first column that holds a null although its field allows none."""
    required = (field.name for field in rows.schema if not field.nullable)
    return next((name for name in required if rows.column(name).null_count), None)
