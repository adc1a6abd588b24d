"""Joins of every kind: Spark answers what our stream does."""

import random
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col, tumbling
from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.dsl.stream import Stream
from penstock.replay.frames import ReplayError
from penstock.replay.spark_failures import worker_failure
from tests.replay.both import check_both, compiled, random_rows, timed

HOWS = ("inner", "left", "right", "full")

LEFT = random_rows(11, 120, span_s=20).select(["k", "name", "at", "small", "x"])
RIGHT = random_rows(12, 80, span_s=20).select(["k", "at", "name", "price"])


def sides(job: Job) -> tuple[Stream, Stream]:
    return timed(job, LEFT), timed(job, RIGHT)


def test_for_ever(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        left, right = sides(job)
        joins = {how: left.join(right, on=["k", "name"], how=how) for how in HOWS}
        return joins | {"expressions": left.join(right, left_on=col("k") + 1, right_on="k")}

    check_both(spark, build)


def test_of_what_stands(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        left, right = sides(job)
        totals = left.key_by("k").agg(n=ps.count(), most=ps.max_("small"))
        return {how: totals.join(right.key_by("k").agg(rows=ps.count()), on="k", how=how) for how in HOWS}

    check_both(spark, build)


def test_keys_of_different_types(spark: SparkSession) -> None:
    one = pa.table(
        {
            "i": pa.array([1, 2, None], pa.int32()),
            "f": pa.array([0.0, float("nan"), 1.5], pa.float64()),
            "t": pa.array([0, 1_000, 5], pa.timestamp("ms")),
            "d": pa.array([1, 2, 3], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(20, 1)),
        }
    )
    other = pa.table(
        {
            "i": pa.array([2, 1, None], pa.int64()),
            "f": pa.array([-0.0, float("nan"), 1.5], pa.float32()),
            "t": pa.array([0, 1, 5], pa.timestamp("s", "UTC")),
            "d": pa.array([1, 2, 4], pa.int64()).cast(pa.decimal128(19, 0)),
        }
    )

    def build(job: Job) -> dict[str, Stream]:
        left, right = read_memory(one, job=job), read_memory(other, job=job)
        return {name: left.join(right, on=name) for name in one.column_names}

    check_both(spark, build)


def test_keys_that_come_once(spark: SparkSession) -> None:
    once = pa.table({"k": pa.array([0, 1, 2, 3, None]), "title": pa.array(["a", "b", "c", "d", "e"])})

    def build(job: Job) -> dict[str, Stream]:
        left, right = timed(job, LEFT), read_memory(once, job=job)
        joined = left.join(right, on="k", validate="m:1")
        others = read_memory(once, job=job)
        return {
            "m:1": joined,
            "1:m": right.join(left, on="k", validate="1:m"),
            "1:1": right.join(others, on="k", validate="1:1"),
            "where": joined.filter(col("title") != "b"),
        }

    check_both(spark, build)


def test_a_key_that_comes_twice_must_be_the_same(spark: SparkSession) -> None:
    def build(job: Job, titles: list[str]) -> dict[str, Stream]:
        twice = pa.table({"k": pa.array([1, 2, 1, None, None]), "title": titles})
        return {"all": timed(job, LEFT).join(read_memory(twice, job=job), on="k", validate="m:1")}

    check_both(spark, lambda job: build(job, ["a", "b", "a", "c", "d"]))
    frames = compiled(spark, lambda job: build(job, ["a", "b", "e", "c", "d"]))
    with pytest.raises(PySparkException) as raised:
        frames["all"].rows.collect()
    failure = worker_failure(raised.value)
    assert isinstance(failure, ReplayError)
    assert "'join-1' cannot be replayed: keys that are to come once come again with other values on its right" in str(
        failure
    )


def test_within_windows(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        left, right = sides(job)
        return {
            "tumbling": left.join(right, on="k", window=tumbling("5s", offset="2s")),
            "hopping": left.join(right, on=["k", "name"], window=ps.hopping("6s", "4s")),
        }

    check_both(spark, build)


def test_by_interval(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        left, right = sides(job)
        joins = {how: left.interval_join(right, on="k", between=("-2s", "3s"), how=how) for how in HOWS}
        until = left.with_columns(until=ps.when(col("small") > 0).then(col("at")).otherwise(None))
        return joins | {
            "expression": until.interval_join(right, on="k", between=("-4s", col("until")), how="full"),
            "behind": left.interval_join(right, on="name", between=("-5s", "-1s")),
        }

    check_both(spark, build)


def test_random_intervals_and_tolerances(spark: SparkSession) -> None:
    draw = random.Random(18)

    def build(job: Job) -> dict[str, Stream]:
        left, right = sides(job)
        left, right = left.select("k", "at", "small"), right.select("k", "at", "price")
        cases = []
        for _ in range(6):
            lower = draw.randrange(-5_000_000, 5_000_000)
            bounds = (timedelta(microseconds=lower), timedelta(microseconds=lower + draw.choice([0, 1, 3_000_000])))
            cases.append(left.interval_join(right, on="k", between=bounds, how=draw.choice(HOWS)))
        intervals = [stream.select("small", "price", case=ps.lit(case)) for case, stream in enumerate(cases)]
        looks = [
            left.asof_join(right, on="k", tolerance=timedelta(microseconds=draw.choice([1, 999_999, 1_000_000, 10**7])))
            for _ in range(4)
        ]
        nearest = [stream.select("at", "small", "price", case=ps.lit(case)) for case, stream in enumerate(looks)]
        return {"intervals": intervals[0].union(*intervals[1:]), "nearest": nearest[0].union(*nearest[1:])}

    check_both(spark, build)


def test_as_of(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        left, right = sides(job)
        return {
            "left": left.asof_join(right, on="k"),
            "inner": left.asof_join(right, on="k", how="inner", tolerance="2s"),
            "near": left.asof_join(right, on=["k", "name"], tolerance="1s"),
        }

    check_both(spark, build)


def test_as_of_includes_both_ends(spark: SparkSession) -> None:
    def at(second: int) -> datetime:
        return datetime(1970, 1, 1, 0, 0, second)

    left = pa.table({"k": [1, 1, 1], "at": pa.array([at(5), at(7), at(8)], pa.timestamp("us"))})
    right = pa.table({"k": [1], "at": pa.array([at(5)], pa.timestamp("us")), "v": ["x"]})
    answers = check_both(
        spark, lambda job: {"all": timed(job, left).asof_join(timed(job, right), on="k", tolerance="2s")}
    )
    assert sorted(answers["all"]["v"].to_pylist(), key=str) == [None, "x", "x"]


def test_joins_of_joins(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        left, right = sides(job)
        near = left.interval_join(right, on="k", between=("-2s", "2s"))
        return {
            "windows": near.key_by("k").window(tumbling("5s")).agg(n=ps.count(), last=ps.last("price")),
            "again": near.asof_join(right.rename(price="p", name="m"), on="k", suffix="_2"),
        }

    check_both(spark, build)


def test_lookup(spark: SparkSession) -> None:
    table = pa.table({"code": pa.array([0, 1, 1, None]), "title": pa.array(["zero", "one", "uno", "none"])})

    def build(job: Job) -> dict[str, Stream]:
        left = timed(job, LEFT)
        known = ps.lookup_table(table)
        return {
            "inner": left.lookup(known, left_on="k", right_on="code"),
            "left": left.lookup(known, left_on=col("k") + 1, right_on="code", how="left"),
        }

    check_both(spark, build)


def test_a_table_that_is_read_again_is_refused(spark: SparkSession) -> None:
    table = ps.lookup_table(pa.table({"code": [1], "title": ["one"]}), refresh="1m")
    with pytest.raises(
        ReplayError, match=r"'lookup-1' cannot be replayed: its table is read again every 1m.*test_joins"
    ):
        compiled(spark, lambda job: {"all": timed(job, LEFT).lookup(table, left_on="k", right_on="code")})
