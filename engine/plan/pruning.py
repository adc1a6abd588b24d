"""Column pruning: every operator computes, and every source reads, only the columns that something above uses."""

from collections.abc import Sequence, Set
from dataclasses import replace

from penstock.engine.operators.descriptor import time_column
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.schemas import output_schemas
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.expressions import col
from penstock.model.ids import OperatorId
from penstock.model.job_graph import MAIN, Input, JobGraph, OperatorNode, ProjectSpec, SourceSpec
from penstock.model.schema import TimeColumn

Required = dict[tuple[OperatorId, str], set[str]]


def prune_columns(graph: JobGraph) -> JobGraph:
    """Return the graph without unused columns. A sink's columns are never pruned."""
    required: Required = {}
    for node in reversed(list(graph.operators.values())):
        for edge, names in zip(node.inputs, _needs(graph, node, required), strict=True):
            required.setdefault((edge.operator, edge.output), set()).update(names)
    keep_time = _event_time_matters(graph)
    pruned = JobGraph()
    for node in graph.operators.values():
        _rebuild(pruned, node, required, keep_time)
    return pruned


def _event_time_matters(graph: JobGraph) -> bool:
    """Return whether the event time column is worth reading although no expression uses it.

    Operators that group or order by time need watermarks row by row, and several sources are aligned by them. One
    source under stateless operators reports event time from what it skips over instead.
    """
    nodes = graph.operators.values()
    sources = sum(isinstance(node.spec, SourceSpec) for node in nodes)
    return sources > 1 or any(descriptor_of(node.spec).needs_time for node in nodes)


def _needs(graph: JobGraph, node: OperatorNode, required: Required) -> Sequence[Set[str]]:
    """Return, per input, the columns this operator needs, given what its outputs must bring."""
    inputs = [graph[edge.operator].outputs[edge.output] for edge in node.inputs]
    if (node.id, DEAD_LETTER) in required:
        # A dead letter shows the whole row, and a row is bad whichever of its columns cannot be computed.
        return [set(schema.fields.names) for schema in inputs]
    wanted = {output: names for (operator, output), names in required.items() if operator == node.id}
    return descriptor_of(node.spec).needed(node.spec, inputs, wanted)


def _rebuild(graph: JobGraph, node: OperatorNode, required: Required, keep_time: bool) -> None:
    """Add the pruned version of a node to ``graph``, whose earlier operators are pruned already."""
    wanted: Set[str] = required.get((node.id, MAIN), set())
    if (node.id, DEAD_LETTER) in required:
        wanted = set(node.outputs[MAIN].fields.names)
    descriptor = descriptor_of(node.spec)
    source_time: TimeColumn | None = None
    if isinstance(node.spec, SourceSpec):
        schema = node.outputs[MAIN]
        if keep_time:
            wanted = wanted | time_column(schema)
        source_time = schema.time
    spec = descriptor.narrowed(node.spec, wanted)
    if source_time is not None and source_time.name not in spec.source.schema.names:
        source_time = None
    inputs = node.inputs
    if descriptor.like_inputs:
        inputs = tuple(_same_columns(graph, node, port, wanted) for port in range(len(node.inputs)))
    schemas = [graph[edge.operator].outputs[edge.output] for edge in inputs]
    outputs = dict(output_schemas(spec, schemas, node.name, source_time))
    graph.add(replace(node, spec=spec, inputs=inputs, outputs=outputs))


def _same_columns(graph: JobGraph, node: OperatorNode, port: int, wanted: Set[str]) -> Input:
    """Give every input of an operator that needs it the same columns, by a projection where a filter left more."""
    edge = node.inputs[port]
    schema = graph[edge.operator].outputs[edge.output]
    names = [name for name in node.outputs[MAIN].fields.names if name in wanted]
    if not names or schema.fields.names == names:
        return edge
    key = OperatorId(f"{node.id}.{port}")
    spec = ProjectSpec(tuple((name, col(name)) for name in names))
    name = f"{node.name}.{port}"
    outputs = dict(output_schemas(spec, [schema], name))
    graph.add(OperatorNode(key, name, spec, (edge,), outputs, parallelism=node.parallelism, where=node.where))
    return Input(key)
