"""Aggregates of every function and type: Spark answers what our stream does."""

import decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col, tumbling
from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.dsl.stream import Stream
from penstock.model.aggregates import AggregateCall
from tests.replay.both import check_both, collected, compiled, random_rows, timed

VALUES = ("k", "name", "n", "small", "x", "price", "flag", "day", "raw", "at")
NUMBERS = ("small", "x", "price")


def every_aggregate() -> dict[str, AggregateCall]:
    """Return every function over every type that it takes."""
    positive = col("small") >= 0
    calls = {"rows": ps.count(), "some": ps.count().filter(positive), "mean_n": ps.mean("n")}
    for name in VALUES:
        calls |= {
            f"count_{name}": ps.count(name),
            f"min_{name}": ps.min_(name),
            f"max_{name}": ps.max_(name).filter(positive),
            f"first_{name}": ps.first(name),
            f"last_{name}": ps.last(name).filter(positive),
            f"arg_min_{name}": ps.arg_min("x", name),
            f"arg_max_{name}": ps.arg_max("name", name),
        }
    for name in NUMBERS:
        calls |= {
            f"sum_{name}": ps.sum_(name),
            f"mean_{name}": ps.mean(name).filter(positive),
            f"variance_{name}": ps.variance(name),
            f"stddev_{name}": ps.stddev(name).filter(positive),
        }
    return calls


def test_every_aggregate_of_every_type(spark: SparkSession) -> None:
    rows = random_rows(1, 300)
    check_both(spark, lambda job: {"all": timed(job, rows).key_by("k").agg(**every_aggregate())})


def test_types_that_spark_carries_by_others(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    rows = pa.table(
        {
            "k": pa.array([1, 1, 1, 2, 2, 2], pa.uint8()),
            "at": pa.array([0, 0, 5, -1, None, 7], pa.timestamp("ms", "Europe/Paris")),
            "big": pa.array([2**63, 5, None, 0, 1, 2], pa.uint64()),
            "four": pa.array([2**32 - 1, 2**32 - 1, 0, None, None, None], pa.uint32()),
            "tiny": pa.array([-128, 127, None, 0, 1, 1], pa.int8()),
            "float": pa.array([1.5, float("nan"), -0.0, 0.0, None, 2.0], pa.float32()),
            "clock": pa.array([0, 86_399, None, 5, 4, 3], pa.time32("s")),
            "took": pa.array([-5, 5, None, 3, 2, 1], pa.duration("ms")),
            "fixed": pa.array([b"ab", b"\xff\x00", None, b"aa", b"  ", b"zz"], pa.binary(2)),
            "wide": pa.array([decimal.Decimal("1e30"), None, decimal.Decimal(2)] * 2, pa.decimal128(38, 2)),
        }
    )
    calls: dict[str, AggregateCall] = {}
    for name in rows.column_names[1:]:
        calls |= {
            f"count_{name}": ps.count(name),
            f"min_{name}": ps.min_(name),
            f"first_{name}": ps.first(name),
            f"arg_max_{name}": ps.arg_max("tiny", name),
            f"distinct_{name}": ps.count_distinct(name),
        }
    for name in ("four", "tiny", "float", "took", "wide"):
        calls[f"sum_{name}"] = ps.sum_(name)
    for name in ("big", "four", "tiny", "float", "wide"):
        calls |= {f"mean_{name}": ps.mean(name), f"variance_{name}": ps.variance(name)}

    def build(job: Job) -> dict[str, Stream]:
        return {"all": timed(job, rows).key_by("k").agg(**calls)}

    try:
        check_both(spark, build)
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")


def test_multisets(spark: SparkSession) -> None:
    rows = random_rows(2, 200)
    calls: dict[str, AggregateCall] = {}
    for name in ("name", "n", "x", "price", "day"):
        calls |= {f"distinct_{name}": ps.count_distinct(name), f"listed_{name}": ps.collect_list(name)}
    calls |= {"some": ps.count_distinct("x").filter(col("n") > 0), "few": ps.collect_list("x").filter(col("n") > 7)}
    check_both(spark, lambda job: {"all": timed(job, rows).key_by("k").agg(**calls)})


def test_what_is_approximate_in_the_stream_is_exact(spark: SparkSession) -> None:
    pytest.importorskip("datasketches")
    rows = pa.table({"x": pa.array([4.0, 1.0, 3.0, 2.0, None, float("nan")]), "k": pa.array([1] * 6)})

    def build(job: Job) -> dict[str, Stream]:
        calls = {f"q{q}": ps.approx_quantile("x", q / 4) for q in range(5)}
        return {"all": read_memory(rows, job=job).key_by("k").agg(n=ps.approx_count_distinct("x"), **calls)}

    check_both(spark, build)


def test_aggregates_of_aggregates(spark: SparkSession) -> None:
    rows = random_rows(5, 300)

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows)
        counts = stream.key_by("k").window(tumbling("5s")).agg(n=ps.count(), most=ps.max_("small"))
        standing = stream.key_by("k", "name").agg(n=ps.count(), most=ps.max_("small"))
        return {
            "of_windows": counts.window(tumbling("20s")).agg(n=ps.sum_("n"), last=ps.last("most")),
            "of_updates": standing.key_by("n").agg(rows=ps.count(), most=ps.max_("most")),
            "keys": stream.key_by("k", "flag").agg(),
        }

    check_both(spark, build)


def test_rows_without_an_answer_are_left_out(spark: SparkSession) -> None:
    rows = pa.table({"k": pa.array([1, 1, 2]), "n": pa.array([2**63 - 1, 5, 2])})

    def build(job: Job) -> dict[str, Stream]:
        stream = read_memory(rows, job=job)
        return {"all": stream.key_by("k").agg(total=ps.sum_(col("n") + 1), n=ps.count())}

    answers = check_both(spark, build)
    assert sorted(answers["all"]["n"].to_pylist()) == [1, 1]


def test_sums_overflow_only_as_a_whole(spark: SparkSession) -> None:
    rows = pa.table({"k": [1, 1, 1], "n": pa.array([2**63 - 1, 2**63 - 1, -(2**63)])})
    answers = check_both(spark, lambda job: {"all": read_memory(rows, job=job).key_by("k").agg(n=ps.sum_("n"))})
    assert answers["all"]["n"].to_pylist() == [2**63 - 2]

    def beyond(job: Job) -> dict[str, Stream]:
        return {"all": read_memory(rows.slice(0, 2), job=job).key_by("k").agg(n=ps.sum_("n"))}

    with pytest.raises(Exception, match="CAST_OVERFLOW"):
        collected(compiled(spark, beyond)["all"])


def test_nothing_in_nothing_out(spark: SparkSession) -> None:
    rows = random_rows(6, 1).slice(0, 0)

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows)
        return {
            "whole": stream.window(ps.global_window()).agg(n=ps.count()),
            "keyed": stream.key_by("k").agg(n=ps.count()),
        }

    assert [answer.num_rows for answer in check_both(spark, build).values()] == [0, 0]
