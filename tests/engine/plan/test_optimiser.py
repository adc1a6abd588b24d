"""What the optimiser rewrites, and what it leaves alone."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock import col
from penstock.model.expressions import columns_of
from penstock.model.job_graph import FilterSpec, SourceSpec
from tests.engine.planning import FIELDS, kinds, planned, projections, source, told


def test_filters_move_below_projections_and_into_the_source() -> None:
    graph = planned(lambda s: s.rename(a="x").select("x", "b", y=col("b") + 1).filter(col("x") > 3).collect())
    predicate = source(graph).predicate
    assert predicate is not None
    assert predicate.same_as(col("a") > 3)
    assert source(graph).schema.names == ["a", "b"]


def test_a_filter_on_a_computed_column_stays() -> None:
    graph = planned(lambda s: s.select("a", y=col("b") + 1).filter(col("y") > 3).collect())
    assert kinds(graph) == ["source", "project", "filter", "sink"]
    assert source(graph).predicate is None


def test_a_filter_stays_above_a_projection_that_others_use() -> None:
    def build(stream: ps.Stream) -> None:
        common = stream.select("a", "b")
        common.filter(col("a") > 3).collect()
        common.collect()

    assert source(planned(build)).predicate is None


def test_neighbouring_filters_stay_apart() -> None:
    graph = planned(lambda s: s.filter(col("s").str.length() == 1).filter(col("s").cast("int64") > 3).collect())
    assert kinds(graph) == ["source", "filter", "filter", "sink"]
    predicate = source(graph).predicate
    assert predicate is not None
    assert predicate.same_as(col("s").str.length() == 1)


def test_a_predicate_stays_with_a_source_that_others_read() -> None:
    def build(stream: ps.Stream) -> None:
        stream.filter(col("a") > 3).collect()
        stream.select("a").collect()

    assert source(planned(build)).predicate is None


def test_a_predicate_stops_at_user_functions() -> None:
    graph = planned(lambda s: s.filter(lambda a: a > 1).filter(col("a") > 3).collect())
    assert source(graph).predicate is None


def test_projections_merge_into_one() -> None:
    graph = planned(lambda s: s.with_columns(c=col("a") + col("b")).drop("a").rename(c="d").select("d").collect())
    (spec,) = projections(graph)
    ((name, expression),) = spec.columns
    assert name == "d"
    assert expression.same_as(col("a") + col("b"))
    assert source(graph).schema.names == ["a", "b"]


def test_projections_do_not_merge_where_that_computes_twice() -> None:
    graph = planned(lambda s: s.select(c=col("a") * col("b")).select(d=col("c") + col("c")).collect())
    assert len(projections(graph)) == 2


def test_a_long_pipeline_makes_no_bottomless_expressions() -> None:
    job = ps.Job()
    doubled = added = ps.read_memory([{"x": 1}], job=job)
    for _ in range(20):
        doubled = doubled.with_columns(x=col("x") + col("x"))
    for _ in range(120):
        added = added.with_columns(x=col("x") + 1)
    results = [doubled.collect(), added.collect()]
    job.run("long", parallelism=1)
    assert [result.rows() for result in results] == [[{"x": 1 << 20}], [{"x": 121}]]


def test_a_projection_with_a_name_stays() -> None:
    graph = planned(lambda s: s.select("a", "b").name("kept").select("a").collect())
    assert len(projections(graph)) == 2


def test_a_projection_takes_the_filter_below_it_in() -> None:
    graph = planned(lambda s: s.filter(col("a") > 3).select(c=col("b") * 2).collect())
    (spec,) = projections(graph)
    assert kinds(graph) == ["source", "project", "sink"]
    assert spec.where is not None
    assert spec.where.same_as(col("a") > 3)


def test_a_filter_with_a_name_or_two_readers_stays() -> None:
    graph = planned(lambda s: s.filter(col("a") > 3).name("kept").select("b").collect())
    assert "filter" in kinds(graph)

    def build(stream: ps.Stream) -> None:
        some = stream.filter(col("a") > 3)
        some.select("b").collect()
        some.select("s").collect()

    assert "filter" in kinds(planned(build))


@pytest.mark.parametrize(
    ("build", "columns"),
    [
        (lambda s: s.select("b").collect(), ["b"]),
        (lambda s: s.filter(col("s") == "x").select("b").collect(), ["b", "s"]),
        (lambda s: s.agg(n=ps.count()).collect(), ["a"]),
        (lambda s: s.key_by("s").agg(m=ps.max_(col("a") + 1).filter(col("t") == "x")).collect(), ["a", "s", "t"]),
        (lambda s: s.map(lambda b, t: {"c": 1}, {"c": int}).collect(), ["b", "t"]),
        (lambda s: s.map(lambda row: {"c": 1}, {"c": int}).collect(), FIELDS.names),
        (lambda s: s.filter(lambda t: True).select("a").collect(), ["a", "t"]),
        (lambda s: s.map_batches(lambda batch: batch).select("a").collect(), FIELDS.names),
        (lambda s: s.split(x=col("t") == "x")["x"].select("a").collect(), ["a", "t"]),
        (lambda s: s.union(s.filter(col("b") > 1)).select("a").collect(), ["a", "b"]),
        (lambda s: s.map(lambda row: row).key_by("s").agg().collect(), FIELDS.names),
        (lambda s: s.join(s, on="s").select("a").collect(), ["a", "s"]),
        (lambda s: s.write_black_hole(), FIELDS.names),
        (lambda s: s.for_each_batch(print), FIELDS.names),
        (lambda s: s.key_by("s").agg(m=ps.sum_("a")).write_black_hole(mode="changelog"), ["a", "s"]),
    ],
)
def test_sources_read_the_columns_in_use(build: Callable[[ps.Stream], Any], columns: list[str]) -> None:
    assert source(planned(build)).schema.names == columns


@pytest.mark.parametrize(
    ("build", "columns"),
    [
        (lambda s: s.select("b").collect(), ["b"]),
        (lambda s: s.window(ps.tumbling("1s")).agg(m=ps.sum_("a")).collect(), ["a", "at"]),
        (lambda s: s.key_by("s").agg(m=ps.last("a")).collect(), ["a", "s", "at"]),
        (lambda s: s.key_by("s").reduce(lambda one, other: one).select("s").collect(), FIELDS.names),
        (lambda s: s.window(ps.tumbling("1s")).agg(m=ps.sum_("a")).side_output("late").collect(), FIELDS.names),
        (lambda s: s.join(s, on="s", window=ps.tumbling("1s")).select("a").collect(), ["a", "s", "at"]),
    ],
)
def test_event_time_is_read_where_it_matters(build: Callable[[ps.Stream], Any], columns: list[str]) -> None:
    assert source(planned(build, time="at")).schema.names == columns


def test_several_sources_keep_their_event_time_for_alignment() -> None:
    job = ps.Job()
    told(job, "at").select("a").union(told(job, "at").select("a")).collect()
    assert [
        node.spec.source.schema.names
        for node in job.plan().graph.operators.values()
        if isinstance(node.spec, SourceSpec)
    ] == [["a", "at"], ["a", "at"]]


def test_inputs_of_a_union_get_the_same_columns() -> None:
    job = ps.Job()
    stream = told(job)
    stream.filter(col("s") == "x").union(stream.select(*FIELDS.names), stream).select("b", "a").collect()
    graph = job.plan().graph
    union = next(node for node in graph.operators.values() if node.kind == "union")
    inputs = [graph[item.operator].outputs[item.output].fields.names for item in union.inputs]
    assert inputs == [["a", "b"]] * 3


def test_what_no_sink_reads_is_left_out() -> None:
    def build(stream: ps.Stream) -> None:
        stream.select("a").collect()
        stream.key_by("s").agg(n=ps.count())

    assert "aggregate" not in kinds(planned(build))


def test_the_optimiser_leaves_the_users_graph_alone() -> None:
    job = ps.Job()
    told(job).select("a", "b").filter(col("a") > 3).select(c=col("b") + 1).collect()
    before = dict(job.graph.operators)
    job.plan()
    assert job.graph.operators == before
    assert columns_of(next(n.spec.predicate for n in before.values() if isinstance(n.spec, FilterSpec))) == {"a"}
