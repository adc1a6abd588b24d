"""Operators that take rows by themselves, and user functions: Spark answers what our stream does."""

import asyncio
import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col, hash_
from penstock.dsl.job import Job
from penstock.dsl.stream import Stream
from tests.long_cases import but_for
from tests.replay.both import EPOCH, FIELDS, check_both, compiled, random_rows, timed

ROWS = random_rows(31, 300)
TAKEN = {"k": "int64", "at": "timestamp[us]", "label": "string"}
YEAR = 365 * 86_400


def test_rows_of_which_some_have_no_answer(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, ROWS)
        parts = stream.split(many=col("n") * 3 > 0, small=col("small") + col("k") > 0, named=col("name") == "a")
        return {
            "filter": stream.filter((col("n") * 2 > 0) | col("flag")),
            "select": stream.select("k", "at", total=col("n") + col("small"), cheap=col("price") < 2),
            "both": stream.filter(col("n") + col("n") > -5).with_columns(n=col("n") * col("k"), x=col("x") // 2),
            "union": stream.filter(col("flag")).union(stream.filter(col("k") > 2), stream),
            "nothing": stream.filter(ps.lit(None)),
            **{f"split {name}": part for name, part in parts.items()},
        }

    answers = check_both(spark, build)
    assert 0 < answers["filter"].num_rows < 300 and 0 < answers["both"].num_rows < 300


def test_what_only_our_kernels_compute(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, ROWS)
        parts = stream.split(odd=hash_("name", "k") % 2 != 0, much=col("n") * 3 > 0)
        return {
            "hash": stream.with_columns(h=hash_("k", "name", "price", "at"), twice=col("n") * 2),
            "where": stream.filter(hash_("k") % 3 == 0).select("k", "at", written=col("x").cast(str)),
            **{f"split {name}": part for name, part in parts.items()},
        }

    check_both(spark, build)


def test_of_a_changelog(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        counts = timed(job, ROWS).key_by("k", "name").agg(n=ps.count(), most=ps.max_("small"))
        return {
            "expressions": counts.filter(col("n") > 3).select("k", "name", sum=col("n") + col("most")),
            "functions": counts.filter(lambda n: n > 3).map(lambda row: {**row, "n": row["n"] + 1}),
        }

    check_both(spark, build)


def _label(k: int | None, at: datetime.datetime, name: str) -> dict[str, Any]:
    return {"k": None if k is None else 6 // k, "at": at, "label": name.upper()}


def _some(row: dict[str, Any]) -> Any:
    for index in range(row["k"]):
        yield {"k": index, "at": None if index > 3 else row["at"], "label": row["name"]}


def _batch(rows: pa.RecordBatch) -> dict[str, Any]:
    return {"k": pc.add(rows["k"], 1), "at": rows["at"], "label": pc.utf8_reverse(rows["name"])}


def test_functions_on_rows_and_batches(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, ROWS)
        return {
            "filter": stream.filter(lambda small, k: 10 // small > k),
            "map": stream.map(_label, schema=TAKEN),
            "flat_map": stream.flat_map(_some, schema=TAKEN),
            "map_batches": stream.map_batches(_batch, schema=TAKEN),
            "numpy": stream.map_batches(lambda x: {"x": x["x"] * 2}, schema={"x": "float64"}, format="numpy"),
        }

    answers = check_both(spark, build)
    assert 0 < answers["map"].num_rows < 300 and answers["flat_map"].num_rows > 0


@pytest.mark.parametrize("ordered", but_for([True, False], [False], "the same coroutines in order; [False] stays"))
def test_coroutines(spark: SparkSession, ordered: bool) -> None:
    tries: dict[Any, int] = {}
    some = ROWS.slice(0, 100)
    # One row waits for the timeout, which is longer than a busy machine lets the others wait.
    waiting = [number for number, k in enumerate(some["k"].to_pylist()) if k == 4]
    rows = some.take([number for number in range(100) if number not in waiting[1:]])

    async def ask(k: int, at: datetime.datetime, name: str) -> dict[str, Any]:
        tries[at, k, name] = tries.get((at, k, name), 0) + 1
        await asyncio.sleep(0.01 if k == 1 else 60 if k == 4 else 0)
        if k == 3 and tries[at, k, name] == 1:
            raise ValueError("not yet")
        return {"k": 6 // k, "at": at, "label": name}

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows)
        return {
            "asked": stream.map_async(ask, schema=TAKEN, capacity=7, ordered=ordered, timeout="3s", retries=1),
        }

    answers = check_both(spark, build)
    assert 0 < answers["asked"].num_rows < rows.num_rows


def test_another_event_time(spark: SparkSession) -> None:
    fields = pa.schema([*FIELDS, ("then", pa.timestamp("ms", "UTC"))])
    moments = [EPOCH + datetime.timedelta(seconds=60 * i) for i in range(300)]
    # Beyond the years 1 to 9999, and none.
    ticks = pa.array(moments, pa.timestamp("ms", "UTC")).cast("int64").to_pylist()
    ticks[3], ticks[5], ticks[7] = None, -3000 * YEAR * 1000, 9000 * YEAR * 1000
    rows = ROWS.append_column(fields.field("then"), pa.array(ticks, "int64").cast(fields.field("then").type))

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows).event_time("then", delay="1d")
        return {"rows": stream, "windows": stream.key_by("k").window(ps.tumbling("1h")).agg(n=ps.count())}

    assert check_both(spark, build)["rows"].num_rows == 297


def test_on_error_fail_ends_the_query(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        return {"map": timed(job, ROWS).map(_label, schema=TAKEN, on_error="fail")}

    frame = compiled(spark, build)["map"]
    with pytest.raises(PySparkException, match="could not process"):
        frame.rows.collect()
