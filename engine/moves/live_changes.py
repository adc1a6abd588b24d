"""Changes of parallelism that a job can come to while it runs, and in which steps. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.moves.movable import is_source, refusal
from penstock.engine.moves.wanted_moves import Groups
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.planner import has_broadcast_input, in_caller, lies_by_key
from penstock.engine.plan.regions import regions
from penstock.engine.restore.key_group_owners import coupled_tasks
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import TaskId
from penstock.model.job_graph import SinkSpec
from penstock.model.key_groups import Owners, reassign


@dataclass(frozen=True, slots=True)
class LiveChange:
    """Three plans of the same chains and exchanges.

    Of ``wide`` each task has as many instances as in the one of ``before`` or ``after`` that has more.
    """

    before: ExecutionGraph
    wide: ExecutionGraph
    after: ExecutionGraph

    @property
    def grows(self) -> bool:
        """Whether a task gets more instances."""
        return self.wide is not self.before

    @property
    def shrinks(self) -> bool:
        """Whether a task gets fewer."""
        return self.wide is not self.after

    def tasks(self) -> frozenset[TaskId]:
        """Return the tasks whose numbers of instances change."""
        return frozenset(item.id for item, was in _pairs(self.after, self.before) if item != was)

    def writers(self) -> Mapping[str, int]:
        """Return the sinks that get more writers, by name, and how many these are then."""
        before = {operator: task.parallelism for task in self.before.tasks for operator in task.operators}
        wide = {operator: task.parallelism for task in self.wide.tasks for operator in task.operators}
        nodes = [self.wide.node(operator) for operator in wide if wide[operator] > before[operator]]
        return {node.name: wide[node.id] for node in nodes if isinstance(node.spec, SinkSpec)}

    def begun(self) -> Mapping[TaskId, int]:
        """Return how many instances each task has before."""
        return {task.id: task.parallelism for task in self.before.tasks}

    def new(self) -> tuple[str, ...]:
        """Return the names of the instances that come."""
        return _beyond(self.wide, self.before)

    def leaving(self) -> tuple[str, ...]:
        """Return the names of the instances that go."""
        return _beyond(self.wide, self.after)

    def sources(self) -> tuple[Task, ...]:
        """Return the tasks that read and get other numbers of instances, as they are with the most."""
        changed = self.tasks()
        return tuple(task for task in self.wide.tasks if task.id in changed and is_source(self.wide, task))

    def staying(self, task: TaskId) -> tuple[str, ...]:
        """Return the instances of a task that are there afterwards."""
        return next(self.after.instances(item) for item in self.after.tasks if item.id == task)

    def regions(self) -> tuple[frozenset[TaskId], ...]:
        """Return the regions in which a task gets more instances."""
        more = {task.id for task, was in zip(self.wide.tasks, self.before.tasks, strict=True) if task != was}
        return tuple(region for region in regions(self.before) if not region.isdisjoint(more))

    def moves(
        self, owners: Mapping[TaskId, Owners], weights: Mapping[TaskId, Sequence[float]] | None = None
    ) -> list[tuple[TaskId, Groups]]:
        """Return which key groups are to move, by the first of the tasks that move together: the fewest that even out.

        Each group has its number, its giver and its taker. ``weights`` are those of the instances of each task.
        """
        count, wanted = {task.id: task.parallelism for task in self.after.tasks}, []
        for tasks in coupled_tasks(self.after):
            lead = min(tasks)
            changed = any(item != was for item, was in _pairs(self.after, self.before) if item.id in tasks)
            if not changed or not any(_is_keyed(self.after, item) for item in self.after.tasks if item.id in tasks):
                continue
            had, table = owners[lead], reassign(owners[lead], count[lead], (weights or {}).get(lead))
            moving = np.flatnonzero(table != had)
            wanted.append((lead, tuple((int(group), int(had[group]), int(table[group])) for group in moving)))
        return wanted


def live_change(before: ExecutionGraph, after: ExecutionGraph) -> LiveChange | str:
    """Return how a running job comes to another plan, or why it cannot without beginning anew."""
    shapes = [[(task.id, task.operators) for task in graph.tasks] for graph in (before, after)]
    if shapes[0] != shapes[1] or list(map(_ways, before.edges)) != list(map(_ways, after.edges)):
        return "other operators are chained then, or rows go by other ways"
    if after is before or not any(item != was for item, was in _pairs(after, before)):
        return "no task has other numbers of instances"
    for item, was in _pairs(after, before):
        if item == was:
            continue
        reason = _fault(after, item) or _fault(before, was)
        if reason is not None:
            return reason
    return LiveChange(before, _wider(before, after), after)


def _wider(before: ExecutionGraph, after: ExecutionGraph) -> ExecutionGraph:
    """Return the plan in which each task has the greater number of instances, one of the two if it is that."""
    tasks = tuple(item if item.parallelism >= was.parallelism else was for item, was in _pairs(after, before))
    for graph in (before, after):
        if tasks == graph.tasks:
            return graph
    return replace(after, tasks=tasks)


def _fault(graph: ExecutionGraph, task: Task) -> str | None:
    """Return why instances of a task cannot come or go while it runs, None if they can."""
    nodes = [graph.node(operator) for operator in task.operators]
    for node in nodes:
        if in_caller(node):
            return f"{node.name!r} runs in the process that started the job"
        if has_broadcast_input(node):
            return f"{node.name!r} meets a broadcast side, so its state does not lie by key"
        if descriptor_of(node.spec).keyed and not lies_by_key(graph, node):
            return f"{node.name!r} has state that does not lie by key"
    return refusal(graph, task.id) if _is_keyed(graph, task) else None


def _is_keyed(graph: ExecutionGraph, task: Task) -> bool:
    return any(lies_by_key(graph, graph.node(operator)) for operator in task.operators)


def _pairs(graph: ExecutionGraph, other: ExecutionGraph) -> list[tuple[Task, Task]]:
    return list(zip(graph.tasks, other.tasks, strict=True))


def _beyond(graph: ExecutionGraph, narrow: ExecutionGraph) -> tuple[str, ...]:
    pairs = _pairs(graph, narrow)
    return tuple(name for item, less in pairs for name in graph.instances(item)[less.parallelism :])


def _ways(edge: Edge) -> tuple[Edge, tuple[int, ...]]:
    """Return what makes an edge the same in plans of one graph, by the expressions themselves."""
    return edge, tuple(map(id, edge.keys))
