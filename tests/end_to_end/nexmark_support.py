"""What the Nexmark tests share: data sets, expected results, and one run of a query."""

from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

import pyarrow as pa

from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.dsl.job import Job, embed
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.runs.run_options import RunOptions
from tests.benchmarks.data_sets import DATA_SETS
from tests.benchmarks.oracle import expected
from tests.random_settings import with_random

DISORDER_GROUPS = {"midnight": 10_000, "day": 10}
"""Events that are shuffled among each other: one second of event time in both data sets, well within the delay."""


def config(name: str, *, shuffled: bool, events: int) -> NexmarkConfig:
    """Return a data set's configuration."""
    group = DISORDER_GROUPS[name] if shuffled else 1
    return replace(DATA_SETS[name], events=events, out_of_order_group=group)


class DataSets:
    """Data sets written once per test process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def directory(self, name: str, *, shuffled: bool = False, events: int = 1_000_000) -> Path:
        """Return the directory of a data set, writing it first if need be."""
        return _written(self._folder, name, shuffled, events)


@cache
def _written(folder: Path, name: str, shuffled: bool, events: int) -> Path:
    directory = folder / f"{name}-{'shuffled' if shuffled else 'ordered'}-{events}"
    write_dataset(directory, config(name, shuffled=shuffled, events=events), row_group_rows=50_000)
    return directory


@lru_cache(maxsize=1)
def answer(query: str, directory: Path) -> pa.Table:
    """Return what the oracle says, kept for the next test of the same query: some answers take a gigabyte."""
    return expected(query, directory)


def prepare(
    query: str, directory: Path, *, parallelism: int = 1, batch_rows: int = 32_768, folder: Path
) -> tuple[EmbeddedJob, MemorySink]:
    """Make a query over a data set ready to run, and the sink its result goes to."""
    job, sink = pipeline(query, directory)
    return embed(job, RunOptions(query, parallelism, folder, with_random(batch_rows=batch_rows))), sink


def pipeline(query: str, directory: Path) -> tuple[Job, MemorySink]:
    """Build a query over a data set, and the sink its result goes to."""
    job = Job()
    stream = load(query)(Events(job, directory))
    sink = MemorySink()
    stream.write(sink, mode="changelog" if stream.updating else "append").name(query)
    return job, sink
