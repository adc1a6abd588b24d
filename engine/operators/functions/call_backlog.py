"""Rows and watermarks that `map_async` has taken in but not yet asked for, in the order of the stream."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from penstock.engine.core.elements import Batch
from penstock.engine.operators.functions.pending_calls import Call
from penstock.engine.operators.functions.python_rows import python_rows, python_values
from penstock.state.keys.arrays import Ints

_CONVERTED_ROWS = 2_048
"""How many rows become Python values at once."""

_NO_VALUE = (ValueError, OverflowError)
"""What is raised for a value that Python has none for."""


@dataclass(slots=True)
class _Rows:
    left: int
    calls: Iterator[Call]


class CallBacklog:
    """A queue of batches, each with the ids of its rows, and watermarks; its rows come out as calls."""

    def __init__(self, columns: Sequence[str] | None, names: list[str]) -> None:
        """``columns`` are the function's arguments; None: it takes a dict of the columns ``names``."""
        self._columns = columns
        self._names = names
        self._items: deque[_Rows | int] = deque()

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, batch: Batch, ids: Ints) -> None:
        """Append rows; ids[i] is that of row i."""
        self._items.append(_Rows(len(ids), self._calls(batch, ids)))

    def mark(self, time_us: int) -> None:
        """Append a watermark."""
        self._items.append(time_us)

    def take(self, limit: int) -> list[Call] | int | None:
        """Take calls from the batch in front, at most ``limit``, or the watermark that is there instead.

        None when there is nothing, or rows are in front and ``limit`` is 0. A call comes answered, with an error, if
        Python has no value for something in its row.
        """
        if not self._items:
            return None
        first = self._items[0]
        if isinstance(first, int):
            self._items.popleft()
            return first
        if limit <= 0:
            return None
        calls = list(islice(first.calls, limit))
        first.left -= len(calls)
        if not first.left:
            self._items.popleft()
        return calls

    def _calls(self, batch: Batch, ids: Ints) -> Iterator[Call]:
        for start in range(0, len(ids), _CONVERTED_ROWS):
            rows = batch.rows.slice(start, _CONVERTED_ROWS)
            numbers = ids[start : start + _CONVERTED_ROWS].tolist()
            try:
                arguments = self._arguments(rows)
            except _NO_VALUE:
                yield from (self._single(batch, number, rows.slice(i, 1)) for i, number in enumerate(numbers))
                continue
            for number, values in zip(numbers, arguments, strict=True):
                yield Call(number, batch, values)

    def _single(self, batch: Batch, number: int, row: pa.RecordBatch) -> Call:
        try:
            return Call(number, batch, self._arguments(row)[0])
        except _NO_VALUE as error:
            return Call(number, batch, (), answered=True, error=f"{type(error).__name__}: {error}")

    def _arguments(self, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """Return what the function takes, by row."""
        if self._columns is None:
            return [(row,) for row in python_rows(rows, self._names)]
        return list(zip(*(python_values(rows.column(name)) for name in self._columns), strict=True))
