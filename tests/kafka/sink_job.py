"""Numbers to a Kafka topic, exactly once and not too fast: a program that tests run and kill.

Arguments: bootstrap address, topic, rows of each of the two partitions, milliseconds between reads, and the row behind
which the source waits for ever.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.sinks import SinkHandle
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
READ_ROWS = 200


class Numbers(Source):
    """Two partitions of numbers: even and odd ones.

    Those that wait have something to come after the row ``waits_at`` for ever: their job ends only if it is killed.
    """

    def __init__(self, rows: int, pause_ms: float = 0.0, waits_at: int | None = None) -> None:
        self.rows, self.pause_ms = rows, pause_ms
        self.given = rows if waits_at is None else min(rows, waits_at)

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["0", "1"]

    def open(self, partition: str, position: Any | None) -> Reader:
        return NumbersReader(self, int(partition), position or 0)


class NumbersReader(Reader):
    """One of them; the position is the number of rows read."""

    def __init__(self, source: Numbers, first: int, position: int) -> None:
        self._source, self._first, self._position = source, first, position

    def read(self, max_rows: int) -> Read:
        end = min(self._source.given, self._position + min(max_rows, READ_ROWS))
        if end <= self._position:
            return ENDED if self._position == self._source.rows else NOTHING
        time.sleep(self._source.pause_ms / 1_000)
        ids = range(2 * self._position + self._first, 2 * end + self._first, 2)
        self._position = end
        return Read(pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"n{i}" for i in ids])], schema=SCHEMA))

    def position(self) -> int:
        return self._position


def numbers_to(
    kafka: str, topic: str, rows: int, pause_ms: float = 0.0, waits_at: int | None = None, **options: Any
) -> SinkHandle:
    """Build the pipeline in a job of its own."""
    numbers = ps.read(Numbers(rows, pause_ms, waits_at), job=Job()).name("numbers")
    given = {"guarantee": "exactly_once", "key": "id", **options}
    return numbers.rebalance().write_kafka(topic, kafka=kafka, **given).name("out")


if __name__ == "__main__":
    address, name, count, pause, last = sys.argv[1:6]
    numbers_to(address, name, int(count), float(pause), int(last)).job.run("numbers")
