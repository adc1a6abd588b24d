"""In front of which joins rows may be dropped by their keys, what pairs say to aggregates, and why not elsewhere."""

from datetime import datetime

import pytest

import penstock as ps
from penstock import col
from penstock.engine.plan.key_samplers import key_samplers_behind, sampled_edges
from penstock.engine.plan.shedding_points import SheddingPoints, shedding_points
from penstock.model.job_graph import JobGraph
from penstock.model.join_specs import IntervalJoinSpec, JoinSpec
from penstock.model.result_columns import BUCKET
from tests.engine.plan.test_shedding_points import minute, points, rows

BETWEEN = ("-1s", "1s")


def window_join(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    return left.join(right, on="key", window=ps.tumbling("1m")).name("met")


def samplers(graph: JobGraph, name: str) -> tuple[int | None, int | None]:
    (spec,) = [node.spec for node in graph.operators.values() if node.name == name]
    assert isinstance(spec, JoinSpec | IntervalJoinSpec)
    return spec.samplers


JOINS = {
    "window": window_join,
    "interval": lambda left, right: left.interval_join(right, on="key", between=BETWEEN).name("met"),
    "unbounded": lambda left, right: left.join(right, on="key").name("met"),
}


@pytest.mark.parametrize("kind", JOINS)
def test_both_sides_of_a_join_are_sampled_by_its_key(kind: str) -> None:
    job = ps.Job()
    left, right = rows(job).name("left"), rows(job).name("right")
    JOINS[kind](left.filter(col("paid") > 1).name("some"), right).write_black_hole().with_min_accuracy(0.4)
    edges = {("some", "met"): 0.4, ("right", "met"): 0.4}
    plan = job.plan(2).graph
    assert shedding_points(plan) == SheddingPoints({"left": 1.0, "right": 1.0}, edges, keyed=frozenset(edges))
    assert sampled_edges(plan) == edges.keys()
    ids = {node.name: node.id for node in plan.operators.values()}
    assert key_samplers_behind(plan, ids["left"]) == ("some>met",)
    assert key_samplers_behind(plan, ids["right"]) == ("right>met",)
    assert samplers(plan, "met") == (0, 0)


def test_sides_of_one_source_have_samplers_by_their_edges() -> None:
    job = ps.Job()
    stream = rows(job).name("all")
    window_join(stream.filter(col("paid") > 1).name("some"), stream).write_black_hole().with_min_accuracy(0.4)
    plan = job.plan(2).graph
    (source,) = [node.id for node in plan.operators.values() if node.name == "all"]
    numbers = samplers(plan, "met")
    assert sorted(number for number in numbers if number is not None) == [0, 1]
    assert [key_samplers_behind(plan, source)[number or 0] for number in numbers] == ["some>met", "all>met"]


def test_a_stream_that_meets_itself_has_one_sampler() -> None:
    job = ps.Job()
    stream = rows(job).name("all")
    window_join(stream, stream).write_black_hole().with_min_accuracy(0.4)
    assert samplers(job.plan(2).graph, "met") == (0, 0)


def test_a_side_that_ends_by_itself_may_be_sampled_where_the_run_says_so() -> None:
    job = ps.Job()
    right = ps.read_memory([{"key": 1, "at": datetime(2025, 1, 1)}], time="at", job=job).name("right")
    window_join(rows(job).name("left"), right).write_black_hole().with_min_accuracy(0.4)
    plan = job.plan(2).graph
    assert shedding_points(plan).keyed == {("left", "met")}
    assert "ends by itself" in shedding_points(plan).reasons["right"]


@pytest.mark.parametrize(
    ("how", "numbers"), [("inner", (0, 0)), ("left", (0, None)), ("right", (None, 0)), ("full", (None, None))]
)
def test_the_optional_side_of_an_outer_join_is_whole(how: str, numbers: tuple[int | None, int | None]) -> None:
    job = ps.Job()
    left, right = rows(job).name("left"), rows(job).name("right")
    found = left.interval_join(right, on="key", between=BETWEEN, how=how).name("met")
    found.write_black_hole().with_min_accuracy(0.4)
    assert samplers(job.plan(2).graph, "met") == numbers
    reasons = points(job).reasons
    assert {name for name in ("left", "right") if name in reasons} == {
        name for name, number in zip(("left", "right"), numbers, strict=True) if number is None
    }
    assert all("puts out rows of the other side that have no partner in it" in reason for reason in reasons.values())


def test_a_stream_that_meets_itself_in_an_outer_join_is_dropped_on_one_side_alone() -> None:
    job = ps.Job()
    stream = rows(job).name("all")
    found = stream.interval_join(stream, on="key", between=BETWEEN, how="left").name("met")
    found.write_black_hole().with_min_accuracy(0.4)
    assert samplers(job.plan(2).graph, "met") == (0, None)


def test_totals_over_pairs_know_the_buckets_of_their_keys() -> None:
    job = ps.Job()
    met = window_join(rows(job), rows(job))
    some = met.filter(col("paid") > 1).select("paid", "window_end", key=col("paid") % 2).name("some")
    minute(some).name("sums").write_black_hole().with_min_accuracy(0.4)
    met.select("paid").name("raw").write_black_hole().name("pairs").with_min_accuracy(0.6)
    plan = job.plan(2).graph
    assert set(shedding_points(plan).branches.values()) == {0.6}
    schemas = {node.name: node.outputs["main"].fields.names for node in plan.operators.values() if node.outputs}
    assert BUCKET in schemas["met"] and BUCKET in schemas["some"]
    assert BUCKET not in schemas["sums"] and BUCKET not in schemas["raw"]


def test_pairs_that_no_aggregate_reads_have_no_buckets() -> None:
    job = ps.Job()
    window_join(rows(job), rows(job)).write_black_hole().with_min_accuracy(0.4)
    (met,) = [node for node in job.plan(2).graph.operators.values() if node.name == "met"]
    assert BUCKET not in met.outputs["main"].fields.names


WHOLE = {
    "no contract": (lambda met: met.write_black_hole(), "has no minimum accuracy below 1"),
    "grouped by the key": (
        lambda met: met.rename(key="who").key_by("who").agg(n=ps.count()).write_black_hole(mode="changelog"),
        "groups rows by the very key",
    ),
    "grouped by the key and more": (
        lambda met: met.key_by("paid", "key").agg(n=ps.count()).write_black_hole(mode="changelog"),
        "groups rows by the very key",
    ),
    "ranked": (
        lambda met: met.key_by("paid").top(3, by="paid_right").write_black_hole(mode="changelog"),
        "makes a row of more than one result of a key",
    ),
    "through a function of the user's": (
        lambda met: met.map(dict).key_by("paid").agg(n=ps.count()).write_black_hole(mode="changelog"),
        "cannot tell any more which rows are of one key",
    ),
    "united": (
        lambda met: met.union(met).key_by("paid").agg(n=ps.count()).write_black_hole(mode="changelog"),
        "cannot tell any more which rows are of one key",
    ),
    "late on the left": (lambda met: met.side_output("late").write_black_hole(), "needs all of what 'met'"),
    "late on the right": (lambda met: met.side_output("late_right").write_black_hole(), "needs all of what 'met'"),
}


@pytest.mark.parametrize("other", WHOLE)
def test_joins_of_which_something_needs_all_are_left_whole_and_it_is_said_why(other: str) -> None:
    job = ps.Job()
    met = window_join(rows(job).name("left"), rows(job).name("right"))
    met.write_black_hole().with_min_accuracy(0.4)
    reader, why = WHOLE[other]
    sink = reader(met)
    if other != "no contract":
        sink.with_min_accuracy(0.4, columns=False)
    found = points(job)
    assert not found.keyed and not found.sources
    assert all(why in reason for reason in found.reasons.values()), found.reasons
    assert not sampled_edges(job.plan().graph)


OTHERS = {
    "as-of": (lambda left, right: left.asof_join(right, on="key"), "says nothing of all rows"),
    "of keys that come once": (
        lambda left, right: left.join(right, on="key", validate="m:1"),
        "says nothing of all rows",
    ),
    "broadcast": (
        lambda left, right: left.interval_join(right.broadcast(), on="key", between=BETWEEN),
        "has rows of its other side broadcast",
    ),
    "behind a union": (
        lambda left, right: window_join(left.union(left), right),
        "is sampled by keys, whose rates do not come through what is in front of it",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_joins_need_all_rows(kind: str) -> None:
    job = ps.Job()
    make, why = OTHERS[kind]
    make(rows(job).name("left"), rows(job).name("right")).write_black_hole().with_min_accuracy(0.4)
    found = points(job)
    assert ("left", "met") not in found.keyed
    assert why in found.reasons["left"], found.reasons
