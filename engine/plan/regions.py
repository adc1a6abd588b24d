"""The smallest part of a job that must restart when tasks failed (docs/design/recovery.md 2).

Tasks that are joined by channels, directly or not, share a cut of the stream and go back together; pipelines that
share no channel never notice each other. The recovering job and the executors ask.
"""

from collections.abc import Collection, Iterable

from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import TaskId


def restart_region(graph: ExecutionGraph, failed: Collection[TaskId]) -> frozenset[TaskId]:
    """Return the failed tasks and every task joined to one of them by channels; empty if nothing failed.

    Raises:
        ValueError: a failed task is not in the graph.
    """
    unknown = set(failed) - {task.id for task in graph.tasks}
    if unknown:
        raise ValueError(f"tasks {sorted(unknown)} are not in the execution graph")
    return frozenset().union(*(region for region in regions(graph) if not region.isdisjoint(failed)))


def struck_by(graph: ExecutionGraph, operator: str | None) -> frozenset[TaskId] | None:
    """Return the task that a failure of the operator of this name strikes, None if it was no operator's."""
    if operator is None:
        return None
    nodes = graph.graph.operators
    return frozenset(task.id for task in graph.tasks if any(nodes[item].name == operator for item in task.operators))


def regions(graph: ExecutionGraph) -> tuple[frozenset[TaskId], ...]:
    """Return the connected components of tasks over channels, in the order of their first tasks."""
    return joined_tasks(graph, [edge for edge in graph.edges if not edge.chained])


def joined_tasks(graph: ExecutionGraph, edges: Iterable[Edge]) -> tuple[frozenset[TaskId], ...]:
    """Return the connected components of tasks over these edges, in the order of their first tasks."""
    task_of = {operator: task.id for task in graph.tasks for operator in task.operators}
    component_of = {task.id: frozenset({task.id}) for task in graph.tasks}
    for edge in edges:
        joined = component_of[task_of[edge.producer]] | component_of[task_of[edge.consumer]]
        component_of |= dict.fromkeys(joined, joined)
    return tuple(dict.fromkeys(component_of.values()))


def region_id(region: Collection[TaskId]) -> TaskId:
    """Return the task that stands for a region: its first."""
    return min(region)
