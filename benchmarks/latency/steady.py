"""A source of so many rows a second, each with the time at which it was due. Read by `latency` and `idle`."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps

SCHEMA = pa.schema([("key", pa.int64()), ("due_ns", pa.int64())])


class SteadySource(ps.Source):
    """Rows that become due one by one, for so many seconds (None: for ever)."""

    bounded = False

    def __init__(self, rows_per_s: int, keys: int, seconds: float | None = None, partitions: int = 1) -> None:
        """``rows_per_s`` of each partition; 0: none ever. Keys come in turn."""
        self.rows_per_s, self.keys, self.count = rows_per_s, keys, partitions
        self.rows = None if seconds is None else int(rows_per_s * seconds)

    @property
    def schema(self) -> pa.Schema:
        """A key and the monotonic time at which the row was due."""
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the partitions."""
        return [str(number) for number in range(self.count)]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        """Begin now."""
        return _SteadyReader(self)


class _SteadyReader(ps.Reader):
    def __init__(self, source: SteadySource) -> None:
        self._source = source
        self._begun_ns = time.monotonic_ns()
        self._read = 0

    def watch(self, wake: Any) -> bool:
        """Promise to wake, as nothing will ever come without a rate."""
        return self._source.rows_per_s == 0

    def read(self, max_rows: int) -> ps.Read:
        """Return the rows that are due."""
        source = self._source
        if source.rows_per_s == 0:
            return ps.NOTHING
        end = min(self._due(), self._read + max_rows)
        if end == self._read:
            if end == source.rows:
                return ps.Read(ended=True)
            return ps.Read(again_us=1_000_000 // source.rows_per_s)
        numbers = np.arange(self._read, end)
        self._read = end
        due_ns = self._begun_ns + (numbers + 1) * 1_000_000_000 // source.rows_per_s
        rows = pa.record_batch([numbers % source.keys, due_ns], schema=SCHEMA)
        # Unless there were too many, these are all that are due.
        return ps.Read(rows, again_us=None if len(numbers) == max_rows else 1_000_000 // source.rows_per_s)

    def position(self) -> int:
        """Return the rows read."""
        return self._read

    def behind(self) -> int:
        """Return how many rows are due."""
        return max(0, self._due() - self._read)

    def appended(self) -> int | None:
        """Return how many rows were due so far; of so many rows in all it does not matter."""
        return self._due() if self._source.rows is None else None

    def _due(self) -> int:
        source = self._source
        due = (time.monotonic_ns() - self._begun_ns) * source.rows_per_s // 1_000_000_000
        return due if source.rows is None else min(due, source.rows)
