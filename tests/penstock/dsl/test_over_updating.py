"""Frames of an updating stream, by an order of its own, against DuckDB."""

import random

import duckdb
import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from tests.benchmarks.same_rows import assert_same_rows


def visits(count: int) -> pa.Table:
    chance = random.Random(7)
    rows = [
        {
            "shop": chance.choice(["a", "b", "c", None]),
            "visitor": chance.randrange(25),
            "spent": chance.choice([None, 1, 2, 3, 50]),
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, pa.schema({"shop": "string", "visitor": "int64", "spent": "int64"}))


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("batch_rows", [1, 13, 1_000])
@pytest.mark.parametrize("frame", [None, 3])
def test_the_last_rows_of_a_key_over_a_running_aggregate(parallelism: int, batch_rows: int, frame: int | None) -> None:
    table = visits(120)
    job = ps.Job()
    totals = ps.read_memory(table, job=job).key_by("shop", "visitor").emit(every=0).agg(total=ps.sum_("spent"))
    ranked = (
        totals.key_by("shop").over(frame, by=[col("total").desc(), "visitor"]).agg(best=ps.sum_("total"), n=ps.count())
    )
    assert ranked.updating
    result = ranked.collect()
    job.run("over", parallelism=parallelism, batch_rows=batch_rows)
    rows = "UNBOUNDED" if frame is None else frame - 1
    with duckdb.connect() as connection:
        connection.register("visits", table)
        expected = connection.sql(
            f"""
            WITH totals AS (SELECT shop, visitor, sum(spent)::BIGINT AS total FROM visits GROUP BY ALL)
            SELECT shop, visitor, total, sum(total) OVER frame::BIGINT AS best, count(*) OVER frame AS n
            FROM totals
            WINDOW frame AS (
                PARTITION BY shop ORDER BY total DESC NULLS LAST, visitor ROWS BETWEEN {rows} PRECEDING AND CURRENT ROW
            )
            """
        ).to_arrow_table()
    assert_same_rows(result.table(), expected)


def test_an_order_of_its_own_corrects_an_append_only_stream() -> None:
    job = ps.Job()
    rows = ps.read_memory([{"k": 1, "v": 3}, {"k": 1, "v": 1}, {"k": 1, "v": None}], job=job)
    result = rows.key_by("k").over(by="v").agg(below=ps.count()).collect()
    job.run("over", batch_rows=1)
    assert sorted(result.rows(), key=lambda row: row["below"]) == [
        {"k": 1, "v": 1, "below": 1},
        {"k": 1, "v": 3, "below": 2},
        {"k": 1, "v": None, "below": 3},
    ]


def test_an_updating_stream_needs_an_order() -> None:
    totals = ps.read_memory(visits(5), job=ps.Job()).key_by("shop").agg(n=ps.count())
    with pytest.raises(ps.PlanError, match=r"say what orders them: over\(rows, by=\.\.\.\)"):
        totals.key_by("shop").over(3).agg(m=ps.sum_("n"))
