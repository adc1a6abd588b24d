"""Where rows of a sample say how they were drawn: from joins and sources to the aggregates over them. Pure."""

from collections.abc import Collection, Mapping

from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.shedding_points import brings_rows, carries_buckets, may_be_sampled
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, OperatorNode, OperatorSpec


def with_buckets(
    graph: JobGraph, shown: Collection[OperatorId]
) -> tuple[Mapping[OperatorId, OperatorSpec], frozenset[OperatorId]]:
    """Return the specs of the joins whose rows say their buckets, and the operators that bear these to aggregates.

    ``shown`` are the operators whose results say how good they are: other aggregates need no buckets.
    """
    joins: dict[OperatorId, OperatorSpec] = {}
    bearers: set[OperatorId] = set()
    for node in graph.operators.values():
        spec = descriptor_of(node.spec).with_buckets(node.spec)
        if spec is None or not any(may_be_sampled(graph, node, port) for port in range(len(node.inputs))):
            continue
        ways = ways_to_aggregates(graph, node, shown)
        if ways is not None:
            joins[node.id] = spec
            bearers |= ways
    return joins, frozenset(bearers)


def ways_to_aggregates(graph: JobGraph, node: OperatorNode, shown: Collection[OperatorId]) -> set[OperatorId] | None:
    """Return what stands between an operator and aggregates that are shown; None: there is no way to one.

    What stands there carries hidden columns of the operator's rows.
    """
    ways: set[OperatorId] | None = None
    for consumer, port in graph.consumers(node.id):
        if not brings_rows(consumer.inputs[port]):
            continue
        if descriptor_of(consumer.spec).estimates:
            found = set[OperatorId]() if consumer.id in shown else None
        elif carries_buckets(consumer):
            further = ways_to_aggregates(graph, consumer, shown)
            found = None if further is None else {consumer.id, *further}
        else:
            found = None
        if found is not None:
            ways = (ways or set()) | found
    return ways
