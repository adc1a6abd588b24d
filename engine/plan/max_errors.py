"""What queries that want a certain error can have, checked before anything is planned. Pure.

Only counts, sums and means over samples have intervals, and an interval is made for one confidence.
"""

from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.shedding_points import shedding_points
from penstock.model.errors import PlanError
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec, SourceSpec

_WHICH = "only count, sum and mean over tumbling, hopping, global or no windows have intervals"


def check_max_errors(graph: JobGraph) -> None:
    """Refuse queries that want an error of results without intervals.

    Raises:
        PlanError: naming query, operator and aggregate, with their lines.
    """
    for sink in graph.operators.values():
        if isinstance(sink.spec, SinkSpec) and sink.spec.max_error is not None:
            _check(graph, sink, sink.spec)


def confidences(graph: JobGraph) -> dict[OperatorId, float]:
    """Return the confidence of the intervals of each aggregate that a query under contract reads.

    Raises:
        PlanError: two queries that show its intervals want different ones; the message names them.
    """
    chosen: dict[OperatorId, tuple[float, str]] = {}
    for sink in graph.operators.values():
        if not isinstance(sink.spec, SinkSpec) or not sink.spec.shows_quality:
            continue
        wanted = sink.spec.confidence
        for node in graph.upstream([sink.id]).values():
            if not descriptor_of(node.spec).estimates:
                continue
            before, query = chosen.setdefault(node.id, (wanted, sink.name))
            if before != wanted:
                raise PlanError(
                    f"{_place(node)} has intervals at one confidence, but query {query!r} wants them at {before:g} and "
                    f"query {sink.name!r} at {wanted:g}: give both with_max_error(..., confidence={wanted:g})"
                )
    return {operator: confidence for operator, (confidence, _) in chosen.items()}


def _check(graph: JobGraph, sink: OperatorNode, spec: SinkSpec) -> None:
    wants = f"query {_place(sink)} wants a maximum error, but"
    if not spec.columns:
        raise PlanError(f"{wants} columns=False takes away the intervals by which it is known; leave that out")
    if spec.queues_wide and not spec.sink.takes_corrections:
        raise PlanError(
            f"query {_place(sink)} is to be corrected where it is inaccurate, but {spec.sink.describe()} takes "
            "no corrections, which are messages of JSON to Kafka: write with_max_error(..., otherwise='keep')"
        )
    pending, has_aggregate, source = [sink], False, ""
    while pending:
        node = pending.pop()
        if descriptor_of(node.spec).estimates:
            has_aggregate = True
            _check_aggregate(graph, node, wants)
        elif isinstance(node.spec, SourceSpec):
            source = _place(node)
        elif node is not sink and descriptor_of(node.spec).with_hidden(node.spec, ()) is None:
            verb = descriptor_of(node.spec).verb
            raise PlanError(f"{wants} what {_place(node)} ({verb}) makes has no interval: {_WHICH}")
        else:
            pending += [graph[edge.operator] for edge in node.inputs]
    if not has_aggregate:
        raise PlanError(f"{wants} it writes rows of {source} and no aggregates: {_WHICH}")
    points = shedding_points(JobGraph(graph.upstream([sink.id])), bounded=True)
    if not points.sources:
        name, reason = next(iter(points.reasons.items()))
        raise PlanError(f"{wants} nothing may be shed for it, so it is exact; of source {name!r}: {reason}")


def _check_aggregate(graph: JobGraph, node: OperatorNode, wants: str) -> None:
    for name, what in descriptor_of(node.spec).without_interval(node.spec):
        raise PlanError(f"{wants} {name!r} of {_place(node)} ({what}) has no interval: {_WHICH}")
    above = graph.upstream([edge.operator for edge in node.inputs]).values()
    for other in above:
        if descriptor_of(other.spec).estimates:
            raise PlanError(
                f"{wants} {_place(node)} aggregates results of {_place(other)}, and of results that are estimates "
                f"themselves nothing has an interval"
            )


def _place(node: OperatorNode) -> str:
    return f"{node.name!r} at {node.where}" if node.where else repr(node.name)
