"""Words for operators and edges of a plan, for the tree, Mermaid, SVG and JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.engine.operators.descriptions import Detail, Words, expression_text
from penstock.engine.operators.descriptor import Partitioning
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.resources import resources_phrase
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import OperatorId
from penstock.model.job_graph import MAIN, OperatorNode
from penstock.plan_views.quality import quality_details

GENERATED = "*"
"""Follows the name of an operator that the user did not name."""


def words(graph: ExecutionGraph) -> Mapping[OperatorId, Words]:
    """Describe the operators of a plan."""
    quality = quality_details(graph.graph)
    return {key: _words(node, quality.get(key, ())) for key, node in graph.graph.operators.items()}


def _words(node: OperatorNode, quality: tuple[Detail, ...]) -> Words:
    described = descriptor_of(node.spec).words(node.spec, node)
    needs = (("needs", resources_phrase(node.resources)),) if node.resources else ()
    return replace(described, details=(*described.details, *quality, *needs))


def display_name(node: OperatorNode) -> str:
    """Return an operator's name, with `GENERATED` behind it if nobody chose it."""
    return node.name if node.named else node.name + GENERATED


def edge_text(graph: ExecutionGraph, edge: Edge) -> str:
    """Name an edge's exchange, the side output it leaves, and the side of a join it reaches."""
    exchange = edge.exchange
    if exchange == "hash":
        exchange = f"hash({', '.join(expression_text(key) for key in edge.keys)})"
    text = exchange if edge.output == MAIN else f"{edge.output}: {exchange}"
    if descriptor_of(graph.node(edge.consumer).spec).partitioning is Partitioning.BY_SIDES:
        text += " (right)" if edge.port else " (left)"
    return text


def side_output(graph: ExecutionGraph, operator: OperatorId) -> str:
    """Name the side output that an operator inside a chain reads, to stand before its name; empty for the main one."""
    edge = next((edge for edge in graph.incoming(operator) if edge.chained), None)
    return "" if edge is None or edge.output == MAIN else f"{edge.output}: "


def task_text(task: Task) -> str:
    """Name a task with its parallelism."""
    return f"task {task.id} ×{task.parallelism}"


def legend(graph: ExecutionGraph) -> str:
    """Explain `GENERATED`, if a name of the plan is marked so."""
    if all(node.named for node in graph.graph.operators.values()):
        return ""
    return f'{GENERATED} generated name; .name("...") gives the operator a stable one'


def summary(graph: ExecutionGraph) -> str:
    """Count tasks and instances."""
    instances = sum(task.parallelism for task in graph.tasks)
    return f"{_count(len(graph.tasks), 'task')}, {_count(instances, 'instance')}"


def chain(graph: ExecutionGraph, task: Task) -> Iterator[tuple[OperatorNode, int]]:
    """Yield a task's operators as rows pass them, each with the number of branchings above it."""
    pending: list[tuple[OperatorId, int]] = [(task.head, 0)]
    while pending:
        operator, depth = pending.pop()
        yield graph.node(operator), depth
        following = [edge.consumer for edge in graph.outgoing(operator) if edge.chained]
        deeper = depth + (len(following) > 1)
        pending.extend((consumer, deeper) for consumer in reversed(following))


def plan_data(graph: ExecutionGraph) -> dict[str, Any]:
    """Return the plan as plain data, for JSON."""
    described = words(graph)
    return {
        "tasks": [
            {
                "task": int(task.id),
                "parallelism": task.parallelism,
                "operators": [_operator_data(node, described[node.id]) for node, _ in chain(graph, task)],
            }
            for task in graph.tasks
        ],
        "edges": [
            {
                "from": graph.node(edge.producer).name,
                "output": edge.output,
                "to": graph.node(edge.consumer).name,
                "input": edge.port,
                "exchange": edge.exchange,
                "keys": [expression_text(key) for key in edge.keys],
                "chained": edge.chained,
            }
            for edge in graph.edges
        ],
    }


def _operator_data(node: OperatorNode, described: Words) -> dict[str, Any]:
    return {
        "name": node.name,
        "generated_name": not node.named,
        "kind": node.kind,
        "does": described.headline,
        "details": dict(described.details),
        "where": node.where,
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
