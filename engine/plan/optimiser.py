"""Rewrites a job graph into one that means the same and does less: filters early, projections merged, columns pruned.

Pure functions from graph to graph, called by the planner; `explain` shows what they did. An operator whose dead letters
are read meets the rows it was written for, and only these: nothing is moved across it or merged with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.engine.plan.pruning import prune_columns
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.expression_trees import MOST_LEVELS, levels, never_fails
from penstock.model.expressions import Expr, col, column_name, column_uses, columns_of, node_count, substitute
from penstock.model.ids import OperatorId
from penstock.model.job_graph import (
    MAIN,
    FilterSpec,
    Input,
    JobGraph,
    OperatorNode,
    ProjectSpec,
    SinkSpec,
    SourceSpec,
)
from penstock.model.join_specs import JoinSpec
from penstock.model.result_columns import is_hidden

LARGEST_MERGED = 200
"""Nodes of an expression beyond which projections are not merged, so that long pipelines make no bottomless trees."""


def optimise(graph: JobGraph) -> JobGraph:
    """Return an equivalent graph of what the sinks need."""
    return _rewritten(push_predicates_into_sources(narrowed(graph)), _fused)


def narrowed(graph: JobGraph) -> JobGraph:
    """Return an equivalent graph whose sources are asked for the columns that a stream reads, and no others.

    Whoever reads the same rows for another purpose starts here, so that it rejects the same rows.
    """
    graph = reachable(graph)
    for rewrite in (_lowered, _joined, _merged):
        graph = _rewritten(graph, rewrite)
    return prune_columns(graph)


def reachable(graph: JobGraph) -> JobGraph:
    """Keep only what some sink reads."""
    return JobGraph(graph.upstream(node.id for node in graph.operators.values() if isinstance(node.spec, SinkSpec)))


def _rewritten(graph: JobGraph, rewrite: Callable[[JobGraph, OperatorNode], JobGraph | None]) -> JobGraph:
    """Return the graph after a rewrite around one operator, as often as there is one that it applies to."""
    changed: JobGraph | None = graph
    while changed is not None:
        graph = changed
        changed = next(filter(None, (rewrite(graph, node) for node in graph.operators.values())), None)
    return graph


def _lowered(graph: JobGraph, node: OperatorNode) -> JobGraph | None:
    """Move a filter below a projection that passes the filter's columns on.

    A filter that needs a computed column stays: pushing it would compute the column twice. Neighbouring filters stay
    apart: the first one may keep out rows for which the second has no answer.
    """
    if not isinstance(node.spec, FilterSpec) or node.inputs[0].output != MAIN:
        return None
    below = graph[node.inputs[0].operator]
    if not isinstance(below.spec, ProjectSpec) or len(graph.consumers(below.id)) != 1:
        return None
    if graph.is_read(node.id, DEAD_LETTER):
        return None
    if _runs_elsewhere(node, below) or below.inputs[0].exchange or node.inputs[0].exchange:
        return None
    mapping = dict(below.spec.columns)
    if any(column_name(mapping[name]) is None for name in columns_of(node.spec.predicate)):
        return None
    source = graph[below.inputs[0].operator].outputs[below.inputs[0].output]
    spec = FilterSpec(substitute(node.spec.predicate, mapping))
    lowered = replace(node, spec=spec, inputs=below.inputs, outputs={MAIN: source})
    raised = replace(below, inputs=(Input(node.id),))
    operators: dict[OperatorId, OperatorNode] = {}
    for key, item in graph.operators.items():
        if key == below.id:
            operators[node.id] = lowered
            operators[below.id] = raised
        elif key != node.id:
            operators[key] = _redirect(item, node.id, below.id)
    return JobGraph(operators)


def _joined(graph: JobGraph, node: OperatorNode) -> JobGraph | None:
    """Let a join whose one side has each key once evaluate a filter's condition over that side's columns.

    It need not keep the rows that do not fulfil it, nor their partners; below the join, partners would wait for ever.
    Only conditions that have an answer for every row: others might be asked about rows without a partner.
    """
    if not isinstance(node.spec, FilterSpec) or node.named or node.inputs[0].output != MAIN or node.inputs[0].exchange:
        return None
    below = graph[node.inputs[0].operator]
    spec = below.spec
    if not isinstance(spec, JoinSpec) or spec.one_side is None or len(graph.consumers(below.id)) != 1:
        return None
    if _runs_elsewhere(node, below) or graph.is_read(node.id, DEAD_LETTER):
        return None
    mapping = {name: col(column) for name, side, column in spec.output if side == spec.one_side}
    predicate = node.spec.predicate
    if not columns_of(predicate) <= mapping.keys() or not never_fails(predicate.tree):
        return None
    condition = substitute(predicate, mapping)
    joined = replace(below, spec=replace(spec, where=condition if spec.where is None else spec.where & condition))
    operators = {
        key: joined if key == below.id else _redirect(item, node.id, below.id)
        for key, item in graph.operators.items()
        if key != node.id
    }
    return JobGraph(operators)


def _merged(graph: JobGraph, node: OperatorNode) -> JobGraph | None:
    """Compute neighbouring projections in one step.

    Not if that would put something computed in two places, or make an expression of more than `LARGEST_MERGED` nodes
    or more levels than users may nest.
    """
    if not isinstance(node.spec, ProjectSpec) or node.inputs[0].output != MAIN or node.inputs[0].exchange:
        return None
    below = graph[node.inputs[0].operator]
    if not isinstance(below.spec, ProjectSpec) or len(graph.consumers(below.id)) != 1:
        return None
    if below.named or _runs_elsewhere(node, below) or graph.is_read(node.id, DEAD_LETTER):
        return None
    mapping = dict(below.spec.columns)
    uses = [name for _, expression in node.spec.columns for name in column_uses(expression)]
    if any(uses.count(name) > 1 and column_name(mapping[name]) is None for name in set(uses)):
        return None
    if any(_merged_size(expression, mapping) > LARGEST_MERGED for _, expression in node.spec.columns):
        return None
    columns = tuple((name, substitute(expression, mapping)) for name, expression in node.spec.columns)
    if any(levels(expression.tree) > MOST_LEVELS for _, expression in columns):
        return None
    return _in_place_of(graph, below, replace(node, spec=ProjectSpec(columns), inputs=below.inputs))


def _merged_size(expression: Expr, mapping: Mapping[str, Expr]) -> int:
    """Return how many nodes there are once columns, which are two nodes each, are replaced; parentheses not counted."""
    return node_count(expression) + sum(node_count(mapping[name]) - 2 for name in column_uses(expression))


def push_predicates_into_sources(graph: JobGraph) -> JobGraph:
    """Tell a source that feeds only a filter which rows that filter drops; the filter stays."""
    operators = dict(graph.operators)
    for node in graph.operators.values():
        if not isinstance(node.spec, SourceSpec):
            continue
        consumers = graph.consumers(node.id)
        if len(consumers) != 1:
            continue
        above = consumers[0][0]
        if not isinstance(above.spec, FilterSpec) or _reads_letters(graph, above):
            continue
        names = [name for name in node.outputs[MAIN].fields.names if not is_hidden(name)]
        source = node.spec.source.restrict(names, above.spec.predicate)
        operators[node.id] = replace(node, spec=replace(node.spec, source=source))
    return JobGraph(operators)


def _fused(graph: JobGraph, node: OperatorNode) -> JobGraph | None:
    """Let a projection right above a filter evaluate the condition, so that both share what they compute."""
    if not isinstance(node.spec, FilterSpec) or node.named or node.inputs[0].exchange:
        return None
    consumers = graph.consumers(node.id)
    if len(consumers) != 1:
        return None
    above = consumers[0][0]
    if not isinstance(above.spec, ProjectSpec) or above.inputs[0].exchange or above.spec.where is not None:
        return None
    if _runs_elsewhere(above, node) or _reads_letters(graph, above):
        return None
    spec = replace(above.spec, where=node.spec.predicate)
    return _in_place_of(graph, node, replace(above, spec=spec, inputs=node.inputs))


def _in_place_of(graph: JobGraph, replaced: OperatorNode, changed: OperatorNode) -> JobGraph:
    """Return the graph with an operator changed so that another one, right below it, is not needed."""
    return JobGraph(
        {key: changed if key == changed.id else node for key, node in graph.operators.items() if key != replaced.id}
    )


def _runs_elsewhere(node: OperatorNode, other: OperatorNode) -> bool:
    """Return whether an operator has other instances than another one."""
    return (node.parallelism, node.resources) != (other.parallelism, other.resources)


def _reads_letters(graph: JobGraph, node: OperatorNode) -> bool:
    """Return whether an operator of one input reads dead letters or has its own read."""
    return node.inputs[0].output == DEAD_LETTER or graph.is_read(node.id, DEAD_LETTER)


def _redirect(node: OperatorNode, old: OperatorId, new: OperatorId) -> OperatorNode:
    if all(edge.operator != old for edge in node.inputs):
        return node
    inputs = tuple(replace(edge, operator=new) if edge.operator == old else edge for edge in node.inputs)
    return replace(node, inputs=inputs)
