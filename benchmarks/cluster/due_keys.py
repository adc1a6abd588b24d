"""Keys that come as fast as they are taken, or at a steady rate, each with the time at which it was due."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import penstock as ps

PARTITIONS = 4

AGAIN_US = 5000
"""Rows that are due within so long of each other are read together: whoever asks sooner does so in vain."""


class Phases:
    """What all readers of a job do now, said by files: whoever measures says it, readers look.

    At first they wait; then each reads its keys once, as fast as they are taken, and waits; then over and over as fast
    as they are taken, until they rest; and at last over and over so many a second.
    """

    def __init__(self, folder: Path) -> None:
        """Let files be in a folder."""
        self._fill, self._hurry, self._pace = folder / "fill", folder / "hurry", folder / "pace"

    def fill(self) -> None:
        """Let all keys come once."""
        self._fill.touch()

    def hurry(self) -> None:
        """Let keys come as fast as they are taken."""
        self._hurry.touch()

    def rest(self) -> None:
        """Let no key come for now."""
        self._hurry.unlink()

    def pace(self, rows_per_s: int) -> int:
        """Let so many come a second, of all partitions, from now on; return when that is, in monotonic time."""
        begin_ns = time.monotonic_ns()
        draft = self._pace.with_suffix(".draft")
        draft.write_text(f"{begin_ns} {rows_per_s}")
        draft.rename(self._pace)
        return begin_ns

    def is_filling(self) -> bool:
        """Return whether keys may come."""
        return self._fill.exists()

    def is_hurrying(self) -> bool:
        """Return whether keys are to come as fast as they are taken."""
        return self._hurry.exists()

    def paced(self) -> tuple[int, int] | None:
        """Return since when they come at a rate, and the rows a second; None: they do not yet."""
        if not self._pace.exists():
            return None
        begin_ns, rows_per_s = self._pace.read_text().split()
        return int(begin_ns), int(rows_per_s)


class DueKeys(ps.Source):
    """Keys from 0 on as its phases say. Each row says when it is due: at a rate, whenever a reader begins."""

    bounded = False

    def __init__(self, keys: int, phases: Phases) -> None:
        """Take the number of keys and the phases."""
        self.keys, self.phases = keys, phases

    @property
    def schema(self) -> pa.Schema:
        """A key, when it is due, and a value."""
        return pa.schema([("k", pa.int64()), ("due_ns", pa.int64()), ("v", pa.float64())])

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the partitions: each has every so many-th key."""
        return [str(number) for number in range(PARTITIONS)]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        """Begin at the first key, or go on."""
        return _DueKeysReader(self, int(partition), *(position or (0, None)))


class _DueKeysReader(ps.Reader):
    def __init__(self, source: DueKeys, partition: int, row: int, first_paced: int | None) -> None:
        self._source, self._partition, self._row, self._first_paced = source, partition, row, first_paced
        self._pace: tuple[int, int] | None = None

    def read(self, max_rows: int) -> ps.Read:
        due_ns = self._due_ns(max_rows)
        if not len(due_ns):
            return ps.Read(again_us=AGAIN_US)
        source = self._source
        rows = np.arange(self._row, self._row + len(due_ns))
        self._row += len(due_ns)
        keys = rows % (source.keys // PARTITIONS) * PARTITIONS + self._partition
        columns = [pa.array(keys), pa.array(due_ns), pa.array(rows * 0.5)]
        again_us = AGAIN_US if len(due_ns) < max_rows else None
        return ps.Read(pa.record_batch(columns, schema=source.schema), again_us=again_us)

    def position(self) -> tuple[int, int | None]:
        return self._row, self._first_paced

    def _due_ns(self, max_rows: int) -> NDArray[np.int64]:
        """Return when the rows are due that are to come now."""
        phases, now_ns = self._source.phases, time.monotonic_ns()
        self._pace = self._pace or phases.paced()
        if self._pace is None:
            to_fill = self._source.keys // PARTITIONS - self._row if phases.is_filling() else 0
            count = max_rows if phases.is_hurrying() else min(max_rows, max(to_fill, 0))
            return np.full(count, now_ns)
        if self._first_paced is None:
            self._first_paced = self._row
        begin_ns, rows_per_s = self._pace
        each_ns, done = PARTITIONS * 1_000_000_000 // rows_per_s, self._row - self._first_paced
        count = min(max_rows, max((now_ns - begin_ns) // each_ns - done, 0))
        return begin_ns + np.arange(done, done + count) * each_ns
