"""Changes of parallelism that a job can come to while it runs, and in which steps. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.engine.moves.movable import is_source, obstacle, refusal
from penstock.engine.moves.wanted_moves import Groups
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.planner import has_broadcast_input, in_caller, lies_by_key
from penstock.engine.plan.regions import regions
from penstock.engine.restore.key_group_owners import coupled_tasks
from penstock.model.execution_graph import Edge, ExecutionGraph, Task, instance_name
from penstock.model.ids import TaskId
from penstock.model.job_graph import SinkSpec
from penstock.model.key_groups import Owners, reassign, reassign_by_load


@dataclass(frozen=True, slots=True)
class LiveChange:
    """Plans of the same chains and exchanges: what runs ``before``, what in ``wide`` runs besides, what runs ``after``.

    Instances come with numbers that none had, and leave gaps where they go. ``anew`` is ``after`` without gaps: tasks
    that begin anew are built by it. Of tasks whose instances are ``replaced`` it has by the number of each that goes
    that of the one which takes over all that it has. ``loads`` are those of the key groups of tasks, as far as they are
    known.
    """

    before: ExecutionGraph
    wide: ExecutionGraph
    after: ExecutionGraph
    anew: ExecutionGraph
    replaced: Mapping[TaskId, Mapping[int, int]] = field(default_factory=dict)
    loads: Mapping[TaskId, Sequence[float]] = field(default_factory=dict)

    @property
    def grows(self) -> bool:
        """Whether a task gets new instances."""
        return self.wide is not self.before

    @property
    def shrinks(self) -> bool:
        """Whether instances go."""
        return self.wide is not self.after

    def tasks(self) -> frozenset[TaskId]:
        """Return the tasks whose instances change."""
        return frozenset(item.id for item, was in _pairs(self.after, self.before) if item != was)

    def writers(self) -> Mapping[str, int]:
        """Return the sinks that get writers, by name, and below which number these are then."""
        more = {
            task.id: task.first_free for task, was in _pairs(self.wide, self.before) if task.first_free > was.first_free
        }
        nodes = [(task.id, self.wide.node(operator)) for task in self.wide.tasks for operator in task.operators]
        return {node.name: more[task] for task, node in nodes if task in more and isinstance(node.spec, SinkSpec)}

    def begun(self) -> Mapping[TaskId, int]:
        """Return below which number each task has instances before."""
        return {task.id: task.first_free for task in self.before.tasks}

    def new(self) -> tuple[str, ...]:
        """Return the names of the instances that come."""
        return _beyond(self.wide, self.before)

    def leaving(self) -> tuple[str, ...]:
        """Return the names of the instances that go."""
        return _beyond(self.wide, self.after)

    def gone(self) -> Mapping[TaskId, tuple[int, ...]]:
        """Return the numbers of the instances that go, by task."""
        pairs = _pairs(self.wide, self.after)
        return {item.id: tuple(sorted({*item.numbers} - {*stay.numbers})) for item, stay in pairs if item != stay}

    def sources(self) -> tuple[Task, ...]:
        """Return the tasks that read and whose instances change, as they are with the most."""
        changed = self.tasks()
        return tuple(task for task in self.wide.tasks if task.id in changed and is_source(self.wide, task))

    def staying(self, task: TaskId) -> tuple[str, ...]:
        """Return the instances of a task that are there afterwards."""
        return next(self.after.instances(item) for item in self.after.tasks if item.id == task)

    def followers(self, task: Task) -> Mapping[str, str]:
        """Return who takes over what each instance of a task has that is replaced, by their names."""
        name = self.wide.name(task)
        pairs = self.replaced.get(task.id, {}).items()
        return {instance_name(name, giver): instance_name(name, taker) for giver, taker in pairs}

    def regions(self) -> tuple[frozenset[TaskId], ...]:
        """Return the regions in which a task gets new instances."""
        more = {task.id for task, was in zip(self.wide.tasks, self.before.tasks, strict=True) if task != was}
        return tuple(region for region in regions(self.before) if not region.isdisjoint(more))

    def moves(
        self, owners: Mapping[TaskId, Owners], weights: Mapping[TaskId, Sequence[float]] | None = None
    ) -> list[tuple[TaskId, Groups]]:
        """Return which key groups are to move, by the first of the tasks that move together.

        Each group has its number, its giver and its taker. What those have that are replaced goes to who follows them;
        elsewhere it is the fewest that even out, or, where loads of key groups are known and would lie unevenly then,
        those that even them out. ``weights`` are those of the instances of each task, which get key groups by number.
        """
        wanted = []
        for tasks in coupled_tasks(self.after):
            lead = min(tasks)
            changed = any(item != was for item, was in _pairs(self.after, self.before) if item.id in tasks)
            if not changed or not any(_is_keyed(self.after, item) for item in self.after.tasks if item.id in tasks):
                continue
            had = owners[lead]
            if lead in self.replaced:
                table = had.copy()
                for giver, taker in self.replaced[lead].items():
                    table[had == giver] = taker
            else:
                numbers = next(item.numbers for item in self.after.tasks if item.id == lead)
                loads = next((self.loads[item] for item in sorted(tasks) if item in self.loads), None)
                table = _evened(had, numbers, (weights or {}).get(lead), loads)
            moving = np.flatnonzero(table != had)
            wanted.append((lead, tuple((int(group), int(had[group]), int(table[group])) for group in moving)))
        return wanted


def live_change(
    before: ExecutionGraph,
    after: ExecutionGraph,
    used: Mapping[TaskId, int] | None = None,
    loads: Mapping[TaskId, Sequence[float]] | None = None,
) -> LiveChange | str:
    """Return how a running job comes to a plan without gaps, or why it cannot without beginning anew.

    Numbers below those of ``used`` were taken before, by task. ``loads`` are those of the change.
    """
    shapes = [[(task.id, task.operators) for task in graph.tasks] for graph in (before, after)]
    if shapes[0] != shapes[1] or list(map(_ways, before.edges)) != list(map(_ways, after.edges)):
        return "other operators are chained then, or rows go by other ways"
    pairs = [(item, was) for item, was in _pairs(after, before) if item.parallelism != was.parallelism]
    if not pairs:
        return "no task has other numbers of instances"
    for item, was in pairs:
        reason = fault(after, item) or fault(before, was)
        if reason is not None:
            return reason
    wide, narrow = [], []
    for item, was in _pairs(after, before):
        first = max(was.first_free, (used or {}).get(was.id, 0))
        new = range(first, first + item.parallelism - was.parallelism)
        grown = was.numbered((*was.numbers, *new)) if new else was
        wide.append(grown)
        narrow.append(was.numbered(was.numbers[: item.parallelism]) if item.parallelism < was.parallelism else grown)
    widest = with_tasks(after, wide, before)
    return LiveChange(before, widest, with_tasks(after, narrow, widest), after, loads=loads or {})


def with_tasks(graph: ExecutionGraph, tasks: Sequence[Task], other: ExecutionGraph | None = None) -> ExecutionGraph:
    """Return a plan with these tasks: the ``other`` one or it itself, if it has them."""
    for known in (other, graph):
        if known is not None and known.tasks == tuple(tasks):
            return known
    return replace(graph, tasks=tuple(tasks))


def _evened(
    had: Owners, numbers: Sequence[int], weights: Sequence[float] | None, loads: Sequence[float] | None
) -> Owners:
    """Return the owners of these numbers that differ little from those before and have as much each."""
    # By their places among those that stay; behind them come those that go.
    places = {number: place for place, number in enumerate(numbers)}
    for number in sorted({*had.tolist()} - places.keys()):
        places[number] = len(places)
    before = np.array([places[number] for number in had.tolist()], np.int32)
    if weights is None and loads is not None and len(loads) == len(had):
        by_place = reassign_by_load(before, len(numbers), loads)
    else:
        by_place = reassign(before, len(numbers), weights)
    return np.array(numbers, np.int32)[by_place]


def without_gaps(graph: ExecutionGraph) -> ExecutionGraph:
    """Return a plan with as many instances of each task, numbered anew."""
    return with_tasks(graph, [replace(task, gaps=()) for task in graph.tasks])


def fault(graph: ExecutionGraph, task: Task) -> str | None:
    """Return why instances of a task cannot come or go while it runs, None if they can."""
    nodes = [graph.node(operator) for operator in task.operators]
    for node in nodes:
        if in_caller(node):
            return f"{node.name!r} runs in the process that started the job"
        if has_broadcast_input(node):
            return f"{node.name!r} meets a broadcast side, so its state does not lie by key"
        if descriptor_of(node.spec).keyed and not lies_by_key(graph, node):
            return f"{node.name!r} has state that does not lie by key"
    if not _is_keyed(graph, task):
        return None
    # Elsewhere a single instance is chained to what feeds it, whatever the keys are.
    return obstacle(graph, task.id) if graph.apart else refusal(graph, task.id)


def _is_keyed(graph: ExecutionGraph, task: Task) -> bool:
    return any(lies_by_key(graph, graph.node(operator)) for operator in task.operators)


def _pairs(graph: ExecutionGraph, other: ExecutionGraph) -> list[tuple[Task, Task]]:
    return list(zip(graph.tasks, other.tasks, strict=True))


def _beyond(graph: ExecutionGraph, narrow: ExecutionGraph) -> tuple[str, ...]:
    names = [(graph.instances(item), {*narrow.instances(less)}) for item, less in _pairs(graph, narrow) if item != less]
    return tuple(name for wide, less in names for name in wide if name not in less)


def _ways(edge: Edge) -> tuple[Edge, tuple[int, ...]]:
    """Return what makes an edge the same in plans of one graph, by the expressions themselves."""
    return edge, tuple(map(id, edge.keys))
