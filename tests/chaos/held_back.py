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

MOST_DUE_S = 0.25
"""A reader that was held gives no more than the rows of so long at once."""

NOT_YET = Read(out_of_reach=True)
"""What is held back is there, so that the partition is not idle: its watermark holds the others' back."""


@dataclass(frozen=True)
class Gate:
    """A file with the event time up to which rows may be read; all of them lie between two times, in microseconds."""

    path: Path
    begin_us: int
    end_us: int

    def open(self, share: float) -> None:
        """Let so much of the time be read; from 1 on all, as fast as it can be."""
        # It is read while it is written.
        draft = self.path.with_suffix(".draft")
        draft.write_text(str(self.begin_us + int((self.end_us - self.begin_us) * share)))
        draft.rename(self.path)

    def until_us(self) -> int:
        """Return the time up to which rows may be read."""
        return int(self.path.read_text())


class HeldBack(Source):
    """Gives the rows of another source, so many a second of each partition, as far as a gate is open."""

    def __init__(self, source: Source, time_column: str, rows_per_s: float, gate: Gate) -> None:
        self._source, self._time_column, self._rows_per_s, self._gate = source, time_column, rows_per_s, gate
        self.bounded, self.aligned = source.bounded, source.aligned

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        return self._source.partitions(parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        reader = self._source.open(partition, position)
        return _HeldBackReader(reader, self._time_column, self._rows_per_s, self._gate)

    def fix_bounds(self) -> None:
        self._source.fix_bounds()

    def restrict(self, columns: Sequence[str], predicate: Any) -> Source:
        restricted = self._source.restrict(columns, predicate)
        return HeldBack(restricted, self._time_column, self._rows_per_s, self._gate)

    def describe(self) -> str:
        return f"{self._source.describe()}, held back"


class _HeldBackReader(Reader):
    def __init__(self, reader: Reader, time_column: str, rows_per_s: float, gate: Gate) -> None:
        self._reader, self._time_column, self._rows_per_s, self._gate = reader, time_column, rows_per_s, gate
        self._came_us, self._due, self._looked_s = gate.begin_us - 1, 0.0, time.monotonic()

    def read(self, max_rows: int) -> Read:
        until_us, now_s = self._gate.until_us(), time.monotonic()
        self._due = min(self._due + (now_s - self._looked_s) * self._rows_per_s, MOST_DUE_S * self._rows_per_s)
        self._looked_s = now_s
        if until_us >= self._gate.end_us:
            return self._reader.read(max_rows)
        if self._came_us >= until_us or self._due < 1:
            return NOT_YET
        read = self._reader.read(min(max_rows, int(self._due)))
        if read.rows is not None and read.rows.num_rows:
            self._due -= read.rows.num_rows
            latest = pc.max(read.rows.column(self._time_column)).cast(pa.timestamp("us"))
            self._came_us = max(self._came_us, latest.value)
        return read

    def position(self) -> Any:
        return self._reader.position()

    def close(self) -> None:
        self._reader.close()


def hold_back(job: ps.Job, time_column: str, rows_per_s: float, gate: Gate) -> None:
    """Let the sources of a job give so many rows a second of each partition, as far as a gate is open."""
    for node in list(job.graph.operators.values()):
        if isinstance(node.spec, SourceSpec):
            held = HeldBack(node.spec.source, time_column, rows_per_s, gate)
            job.change(node.id, spec=replace(node.spec, source=held))
