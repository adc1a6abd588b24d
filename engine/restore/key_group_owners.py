"""The instances that own the key groups of each task: those that a checkpoint notes, as far as they can stay.

Pure; `build` asks before it makes instances and exchanges, `RestoredState` for what was before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.plan.planner import lies_by_key
from penstock.engine.plan.regions import joined_tasks
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners, assign, moved, reassign
from penstock.state.checkpoints.manifest import InstanceEntry


@dataclass(frozen=True, slots=True)
class Noted:
    """The owners of an operator's key groups in a checkpoint, and how many instances it had then."""

    owners: Owners
    instances: int


def noted_owners(entries: Sequence[InstanceEntry], key_groups: int) -> Owners:
    """Return who owned each key group of an operator, by the ranges of its instances; there must be one.

    Where these do not say it of every group, it is as it is when a job begins.
    """
    ranges = [(first, end, entry.instance) for entry in entries for first, end in entry.key_groups]
    # There are more than the job's where an operator has more instances than that.
    owners = np.full(max((end for _, end, _ in ranges), default=key_groups), -1, np.int32)
    for first, end, instance in ranges:
        owners[first:end] = instance
    return assign(max(key_groups, len(entries)), len(entries)) if (owners < 0).any() else owners


def owner_tables(graph: ExecutionGraph, key_groups: int, noted: Mapping[str, Noted]) -> dict[TaskId, Owners]:
    """Return the owners of each task's key groups; ``noted`` are those that operators had, by name.

    Rows that lie by keys go on where they are over forward edges, so tasks that are joined by such share a table: that
    of their first operator with state of which it is noted. As many instances as before go on with what they had,
    which moves may have made uneven; otherwise all have about as much, with the fewest groups moved.
    """
    tables: dict[TaskId, Owners] = {}
    parallelism = {task.id: task.parallelism for task in graph.tasks}
    for tasks in coupled_tasks(graph):
        instances = parallelism[min(tasks)]
        count = max(key_groups, instances)
        before = next((item for item in _noted_of(graph, tasks, noted) if len(item.owners) == count), None)
        if before is None:
            table = assign(count, instances)
        elif before.instances == instances and before.owners.max() < instances:
            table = moved(before.owners, ())
        else:
            table = reassign(before.owners, instances)
        tables |= dict.fromkeys(tasks, table)
    return tables


def coupled_tasks(graph: ExecutionGraph) -> tuple[frozenset[TaskId], ...]:
    """Return the tasks that share owners, and move together: those that are joined by forward edges."""
    return joined_tasks(graph, [edge for edge in graph.edges if edge.exchange == "forward"])


def leaders(graph: ExecutionGraph) -> dict[TaskId, TaskId]:
    """Return the task that stands for those that each moves with: their first."""
    return {task: min(tasks) for tasks in coupled_tasks(graph) for task in tasks}


def _noted_of(graph: ExecutionGraph, tasks: frozenset[TaskId], noted: Mapping[str, Noted]) -> list[Noted]:
    nodes = [graph.node(operator) for task in graph.tasks if task.id in tasks for operator in task.operators]
    return [noted[node.name] for node in nodes if node.name in noted and lies_by_key(graph, node)]
