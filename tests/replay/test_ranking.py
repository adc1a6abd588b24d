"""Top-n, deduplication and running aggregates: Spark answers what our stream does."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col
from penstock.dsl.job import Job
from penstock.dsl.stream import Stream
from penstock.model.aggregates import AggregateCall
from penstock.replay.frames import ReplayError
from tests.replay.both import check_both, compiled, random_rows, timed

ROWS = random_rows(21, 200, span_s=10)


def test_top(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, ROWS)
        keyed = stream.key_by("k")
        counts = stream.key_by("k", "name").agg(n=ps.count(), most=ps.max_("x"))
        return {
            "numbers": keyed.top(4, by=[col("x").desc(), "small"], rank="place"),
            "text": keyed.top(3, by=col("name").desc()),
            "decimals": keyed.top(2, by=["price", col("raw").desc()], rank="place"),
            "expression": stream.top(5, by=[col("small") + 1, col("day").desc()], rank="place"),
            "standing": counts.key_by("k").top(2, by=[col("n").desc(), "most"], rank="place"),
            "last": keyed.deduplicate(keep="last"),
        }

    check_both(spark, build)


def test_structs_and_lists_that_tie(spark: SparkSession) -> None:
    pairs = pa.array([{"a": 2, "b": None}, {"a": 2, "b": 1}, None, {"a": None, "b": 3}] * 2)
    lists = pa.array([[1, 2], [1], [None], None, [], [1, None], [0, 5], [1, 2, 3]])
    rows = pa.table({"at": pa.array([0] * 8, pa.timestamp("us")), "pair": pairs, "list": lists})

    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, rows)
        return {
            "top": stream.select("at", "pair", "list").top(3, by="at", rank="place"),
            "lists": stream.select("at", "list").top(3, by="at", rank="place"),
            "running": stream.key_by("at").over(2).agg(n=ps.count()),
        }

    check_both(spark, build)


@pytest.mark.long("more types; test_structs_and_lists_that_tie")
def test_maps_that_tie(spark: SparkSession) -> None:
    kind = pa.map_(pa.string(), pa.int64())
    tags = pa.array([[("b", 1)], [("a", 2)], None, [("a", 1)], [], [("a", 1), ("b", 2)]], kind)
    rows = pa.table({"k": [1, 1, 1, 2, 2, 2], "at": pa.array([0] * 6, pa.timestamp("us")), "tags": tags, "n": range(6)})

    def build(job: Job) -> dict[str, Stream]:
        keyed = timed(job, rows).key_by("k")
        return {
            "top": keyed.top(2, by="at", rank="place").select("n", "place"),
            "first": keyed.deduplicate().select("n"),
            "over": keyed.over(2).agg(least=ps.min_("n")).select("n", "least"),
        }

    check_both(spark, build)


def test_first(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, ROWS)
        return {
            "first": stream.key_by("k").deduplicate(),
            "expression": stream.key_by(part=col("small") % 2).deduplicate(),
            "ttl": stream.key_by("k").deduplicate(ttl="2s"),
            "distinct": stream.distinct("k", "name", "x"),
            "rows": stream.select("k", "flag").distinct(),
        }

    check_both(spark, build)


def test_the_first_to_arrive_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ReplayError, match=r"'deduplicate-1' cannot be replayed: .* arrives first"):
        compiled(spark, lambda job: {"all": timed(job, ROWS).key_by("k").deduplicate(order="arrival")})


def calls() -> dict[str, AggregateCall]:
    return {
        "rows": ps.count(),
        "known": ps.count("x"),
        "some": ps.sum_("small").filter(col("flag")),
        "total": ps.sum_("small"),
        "mean": ps.mean("x").filter(col("x") < 100.0),
        "spread": ps.stddev("small"),
        "least": ps.min_("name"),
        "most": ps.max_("x"),
        "first": ps.first("name"),
        "last": ps.last("price"),
        "best": ps.arg_max("small", "x"),
        "distinct": ps.count_distinct("x"),
        "names": ps.collect_list("name"),
    }


def test_over(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, ROWS)
        keyed = stream.key_by("k")
        counts = stream.key_by("k", "name").agg(n=ps.count(), most=ps.max_("small"))
        return {
            "running": keyed.over().agg(**calls()),
            "sliding": keyed.over(3).agg(**calls()),
            "ordered": keyed.over(4, by=[col("x").desc(), "name"]).agg(**calls()),
            "standing": counts.key_by("k").over(by="n").agg(total=ps.sum_("most"), rows=ps.count()),
        }

    check_both(spark, build)


class Longest(ps.UserAggregate):
    """The greatest length of a name: code of a user's own."""

    state = {"most": np.int64}  # noqa: RUF012
    result_type = pa.int64()

    def update(self, state: Any, groups: NDArray[np.int64], values: Sequence[pa.Array]) -> None:
        np.maximum.at(state["most"], groups, [len(value.as_py()) for value in values[0]])

    def merge(self, state: Any, groups: NDArray[np.int64], other: Any, other_groups: NDArray[np.int64]) -> None:
        np.maximum.at(state["most"], groups, other["most"][other_groups])

    def result(self, state: Any, groups: NDArray[np.int64]) -> Any:
        return pa.array(state["most"][groups])


@pytest.mark.long("functions of users on Spark; test_over, and test_aggregates_of_users of windows")
def test_aggregates_of_users_over_frames(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        keyed = timed(job, ROWS).key_by("k")
        longest = {"longest": ps.aggregate(Longest(), "name"), "rows": ps.count()}
        return {"sliding": keyed.over(3).agg(**longest), "ordered": keyed.over(by="name").agg(**longest)}

    check_both(spark, build)
