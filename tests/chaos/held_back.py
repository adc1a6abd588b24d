"""Sources that come only as far in event time as a file says, so that a job lasts as long as a test wants it to."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from penstock.model.connectors import Read, Reader, Source
from penstock.model.job_graph import SourceSpec

MOST_ROWS = 8
"""A reader gives so many at once: by so many of each partition it may come further than it is to."""

MOST_SHARE = 0.9
"""The rest is held back until all may be read."""

NOT_YET = Read(out_of_reach=True)
"""What is held back is there, so that the partition is not idle: its watermark holds the others' back."""


@dataclass(frozen=True)
class Gate:
    """A file with the event time up to which rows may be read; all of them lie between two times, in microseconds."""

    path: Path
    begin_us: int
    end_us: int

    def open(self, share: float) -> None:
        """Let so much of `MOST_SHARE` of the time be read; from 1 on all of it, as fast as it can be."""
        until = MOST_SHARE * share if share < 1.0 else 1.0
        # It is read while it is written.
        draft = self.path.with_suffix(".draft")
        draft.write_text(str(self.begin_us + int((self.end_us - self.begin_us) * until)))
        draft.rename(self.path)

    def until_us(self) -> int:
        """Return the time up to which rows may be read."""
        return int(self.path.read_text())


class HeldBack(Source):
    """Gives the rows of another source, so many a second of each partition, as far as a gate is open."""

    def __init__(self, source: Source, time_column: str, rows_per_s: float, gate: Gate) -> None:
        self._source, self.time_column, self.rows_per_s, self.gate = source, time_column, rows_per_s, gate
        self.bounded, self.aligned = source.bounded, source.aligned

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        return self._source.partitions(parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        came_us, inner = (self.gate.begin_us - 1, None) if position is None else position
        reader = self._source.open(partition, inner)
        return _HeldBackReader(reader, self, came_us)

    def fix_bounds(self) -> None:
        self._source.fix_bounds()

    def restrict(self, columns: Sequence[str], predicate: Any) -> Source:
        restricted = self._source.restrict(columns, predicate)
        return HeldBack(restricted, self.time_column, self.rows_per_s, self.gate)

    def describe(self) -> str:
        return f"{self._source.describe()}, held back"


class _HeldBackReader(Reader):
    """Its position has the time that it has come to, so that one that is opened again is held back at once."""

    def __init__(self, reader: Reader, source: HeldBack, came_us: int) -> None:
        self._reader, self._source, self._came_us = reader, source, came_us
        self._due, self._looked_s = 0.0, time.monotonic()

    def read(self, max_rows: int) -> Read:
        source, now_s = self._source, time.monotonic()
        until_us = source.gate.until_us()
        self._due = min(self._due + (now_s - self._looked_s) * source.rows_per_s, MOST_ROWS)
        self._looked_s = now_s
        if until_us >= source.gate.end_us:
            return self._reader.read(max_rows)
        if self._came_us >= until_us or self._due < 1:
            return NOT_YET
        read = self._reader.read(min(max_rows, int(self._due)))
        if read.rows is not None and read.rows.num_rows:
            self._due -= read.rows.num_rows
            latest = pc.max(read.rows.column(source.time_column)).cast(pa.timestamp("us"))
            self._came_us = max(self._came_us, latest.value)
        return read

    def position(self) -> Any:
        return [self._came_us, self._reader.position()]

    def close(self) -> None:
        self._reader.close()


def hold_back(job: ps.Job, time_column: str, rows_per_s: float, gate: Gate) -> None:
    """Let the sources of a job give so many rows a second of each partition, as far as a gate is open."""
    for node in list(job.graph.operators.values()):
        if isinstance(node.spec, SourceSpec):
            held = HeldBack(node.spec.source, time_column, rows_per_s, gate)
            job.change(node.id, spec=replace(node.spec, source=held))
