"""What queries under contract get, in words: what may be shed where, which results are estimates, which columns.

A plan without such a query says nothing of it.
"""

from collections.abc import Iterator, Mapping

from penstock.engine.operators.aggregates.estimate_schema import has_interval
from penstock.engine.operators.descriptions import Detail, expression_text
from penstock.engine.operators.joins.join_schema import SIDES
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.operators.sink_columns import SinkColumns
from penstock.engine.plan.shedding_points import SheddingPoints, branch_above, shedding_points
from penstock.model.ids import OperatorId
from penstock.model.job_graph import AggregateSpec, BranchSpec, JobGraph, OperatorNode, SinkSpec, SourceSpec
from penstock.model.result_columns import ACCURACY, BUCKET, DRAW, is_hidden

_STRATA = {"partition": "partition", "key": "message key of a partition"}


def quality_details(graph: JobGraph) -> Mapping[OperatorId, tuple[Detail, ...]]:
    """Return what is to be said of the operators of a plan's graph, beside what they do."""
    if not any(isinstance(node.spec, SinkSpec) and node.spec.under_contract for node in graph.operators.values()):
        return {}
    points = shedding_points(graph)
    return {node.id: tuple(_details(graph, points, node)) for node in graph.operators.values()}


def _details(graph: JobGraph, points: SheddingPoints, node: OperatorNode) -> Iterator[Detail]:
    spec = node.spec
    shedding: list[str] = []
    if isinstance(spec, SourceSpec):
        shedding.append(_of_source(points, node.name))
        if spec.strata is not None and node.name in points.sources:
            shedding.append(f"an even share of each {_STRATA[spec.strata]}")
    elif isinstance(spec, BranchSpec) and spec.number is not None:
        minimum = points.branches.get(spec.edge)
        shedding.append("never, as its source" if minimum is None else f"down to {minimum:g}")
    elif any(_has_sampler(node, port) for port in range(len(node.inputs))):
        shedding.append(_of_keys(graph, points, node))
    elif isinstance(spec, AggregateSpec) and spec.estimates:
        in_strata = DRAW in graph[node.inputs[0].operator].outputs[node.inputs[0].output].fields.names
        shedding += _of_results(spec, over_estimates=_are_estimates(graph, node), in_strata=in_strata)
    if shedding:
        yield "shedding", "; ".join(shedding)
    if isinstance(spec, SinkSpec) and spec.shows_quality:
        edge = node.inputs[0]
        schema = graph[edge.operator].outputs[edge.output]
        shown = len([name for name in schema.fields.names if not is_hidden(name)])
        yield "adds", ", ".join(SinkColumns(schema).schema.fields.names[shown:])


def _of_source(points: SheddingPoints, name: str) -> str:
    if name in points.reasons:
        return f"never: {points.reasons[name]}"
    if points.sources[name] >= 1.0:
        is_own = any(edge not in points.keyed for edge in points.branches)
        places = "at branches behind it" if is_own else "by keys behind it"
        return f"{places} only, as a query needs all of its rows"
    return f"down to {points.sources[name]:g}"


def _of_keys(graph: JobGraph, points: SheddingPoints, node: OperatorNode) -> str:
    """Return by which keys rows are dropped in front of an operator, and how far."""
    sides = [_of_side(graph, points, node, port) for port in range(len(node.inputs))]
    named = sides if len(sides) == 1 else [f"{side} {text}" for side, text in zip(SIDES, sides, strict=True)]
    return f"{'; '.join(named)}; results are exact, and some are missing"


def _of_side(graph: JobGraph, points: SheddingPoints, node: OperatorNode, port: int) -> str:
    if not _has_sampler(node, port):
        return "whole"
    keys = ", ".join(map(expression_text, descriptor_of(node.spec).keys(node.spec, port) or ()))
    least = points.branches.get((graph[branch_above(graph, node.inputs[port].operator)].name, node.name))
    return f"sampled by key {keys}, {'never, as its source' if least is None else f'down to {least:g}'}"


def _has_sampler(node: OperatorNode, port: int) -> bool:
    return descriptor_of(node.spec).sampler(node.spec, port) is not None


def _are_estimates(graph: JobGraph, node: OperatorNode) -> bool:
    """Return whether what an operator reads are results that say themselves how good they are.

    Those that know which keys they are of are exact, and some are missing.
    """
    edge = node.inputs[0]
    names = graph[edge.operator].outputs[edge.output].fields.names
    return ACCURACY in names and BUCKET not in names


def _of_results(spec: AggregateSpec, *, over_estimates: bool, in_strata: bool) -> Iterator[str]:
    """Yield which aggregates are estimates of all rows, and which say something of the kept rows alone."""
    if over_estimates:
        yield "biased, being made of estimates"
        return
    names = {True: list[str](), False: list[str]()}
    for name, call in spec.aggregates:
        names[has_interval(spec, call)].append(name)
    if names[True]:
        yield f"{', '.join(names[True])} estimated, with an interval{' of strata' if in_strata else ''}"
    if names[False]:
        yield f"{', '.join(names[False])} biased"
