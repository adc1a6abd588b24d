"""Results are streamed: whenever the sources pause, the sink has what the rows read so far allow, and no less."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.benchmarks.nexmark.events import WATERMARK, Events
from penstock.benchmarks.nexmark.queries import load
from penstock.dsl.job import Job, embed
from penstock.dsl.readers import read
from penstock.dsl.stream import Stream
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.dataflow.worker import Done, Ran
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.model.config import LoopOptions
from penstock.model.connectors import NOTHING, Read, Reader, Source
from penstock.runs.run_options import RunOptions
from tests.benchmarks.data_sets import DELAY_MS
from tests.benchmarks.oracle import INPUTS, QUERIES, ReadSoFar, assert_same_rows, expected
from tests.end_to_end.nexmark_support import DataSets
from tests.long_cases import but_for

PAUSES = 10
CASES = (("midnight", 60_000), ("midnight", 200_000), ("day", 200_000))
"""Data sets, and their events."""


class Tap:
    """How many rows a paused source may give, has given, and whether it has ended."""

    def __init__(self) -> None:
        self.allowed = 0
        self.given = 0
        self.ended = False


class PausedSource(Source):
    """A real source behind a tap."""

    def __init__(self, source: Source, tap: Tap) -> None:
        self._source = source
        self._tap = tap

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        return self._source.partitions(1)

    def open(self, partition: str, position: Any | None) -> Reader:
        return PausedReader(self._source.open(partition, position), self._tap)

    def restrict(self, columns: Sequence[str], predicate: Any) -> Source:
        # Rows a source leaves out by itself would not pass the tap.
        return PausedSource(self._source.restrict(columns, None), self._tap)


class PausedReader(Reader):
    def __init__(self, reader: Reader, tap: Tap) -> None:
        self._reader = reader
        self._tap = tap

    def read(self, max_rows: int) -> Read:
        room = self._tap.allowed - self._tap.given
        if room <= 0:
            return NOTHING
        got = self._reader.read(min(room, max_rows))
        self._tap.given += got.rows.num_rows if got.rows is not None else 0
        self._tap.ended = got.ended
        return got

    def position(self) -> Any:
        return self._reader.position()


class PausedEvents(Events):
    """Event streams behind taps."""

    def __init__(self, job: Job, directory: Path, taps: dict[str, Tap]) -> None:
        super().__init__(job, directory)
        self._directory = directory
        self._taps = taps

    def _read(self, kind: str) -> Stream:
        tap = self._taps.setdefault(kind, Tap())
        source = PausedSource(ParquetSource(self._directory / f"{kind}.parquet"), tap)
        return read(source, time="dateTime", watermark=WATERMARK, job=self._job).name(kind)


def run_until_nothing_is_runnable(job: EmbeddedJob) -> bool:
    """Turn the loop by hand; return whether the job is done. A paused source is asked, has nothing, and is left."""
    quiet = 0
    while True:
        outcome = job.worker.step()
        if isinstance(outcome, Done):
            return True
        quiet = 0 if isinstance(outcome, Ran) else quiet + 1
        if quiet:
            return False


@pytest.mark.parametrize(
    ("query", "name", "events"),
    but_for(
        [(query, *what) for query in QUERIES for what in CASES],
        [(query, *CASES[0]) for query in QUERIES],
        "more events, and another day of the same queries; fewer over midnight stay",
    ),
)
def test_paused_sources(data_sets: DataSets, tmp_path: Path, query: str, name: str, events: int) -> None:
    directory = data_sets.directory(name, shuffled=True, events=events)
    chance = random.Random(f"{query} {name}")
    taps: dict[str, Tap] = {}
    job = Job()
    stream = load(query)(PausedEvents(job, directory, taps))
    sink = MemorySink()
    stream.write(sink, mode="changelog" if stream.updating else "append").name(query)
    embedded = embed(job, RunOptions(query, 1, tmp_path, LoopOptions(batch_rows=3_000, linger_ms=0)))
    shares = {"person": 0.02, "auction": 0.06, "bid": 0.92}
    pauses = sorted(chance.sample(range(events), PAUSES))
    for pause in pauses:
        for kind, tap in taps.items():
            tap.allowed = int(pause * shares[kind] * chance.uniform(0.9, 1.0))
        assert not run_until_nothing_is_runnable(embedded)
        so_far = ReadSoFar({kind: tap.given for kind, tap in taps.items()}, DELAY_MS)
        assert set(taps) == set(INPUTS[query])
        assert_same_rows(sink.table(), expected(query, directory, upto=so_far))
    for tap in taps.values():
        tap.allowed = events
    embedded.run()
    assert_same_rows(sink.table(), expected(query, directory))
