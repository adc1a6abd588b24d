"""Records a real embedded job at three loads, so that the simulated cluster can be held against it.

A source of a given rate, a map that costs much (two instances), and a keyed count share one thread. It is run by hand,
``python -m tests.benchmarks.papers.cluster_model.recorded_run [FILE]``; the recording that is checked in was made so.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dsl.aggregates import count
from penstock.dsl.job import Job
from penstock.dsl.readers import read
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.connectors import NOTHING, Read, Reader, Source

LOADS = {"under": 0.4, "near": 0.8, "over": 2.0}
"""The source's rate as a part of what the job can do, which is measured first."""
SECONDS = 8.0
TURNS = 3
"""How often all loads are run, one after the other, so that what else the machine does falls on all of them alike."""
SAMPLES_PER_S = 2.0
KEYS = 16
ROUNDS = 2000
"""How often the map walks over its rows: what makes it cost much."""
CHANNEL_BYTES = 32_000
BATCH_ROWS = 2000
"""The source waits for so many, as a client does that fetches a least number of bytes: all batches are alike."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment of a run: totals since it began. ``lag_rows`` had been appended to the source's list and not read.

    By task, sources first, of all its instances: ``rows`` taken, and nanoseconds ``busy_ns``, ``core_wait_ns``,
    ``input_wait_ns`` and ``output_wait_ns``.
    """

    seconds: float
    lag_rows: int
    rows: tuple[int, ...]
    busy_ns: tuple[int, ...]
    core_wait_ns: tuple[int, ...]
    input_wait_ns: tuple[int, ...]
    output_wait_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """A run at ``rate`` rows a second."""

    name: str
    rate: float
    samples: tuple[Sample, ...]


class GrowingList(Source):
    """A list that grows by ``rate`` rows a second from its first read on, and is read from its beginning."""

    bounded = False

    def __init__(self, rate: float) -> None:
        """Nothing grows yet."""
        self._rate = rate
        self._began_s: float | None = None
        self.read_rows = 0

    @property
    def schema(self) -> pa.Schema:
        """A key and a value."""
        return pa.schema([("key", pa.int64()), ("value", pa.float64())])

    @property
    def length(self) -> int:
        """How many rows there are by now."""
        if self._began_s is None:
            self._began_s = time.monotonic()
        return int((time.monotonic() - self._began_s) * self._rate)

    def partitions(self, parallelism: int) -> Sequence[str]:
        """There is one."""
        return ["0/1"]

    def open(self, partition: str, position: Any | None) -> Reader:
        """Read it."""
        return _ListReader(self)

    def describe(self) -> str:
        """Say how it grows."""
        return f"a list that grows by {self._rate:,.0f} rows a second"


class _ListReader(Reader):
    def __init__(self, source: GrowingList) -> None:
        self._source = source

    def read(self, max_rows: int) -> Read:
        """Return what is there and was not read."""
        rows = min(max_rows, self._source.length - self._source.read_rows)
        if rows < BATCH_ROWS:
            return NOTHING
        numbers = np.arange(self._source.read_rows, self._source.read_rows + rows)
        self._source.read_rows += rows
        return Read(pa.record_batch({"key": numbers * 7919 % KEYS, "value": numbers.astype(np.float64)}))

    def position(self) -> int:
        """Return how many rows were read."""
        return self._source.read_rows


def costly(rows: dict[str, Any]) -> dict[str, Any]:
    """Walk over the rows again and again."""
    value = rows["value"]
    for _ in range(ROUNDS):
        value = np.sqrt(value * value + 1.0)
    return {"key": rows["key"], "value": value}


def record(name: str, rate: float, seconds: float) -> Load:
    """Run the job at a rate, and look at it twice a second."""
    job, source = Job(), GrowingList(rate)
    # Two instances of the map, so that neither end of it is chained to a neighbour.
    rows = read(source, job=job).rebalance().map_batches(costly, format="numpy").parallelism(2)
    rows.key_by("key").agg(rows=count()).write_black_hole(mode="changelog")
    with TemporaryDirectory() as folder:
        handle = job.start(
            "recorded", directory=Path(folder), batch_rows=BATCH_ROWS, channel_bytes=CHANNEL_BYTES, linger_ms=10
        )
        samples = []
        for _ in range(round(seconds * SAMPLES_PER_S)):
            time.sleep(1 / SAMPLES_PER_S)
            samples.append(_sample(handle.metrics(), source))
        handle.stop()
    return Load(name, rate, tuple(samples))


def record_all() -> Sequence[Load]:
    """Find out what the job can do, and record it at the three loads, several times each."""
    tried = record("flat out", 1e7, 5.0).samples
    capacity = (tried[-1].rows[-1] - tried[3].rows[-1]) / (tried[-1].seconds - tried[3].seconds)
    return [record(name, part * capacity, SECONDS) for _ in range(TURNS) for name, part in LOADS.items()]


def _sample(metrics: JobMetrics, source: GrowingList) -> Sample:
    tasks = list(dict.fromkeys(item.task for item in metrics.instances))
    rows_in = {line.operator: line.rows_in for line in metrics.ledger.operators}

    def spent(name: str) -> tuple[int, ...]:
        return tuple(sum(getattr(item.time, name) for item in metrics.instances if item.task == task) for task in tasks)

    return Sample(
        metrics.elapsed_ns / 1e9,
        source.length - source.read_rows,
        tuple(rows_in[task.split(" -> ")[0]] for task in tasks),
        spent("busy_ns"),
        spent("core_wait_ns"),
        spent("input_wait_ns"),
        spent("output_wait_ns"),
    )


def main(file: str | None) -> None:
    """Write the recording as JSON, to a file or to standard output."""
    loads = [asdict(load) for load in record_all()]
    text = json.dumps({"batch_rows": BATCH_ROWS, "instances": [1, 2, 1], "loads": loads})
    if file is None:
        print(text)
    else:
        Path(file).write_text(text.replace('{"seconds"', '\n{"seconds"') + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
