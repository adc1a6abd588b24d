"""Which sources drop rows by strata, as the queries behind them want, and on which ways rows say what they drew. Pure.

Strata make intervals of counts and sums narrower; a query that has none of these, or a source that cannot tell its
records apart before they are decoded, is refused.
"""

from collections.abc import Collection
from dataclasses import replace

from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.bucket_ways import ways_to_aggregates
from penstock.engine.plan.shedding_points import shedding_points
from penstock.model.errors import PlanError
from penstock.model.ids import OperatorId
from penstock.model.job_graph import MAIN, JobGraph, OperatorNode, SinkSpec, SourceSpec
from penstock.model.sampling import DRAW_FIELD
from penstock.model.strata import Strata


def wants_strata(graph: JobGraph) -> bool:
    """Return whether a query wants strata."""
    return any(isinstance(node.spec, SinkSpec) and node.spec.strata is not None for node in graph.operators.values())


def with_strata(graph: JobGraph, shown: Collection[OperatorId]) -> tuple[JobGraph, frozenset[OperatorId]]:
    """Return the graph whose sources drop by the strata that queries want, and what bears the draws to aggregates.

    ``shown`` are the operators whose results say how good they are.

    Raises:
        PlanError: a query wants strata where they are of no use, or of a source of which another query wants others;
            the message names both and their lines.
    """
    bearers: set[OperatorId] = set()
    operators = dict(graph.operators)
    for source, (strata, _) in _wanted(graph, shown).items():
        node = graph[source]
        assert isinstance(node.spec, SourceSpec)
        bearers |= ways_to_aggregates(graph, node, shown) or set()
        schema = node.outputs[MAIN]
        outputs = {**node.outputs, MAIN: replace(schema, fields=schema.fields.append(DRAW_FIELD))}
        operators[source] = replace(node, spec=replace(node.spec, strata=strata), outputs=outputs)
    return JobGraph(operators), frozenset(bearers)


def _wanted(graph: JobGraph, shown: Collection[OperatorId]) -> dict[OperatorId, tuple[Strata, str]]:
    """Return the strata that are wanted of each source, and the query that wants them."""
    wanted: dict[OperatorId, tuple[Strata, str]] = {}
    for sink in graph.operators.values():
        if not isinstance(sink.spec, SinkSpec) or sink.spec.strata is None:
            continue
        strata, above = sink.spec.strata, JobGraph(graph.upstream([sink.id]))
        wants = f"query {_place(sink)} wants strata by {strata}, but"
        _check_results(above, sink.spec, wants)
        points = shedding_points(above, bounded=True)
        sources = [node for node in above.operators.values() if node.name in points.sources]
        if not sources:
            name, reason = next(iter(points.reasons.items()))
            raise PlanError(f"{wants} nothing may be dropped for it; of source {name!r}: {reason}")
        for node in sources:
            assert isinstance(node.spec, SourceSpec)
            if points.sources[node.name] >= 1.0:
                raise PlanError(
                    f"{wants} rows of source {_place(node)} are dropped by their keys alone, all of a key or none: "
                    "leave strata out"
                )
            if ways_to_aggregates(above, node, shown) is None:
                raise PlanError(
                    f"{wants} between source {_place(node)} and its aggregates rows are made anew or come together "
                    "with others, so it cannot be said which of them were dropped together: leave strata out"
                )
            if strata == "key" and not node.spec.source.has_message_keys:
                raise PlanError(
                    f"{wants} {node.spec.source.describe()} of {_place(node)} knows no keys before it decodes: only "
                    "messages of Kafka have them; write strata='partition'"
                )
            before, query = wanted.setdefault(node.id, (strata, sink.name))
            if before != strata:
                raise PlanError(
                    f"{wants} query {query!r} wants them by {before} of the same source {node.name!r}, whose rows are "
                    "dropped once for both: give both the same"
                )
    return wanted


def _check_results(above: JobGraph, spec: SinkSpec, wants: str) -> None:
    if not spec.under_contract:
        raise PlanError(f"{wants} its minimum accuracy is 1, so nothing is dropped for it: leave strata out")
    if not spec.columns:
        raise PlanError(f"{wants} columns=False takes away the intervals that they make narrower: leave one out")
    if not any(descriptor_of(node.spec).has_interval(node.spec) for node in above.operators.values()):
        raise PlanError(
            f"{wants} none of its results has an interval, which they would make narrower: only count, sum and mean "
            "over tumbling, hopping, global or no windows have"
        )


def _place(node: OperatorNode) -> str:
    return f"{node.name!r} at {node.where}" if node.where else repr(node.name)
