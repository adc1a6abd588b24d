"""Top-n and deduplication as users write them, in two instances, against DuckDB's ROW_NUMBER over the same rows."""

import math
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from penstock.dsl.aggregates import count
from penstock.dsl.job import Job
from penstock.dsl.keyed_stream import KeyedStream
from penstock.dsl.readers import read_memory
from penstock.dsl.stream import Stream
from penstock.model.expressions import col
from tests.engine.operators.ranking.top_support import hashable

ROWS = 3_000


def table() -> pa.Table:
    """Return rows with few different values, in disorder of at most a second."""
    chance = np.random.default_rng(11)
    times = np.arange(ROWS) * 20_000 // 50 * 50 + chance.integers(0, 20, ROWS) * 50_000
    prices = [None if pick == 0 else math.nan if pick == 1 else pick / 4 for pick in chance.integers(0, 9, ROWS)]
    columns = {
        "k": pa.array([None if pick == 0 else f"key{pick}" for pick in chance.integers(0, 40, ROWS)]),
        "price": pa.array(prices, pa.float64()),
        "n": pa.array(chance.integers(0, 4, ROWS)),
        "s": pa.array([None if pick == 0 else f"text-{pick}" for pick in chance.integers(0, 4, ROWS)]),
        "ts": pa.array(times, pa.timestamp("us")),
    }
    return pa.table(columns)


def run(stream: Stream, batch_rows: int) -> list[tuple[Any, ...]]:
    result = stream.collect()
    stream.job.run("test", parallelism=2, batch_rows=batch_rows)
    return sorted((hashable(row.values()) for row in result.rows()), key=repr)


def answer(sql: str) -> list[tuple[Any, ...]]:
    items = table()  # noqa: F841, DuckDB finds the table by this name
    with duckdb.connect() as connection:
        return sorted((hashable(row) for row in connection.sql(sql).fetchall()), key=repr)


def read() -> Stream:
    return read_memory(table(), time="ts", watermark="1s", job=Job())


@pytest.mark.parametrize("batch_rows", [97, 8_192])
@pytest.mark.parametrize("limit", [1, 4])
def test_top(limit: int, batch_rows: int) -> None:
    found = run(read().key_by("k").top(limit, by=[col("price").desc(), col("n")], rank="place"), batch_rows)
    assert found == answer(
        f"""SELECT *, row_number() OVER (PARTITION BY k ORDER BY price DESC NULLS LAST, n,
            s NULLS FIRST, ts) AS place FROM items QUALIFY place <= {limit}"""
    )


def test_top_of_all_rows() -> None:
    assert run(KeyedStream(read(), ()).top(7, by="s"), 500) == answer(
        "SELECT * FROM items ORDER BY s NULLS LAST, k NULLS FIRST, price NULLS FIRST, n, ts LIMIT 7"
    )


@pytest.mark.parametrize("batch_rows", [97, 8_192])
def test_top_of_a_changelog(batch_rows: int) -> None:
    totals = read().key_by("k", "n").emit(every=0).agg(total=count())
    assert run(totals.key_by("n").top(3, by=col("total").desc()), batch_rows) == answer(
        """SELECT k, n, count(*) AS total FROM items GROUP BY k, n
           QUALIFY row_number() OVER (PARTITION BY n ORDER BY total DESC, k NULLS FIRST) <= 3"""
    )


@pytest.mark.parametrize("batch_rows", [97, 8_192])
def test_deduplicate(batch_rows: int) -> None:
    first = """SELECT * FROM items QUALIFY row_number() OVER (
        PARTITION BY k, n ORDER BY ts, price NULLS FIRST, s NULLS FIRST) = 1"""
    assert run(read().key_by("k", "n").deduplicate(), batch_rows) == answer(first)
    last = """SELECT * FROM items QUALIFY row_number() OVER (
        PARTITION BY k, n ORDER BY ts DESC, price DESC NULLS LAST, s DESC NULLS LAST) = 1"""
    assert run(read().key_by("k", "n").deduplicate("last"), batch_rows) == answer(last)


@pytest.mark.parametrize("columns", [("k", "price"), ("s",), ()])
def test_distinct(columns: tuple[str, ...]) -> None:
    assert run(read().distinct(*columns), 97) == answer(f"SELECT DISTINCT {', '.join(columns) or '*'} FROM items")


def test_distinct_of_a_changelog() -> None:
    totals = read().key_by("k", "n").emit(every=0).agg(total=count())
    assert run(totals.distinct("total"), 97) == answer(
        "SELECT DISTINCT total FROM (SELECT k, n, count(*) AS total FROM items GROUP BY ALL)"
    )
