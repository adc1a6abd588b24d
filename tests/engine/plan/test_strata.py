"""Strata that queries want: which sources drop by them, which rows say what they drew, and what is refused."""

from collections.abc import Callable

import pytest

import penstock as ps
from penstock.model.errors import OptionError, PlanError
from penstock.model.expressions import col
from penstock.model.job_graph import MAIN, AggregateSpec, JobGraph, OperatorNode, SinkSpec, SourceSpec
from penstock.model.result_columns import DRAW
from penstock.plan_views.text import explain
from tests.engine.plan.test_shedding_points import minute, rows

Made = Callable[[ps.Stream], ps.Stream]


def plan_of(job: ps.Job) -> JobGraph:
    return job.plan().graph


def only(graph: JobGraph, spec: type) -> OperatorNode:
    (node,) = (item for item in graph.operators.values() if isinstance(item.spec, spec))
    return node


def has_draws(graph: JobGraph, node: OperatorNode) -> bool:
    return any(DRAW in graph[edge.operator].outputs[edge.output].fields.names for edge in node.inputs)


def test_rows_say_what_they_drew_up_to_the_aggregates_and_no_further() -> None:
    job = ps.Job()
    source = rows(job)
    totals = minute(source.filter(col("paid") > 0).select("key", "at", paid=col("paid") * 2)).name("minutes")
    totals.write_black_hole().name("hot").with_max_error(0.05, strata="partition")
    # Whoever has no contract knows nothing of it, and neither does a function of the user's.
    source.write_black_hole().name("all")
    source.map(lambda row: row, schema=None).write_black_hole().name("mapped")
    graph = plan_of(job)
    spec = only(graph, SourceSpec).spec
    assert isinstance(spec, SourceSpec) and spec.strata == "partition"
    assert has_draws(graph, only(graph, AggregateSpec))
    for node in graph.operators.values():
        if isinstance(node.spec, SinkSpec):
            assert not has_draws(graph, node)


def test_without_strata_a_plan_is_what_it_was() -> None:
    job = ps.Job()
    minute(rows(job)).write_black_hole().with_max_error(0.05)
    graph = plan_of(job)
    assert not any(DRAW in schema.fields.names for node in graph.operators.values() for schema in node.outputs.values())


def test_strata_stay_when_a_contract_is_changed() -> None:
    job = ps.Job()
    minute(rows(job)).write_black_hole().with_min_accuracy(0.3, strata="partition").with_max_error(0.05)
    spec = only(plan_of(job), SinkSpec).spec
    assert isinstance(spec, SinkSpec) and spec.strata == "partition"


def test_a_query_that_says_nothing_of_strata_gains_by_those_of_its_neighbour() -> None:
    job = ps.Job()
    source = rows(job)
    minute(source).name("one").write_black_hole().with_max_error(0.05, strata="partition")
    source.key_by("paid").agg(n=ps.count()).name("two").write_black_hole(mode="changelog").with_min_accuracy(0.5)
    graph = plan_of(job)
    aggregates = [node for node in graph.operators.values() if isinstance(node.spec, AggregateSpec)]
    assert len(aggregates) == 2 and all(has_draws(graph, node) for node in aggregates)


def test_messages_of_kafka_have_strata_by_key() -> None:
    job = ps.Job()
    source = ps.read_kafka("orders", kafka="nowhere:9092", schema={"paid": int}, key={"shop": str}, job=job)
    totals = source.key_by("shop").agg(paid=ps.sum_("paid"))
    totals.write_black_hole(mode="changelog").with_max_error(0.05, strata="key")
    graph = plan_of(job)
    spec = only(graph, SourceSpec).spec
    assert isinstance(spec, SourceSpec) and spec.strata == "key"
    text = explain(job.plan())
    assert "an even share of each message key of a partition" in text
    assert "paid estimated, with an interval of strata" in text
    assert DRAW not in text


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda stream: stream, "none of its results has an interval"),
        (
            lambda stream: stream.key_by("key").window(ps.tumbling("1m")).agg(top=ps.max_("paid")),
            "none of its results has an interval",
        ),
        (
            lambda stream: stream.key_by("key").window(ps.session("1m")).agg(n=ps.count()),
            "none of its results has an interval",
        ),
        (
            lambda stream: (
                stream.key_by("key")
                .window(ps.session("1m"))
                .agg(n=ps.count())
                .window(ps.tumbling("1h"))
                .agg(all=ps.sum_("n"))
            ),
            "are dropped by their keys alone",
        ),
        (lambda stream: minute(stream.map(lambda row: row, schema=None)), "rows are made anew or come together"),
        (lambda stream: minute(stream.union(stream)), "nothing may be dropped for it"),
    ],
)
def test_where_strata_are_of_no_use_they_are_refused(make: Made, sentence: str) -> None:
    job = ps.Job()
    made = make(rows(job))
    made.write_black_hole().name("hot").with_min_accuracy(0.5, strata="partition")
    with pytest.raises(PlanError, match=rf"query 'hot' at .* wants strata by partition, but .*{sentence}"):
        job.plan()


def test_rows_of_several_sources_come_together_without_strata() -> None:
    job = ps.Job()
    minute(rows(job).union(rows(job))).write_black_hole().name("hot").with_min_accuracy(0.5, strata="partition")
    with pytest.raises(PlanError, match="come together with others"):
        job.plan()


def test_only_messages_have_keys_before_they_are_decoded() -> None:
    job = ps.Job()
    minute(rows(job)).write_black_hole().name("hot").with_max_error(0.05, strata="key")
    with pytest.raises(PlanError, match=r"'hot' .* knows no keys before it decodes: .* strata='partition'"):
        job.plan()


def test_one_source_has_one_kind_of_strata() -> None:
    job = ps.Job()
    source = ps.read_kafka("orders", kafka="nowhere:9092", schema={"paid": int}, key={"shop": str}, job=job)
    totals = source.key_by("shop").agg(paid=ps.sum_("paid"))
    totals.write_black_hole(mode="changelog").name("one").with_max_error(0.05, strata="key")
    totals.write_black_hole(mode="changelog").name("two").with_max_error(0.05, strata="partition")
    with pytest.raises(PlanError, match=r"'two' .* by partition, but query 'one' wants them by key of the same source"):
        job.plan()


def test_a_query_without_contract_has_no_strata() -> None:
    job = ps.Job()
    minute(rows(job)).write_black_hole().name("hot").with_min_accuracy(1.0, strata="partition")
    with pytest.raises(PlanError, match="its minimum accuracy is 1, so nothing is dropped"):
        job.plan()
    job = ps.Job()
    made = minute(rows(job)).write_black_hole().name("hot")
    made.with_min_accuracy(0.5, columns=False, strata="partition")
    with pytest.raises(PlanError, match="columns=False takes away the intervals"):
        job.plan()


def test_what_are_no_strata_is_refused() -> None:
    job = ps.Job()
    with pytest.raises(OptionError, match=r"strata are 'partition' or 'key', or None .*, not 'shop'"):
        minute(rows(job)).write_black_hole().with_max_error(0.05, strata="shop")  # type: ignore[arg-type]


def test_a_source_is_not_asked_for_what_records_drew() -> None:
    job = ps.Job()
    source = ps.read_kafka("orders", kafka="nowhere:9092", schema={"paid": int}, key={"shop": str}, job=job)
    totals = source.filter(col("paid") > 0).key_by("shop").agg(paid=ps.sum_("paid"))
    totals.write_black_hole(mode="changelog").with_max_error(0.05, strata="key")
    node = only(plan_of(job), SourceSpec)
    assert isinstance(node.spec, SourceSpec)
    assert node.spec.source.schema.names == ["paid", "shop"]
    assert node.outputs[MAIN].fields.names == ["paid", "shop", DRAW]
