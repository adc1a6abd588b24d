"""What the tests of the front door share: a small input, points in time, and one run of a stream."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.dsl.stream import Stream
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.connectors import ENDED, Read, Reader, Source

Row = dict[str, Any]

NOON = datetime(2025, 3, 1, 12)

ORDERS: list[Row] = [
    {"item": "pen", "price": 3, "at": NOON},
    {"item": "ink", "price": 8, "at": NOON + timedelta(seconds=1)},
    {"item": "pen", "price": 5, "at": NOON + timedelta(seconds=4)},
    {"item": None, "price": 2, "at": NOON + timedelta(seconds=11)},
    {"item": "ink", "price": None, "at": NOON + timedelta(seconds=12)},
    {"item": "pen", "price": 4, "at": NOON + timedelta(seconds=25)},
]
SCHEMA = pa.schema({"item": pa.string(), "price": pa.int64(), "at": pa.timestamp("us")})


def noon(seconds: float) -> datetime:
    """Return a point in time after noon."""
    return NOON + timedelta(seconds=seconds)


def orders(job: Job | None = None, **options: Any) -> Stream:
    """Read `ORDERS`, by event time unless told otherwise."""
    return read_memory(ORDERS, schema=SCHEMA, **{"time": "at", "job": job or Job(), **options})


def rows(stream: Stream, **options: Any) -> list[Row]:
    """Run a stream and return its rows, in a repeatable order."""
    result = stream.collect()
    stream.job.run("test", **options)
    return ordered(result.rows())


def ordered(found: list[Row]) -> list[Row]:
    """Sort rows whatever their types."""
    return sorted(found, key=lambda row: [(value is None, str(type(value)), value) for value in row.values()])


def line(metrics: JobMetrics, operator: str) -> dict[str, int]:
    """Return the ledger's figures of an operator that are not zero."""
    found = next(item for item in metrics.ledger.operators if item.operator == operator)
    names = ("rows_in", "passed", "folded", "filtered", "late", "dead_lettered", "rows_out", "shed")
    return {name: value for name in names if (value := getattr(found, name))}


def dead_letters(directory: Path) -> list[Row]:
    """Return the dead letters of a job, without raw bytes."""
    file = directory / "dead_letters.jsonl"
    return [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []


Step: TypeAlias = pa.RecordBatch | Read | Exception


def batch(*items: Row) -> pa.RecordBatch:
    """Return rows in the orders' schema."""
    return pa.RecordBatch.from_pylist(list(items), schema=SCHEMA)


class Script(Source):
    """Does what it is told: gives batches, hands over reads, raises; ends after the last step."""

    def __init__(self, fields: pa.Schema, steps: Iterable[Step], bounded: bool = True) -> None:
        self._fields = fields
        self._steps = steps
        self.bounded = bounded
        self.closed = 0

    @property
    def schema(self) -> pa.Schema:
        return self._fields

    def partitions(self, parallelism: int) -> list[str]:
        return ["only"]

    def open(self, partition: str, position: Any | None) -> Reader:
        return ScriptReader(self, iter(self._steps))

    def describe(self) -> str:
        return "a script"


class ScriptReader(Reader):
    def __init__(self, source: Script, steps: Iterator[Step]) -> None:
        self._source = source
        self._steps = steps
        self._taken = 0

    def read(self, max_rows: int) -> Read:
        step = next(self._steps, ENDED)
        self._taken += 1
        if isinstance(step, pa.RecordBatch):
            return Read(step)
        if isinstance(step, Exception):
            raise step
        return step

    def position(self) -> int:
        return self._taken

    def close(self) -> None:
        self._source.closed += 1
