"""Reads sources to their end, as the loop does, and checks the reader's promises on the way."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.model.connectors import RawRecord, Read, Reader, Source


@dataclass
class Got:
    """Everything one or several partitions brought."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rejected: list[RawRecord] = field(default_factory=list)
    skipped: int = 0
    skipped_time_us: int | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch.to_pylist()]

    def column(self, name: str) -> list[Any]:
        return [value for batch in self.batches for value in batch.column(name).to_pylist()]

    def add(self, read: Read) -> None:
        if read.rows is not None:
            self.batches.append(read.rows)
        self.rejected.extend(read.rejected)
        self.skipped += read.skipped
        if read.skipped_time_us is not None:
            self.skipped_time_us = max(read.skipped_time_us, self.skipped_time_us or read.skipped_time_us)


def read_all(source: Source, max_rows: int = 1000, parallelism: int = 1, stop_after: int | None = None) -> Got:
    """Read every partition; with ``stop_after``, reopen the reader at its position after that many reads, each time."""
    got = Got()
    for partition in source.partitions(parallelism):
        _read_partition(source, partition, max_rows, stop_after, got)
    return got


def _read_partition(source: Source, partition: str, max_rows: int, stop_after: int | None, got: Got) -> None:
    reader = source.open(partition, None)
    try:
        _read_on(source, partition, reader, max_rows, stop_after, got)
    except Exception:
        reader.close()
        raise


def _read_on(source: Source, partition: str, reader: Reader, max_rows: int, stop_after: int | None, got: Got) -> None:
    reads = 0
    while True:
        read = reader.read(max_rows)
        if read.rows is not None:
            assert 0 < read.rows.num_rows <= max_rows
            assert read.rows.schema.equals(source.schema)
            read.rows.validate(full=True)
        got.add(read)
        if read.ended:
            break
        reads += 1
        if stop_after is not None and reads % stop_after == 0:
            position = json.loads(json.dumps(reader.position()))
            reader.close()
            reader = source.open(partition, position)
    reader.close()


def lines(*texts: str | bytes) -> bytes:
    """Join lines, the last one ended too."""
    return b"".join((text.encode() if isinstance(text, str) else text) + b"\n" for text in texts)


def positions(rejected: Sequence[RawRecord]) -> list[int]:
    """Return the line numbers of raw records."""
    return [int(record.position.rpartition(":")[2]) for record in rejected]


def mutated_lines(good: Sequence[bytes], pieces: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Good lines, half of them with pieces put in, put over something or something taken out in up to two places."""

    @st.composite
    def build(draw: st.DrawFn) -> bytes:
        line = draw(st.sampled_from(good))
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            at, end = sorted(draw(st.integers(0, len(line))) for _ in range(2))
            line = line[:at] + draw(st.sampled_from([*pieces, b""])) + line[end if end - at < 4 else at :]
        return line

    return build()
