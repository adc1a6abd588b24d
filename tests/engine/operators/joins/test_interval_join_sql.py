"""Interval joins from the front door, in two instances, against DuckDB."""

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock as ps
from penstock import col, count, tumbling
from penstock.dsl.job import Job
from penstock.model.errors import PlanError
from penstock.model.join_specs import HOWS

START = datetime(2025, 3, 1)


def table(name: str, rows: int, seed: int) -> pa.Table:
    """Return rows in order of time but for two seconds, with keys that are sometimes null."""
    cut = random.Random(seed)
    seconds = sorted(range(rows), key=lambda at: at + 2 * cut.random())
    return pa.table(
        {
            "key": pa.array([cut.choice(["a", "b", "c", None]) for _ in seconds], pa.string()),
            name: pa.array(range(rows), pa.int64()),
            "at": pa.array([START + timedelta(seconds=second // 2) for second in seconds], pa.timestamp("ms")),
            "until": pa.array(
                [START + timedelta(seconds=second // 2 + cut.randint(-2, 9)) for second in seconds],
                pa.timestamp("ns"),
            ),
        }
    )


LEFT, RIGHT = table("l", 300, 1), table("r", 500, 2)


def streams(job: Job) -> tuple[ps.Stream, ps.Stream]:
    return tuple(ps.read_memory(rows, time="at", watermark="3s", job=job) for rows in (LEFT, RIGHT))


def run(stream: ps.Stream, **options: Any) -> Counter[tuple[Any, ...]]:
    result = stream.collect()
    stream.job.run("test", **options)
    return Counter(tuple(row.values()) for row in result.rows())


def sql(text: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("lefts", LEFT)
        connection.register("rights", RIGHT)
        return Counter(connection.execute(text).fetchall())


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("between", "condition"),
    [
        (("-3s", "4s"), "rights.at BETWEEN lefts.at - INTERVAL 3 SECONDS AND lefts.at + INTERVAL 4 SECONDS"),
        (("1s", col("until")), "rights.at >= lefts.at + INTERVAL 1 SECOND AND rights.at <= lefts.until::TIMESTAMP"),
    ],
)
def test_equals_sql(how: str, between: Any, condition: str) -> None:
    left, right = streams(Job())
    joined = left.interval_join(right, on="key", between=between, how=how).select("l", "r")
    expected = sql(f"SELECT l, r FROM lefts {how.upper()} JOIN rights ON lefts.key = rights.key AND {condition}")
    assert run(joined, parallelism=2, batch_rows=32) == expected


def test_windows_after_an_interval_join() -> None:
    left, right = streams(Job())
    joined = left.interval_join(right, on="key", between=("-2s", "3s"))
    counted = joined.key_by("key").window(tumbling("10s")).agg(n=count()).select("key", "n", start=col("window_start"))
    expected = sql(
        "SELECT lefts.key, count(*), time_bucket(INTERVAL 10 SECONDS, lefts.at) FROM lefts JOIN rights"
        " ON lefts.key = rights.key"
        " AND rights.at BETWEEN lefts.at - INTERVAL 2 SECONDS AND lefts.at + INTERVAL 3 SECONDS"
        " GROUP BY ALL"
    )
    assert run(counted, parallelism=2, batch_rows=32) == expected


def test_another_event_time_and_late_rows() -> None:
    left, _ = streams(Job())
    timed = left.event_time("until", delay="3s")
    counted = timed.window(tumbling("5s")).agg(n=count()).select("n", start=col("window_start"))
    expected = sql(
        "SELECT count(*), time_bucket(INTERVAL 5 SECONDS, until::TIMESTAMP) AS start FROM lefts GROUP BY start"
    )
    assert run(counted, parallelism=2, batch_rows=32) == expected


def test_a_full_join_has_no_event_time() -> None:
    left, right = streams(Job())
    joined = left.interval_join(right, on="key", between=("0s", "3s"), how="full")
    with pytest.raises(PlanError, match="needs event time"):
        joined.window(tumbling("10s")).agg(n=count())
