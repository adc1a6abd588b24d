"""Sources of users' own in Spark: what goes to its workers, and what cannot."""

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.model.errors import UserError
from penstock.replay.bounded_source import PIECE, ROW, pieces_of, scan

SCHEMA = pa.schema({"n": pa.int64()})


class Numbers(ps.Source):
    """Three partitions of so many numbers each."""

    def __init__(self, rows: int, held: Any = None) -> None:
        self._rows, self._held = rows, held

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def bounded(self) -> bool:
        return True

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["a", "b", "c"]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return NumbersReader(self._rows)


class NumbersReader(ps.Reader):
    def __init__(self, stop: int) -> None:
        self._next, self._stop = 0, stop

    def read(self, max_rows: int) -> ps.Read:
        if self._next == self._stop:
            return ps.ENDED
        first, self._next = self._next, min(self._next + max_rows, self._stop)
        return ps.Read(pa.record_batch({"n": pa.array(range(first, self._next), pa.int64())}))

    def position(self) -> Any:
        return self._next


def test_each_partition_is_read_once_and_its_rows_are_numbered(spark: SparkSession) -> None:
    rows = scan(spark, SCHEMA, pieces_of(Numbers(40), 2), numbered=True).collect()
    assert sorted((row[PIECE], row[ROW], row["n"]) for row in rows) == [(p, n, n) for p in range(3) for n in range(40)]


def test_a_source_that_cannot_be_sent_is_named(spark: SparkSession) -> None:
    source = Numbers(3, held=threading.Lock())
    with pytest.raises(UserError, match=r"Numbers.* cannot be sent to Spark's workers \(.*lock.*build it from parts"):
        scan(spark, SCHEMA, pieces_of(source, 2))
