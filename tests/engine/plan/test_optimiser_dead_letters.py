"""What the optimiser leaves alone because somebody reads an operator's dead letters."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock import col
from penstock.model.job_graph import MAIN
from tests.engine.planning import FIELDS, edge, kinds, planned, projections, source, told


def letters(stream: ps.Stream) -> ps.Stream:
    """Read a stream's dead letters and go on with the stream."""
    stream.side_output("dead_letter").write_black_hole()
    return stream


def test_a_filter_whose_letters_are_read_stays_where_it_is() -> None:
    graph = planned(lambda s: letters(s.select("b", x=col("a")).filter(col("x") > 3)).select("b").collect())
    assert [kind for kind in kinds(graph) if kind != "sink"] == ["source", "project", "filter", "project"]
    assert source(graph).predicate is None


def test_a_filter_does_not_move_below_a_projection_whose_letters_are_read() -> None:
    graph = planned(lambda s: letters(s.select("a", c=col("b") + 1)).filter(col("a") > 3).collect())
    assert [kind for kind in kinds(graph) if kind != "sink"] == ["source", "project", "filter"]
    assert source(graph).predicate is None


def test_a_source_is_told_no_predicate_of_a_filter_whose_letters_are_read() -> None:
    assert source(planned(lambda s: letters(s.filter(col("a") > 3)).collect())).predicate is None
    assert source(planned(lambda s: letters(s).filter(col("a") > 3).collect())).predicate is None
    assert source(planned(lambda s: s.filter(col("a") > 3).collect())).predicate is not None


@pytest.mark.parametrize(
    "build",
    [
        lambda s: letters(s.select("a", c=col("b") + 1)).select(d=col("c") * 2).collect(),
        lambda s: letters(s.select("a", c=col("b") + 1).select(d=col("c") * 2)).collect(),
    ],
)
def test_projections_whose_letters_are_read_do_not_merge(build: Callable[[ps.Stream], Any]) -> None:
    assert len(projections(planned(build))) == 2


@pytest.mark.parametrize(
    "build",
    [
        lambda s: letters(s.filter(col("a") > 3)).select(c=col("b") * 2).collect(),
        lambda s: letters(s.filter(col("a") > 3).select(c=col("b") * 2)).collect(),
    ],
)
def test_filters_and_projections_whose_letters_are_read_do_not_fuse(build: Callable[[ps.Stream], Any]) -> None:
    graph = planned(build)
    assert "filter" in kinds(graph)
    assert [spec.where for spec in projections(graph)] == [None]


def test_filters_on_letters_alone_go_nowhere() -> None:
    graph = planned(lambda s: s.side_output("dead_letter").filter(col("operator") == "x").collect())
    assert kinds(graph) == ["source", "filter", "sink"]
    assert source(graph).predicate is None

    def selected(stream: ps.Stream) -> None:
        stream.filter(col("a") > 3).side_output("dead_letter").select("text").collect()

    graph = planned(selected)
    assert kinds(graph) == ["source", "filter", "project", "sink"]
    assert [spec.where for spec in projections(graph)] == [None]


@pytest.mark.parametrize(
    "build",
    [
        lambda s: letters(s).select("a").collect(),
        lambda s: letters(s.filter(col("a") > 3)).select("a").collect(),
        lambda s: letters(s.filter(lambda a: a > 3)).select("a").collect(),
        lambda s: letters(s.map(lambda a: {"a": 1}, {"a": int})).collect(),
        lambda s: letters(s.agg(n=ps.count())).collect(),
        lambda s: letters(s.key_by("a").window(ps.tumbling("1s")).agg(n=ps.count())).collect(),
        lambda s: letters(s.join(s, on="a")).select("a").collect(),
        lambda s: letters(s.split(x=col("a") > 3)["x"]).select("a").collect(),
        lambda s: s.side_output("dead_letter").select("operator").agg(n=ps.count()).collect(),
    ],
)
def test_letters_that_are_read_show_all_columns(build: Callable[[ps.Stream], Any]) -> None:
    assert source(planned(build, time="at")).schema.names == FIELDS.names


def test_a_projection_whose_letters_are_read_computes_what_nobody_uses() -> None:
    graph = planned(lambda s: letters(s.select("a", c=col("s").cast("int64"))).select("a").collect())
    assert [name for name, _ in projections(graph)[0].columns] == ["a", "c"]
    graph = planned(lambda s: s.select("a", c=col("s").cast("int64")).side_output("dead_letter").collect())
    assert [name for name, _ in projections(graph)[0].columns] == ["a", "c"]


def test_letters_are_partitioned_by_nothing() -> None:
    def build(stream: ps.Stream) -> None:
        counted = stream.key_by("s").agg(n=ps.count()).name("counted")
        counted.side_output("dead_letter").key_by(s="text").agg(n=ps.count()).name("by text").write_black_hole(
            mode="changelog"
        )
        parts = counted.split(some=col("n") > 1)["some"].name("parts")
        parts.side_output("dead_letter").key_by("operator").agg(n=ps.count()).name("by operator").write_black_hole(
            mode="changelog"
        )
        parts.key_by("s").agg(m=ps.sum_("n")).name("again").write_black_hole(mode="changelog")

    graph = planned(build, parallelism=2)
    assert [edge(graph, name).exchange for name in ("by text", "by operator")] == ["hash", "hash"]
    assert edge(graph, "again").exchange == "forward"


def test_every_operator_but_sinks_and_unions_has_the_output() -> None:
    job = ps.Job()
    stream = told(job, "at")
    stream.union(stream).map(lambda row: row).key_by("a").window(ps.tumbling("1s")).agg(n=ps.count()).collect()
    having = {node.kind: "dead_letter" in node.outputs for node in job.graph.operators.values()}
    assert having == {"source": True, "union": False, "rowfunction": True, "aggregate": True, "sink": False}
    letters_of = next(iter(job.graph.operators.values())).outputs["dead_letter"]
    assert (letters_of.time, letters_of.changelog) == (None, False)
    assert all(MAIN in node.outputs for node in job.graph.operators.values() if node.kind != "sink")
