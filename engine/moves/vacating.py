"""A task manager that is to go while the job runs: for each of its instances another one comes elsewhere. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from penstock.engine.moves.live_changes import LiveChange, fault, with_tasks, without_gaps
from penstock.engine.plan.resources import task_resources
from penstock.engine.restore.key_group_owners import coupled_tasks
from penstock.model.execution_graph import ExecutionGraph, Task, instance_name
from penstock.model.ids import TaskId

Targets = Mapping[str, str]
"""The task manager that each new instance goes to, by the instance's name."""


def vacated(
    graph: ExecutionGraph,
    places: Mapping[str, str],
    leaving: Collection[str],
    managers: Sequence[str],
    used: Mapping[TaskId, int],
) -> tuple[LiveChange, Targets] | str:
    """Return the change after which nothing runs at the ``leaving`` task managers, or why all must begin anew for that.

    ``places`` are those of all instances, ``managers`` those that stay. As many instances as before run then: each that
    goes is followed by one at the task manager that has the fewest of its task, and those that forward edges join it
    with go and come with it, and stay where they are if they can. Numbers below those of ``used`` were taken before.
    """
    if not managers:
        return "no other task manager is there"
    wide, after = {task.id: task for task in graph.tasks}, {task.id: task for task in graph.tasks}
    replaced: dict[TaskId, Mapping[int, int]] = {}
    targets: dict[str, str] = {}
    for together in coupled_tasks(graph):
        members = [task for task in graph.tasks if task.id in together]
        going = sorted({number for task in members for number in _numbers_at(graph, task, places, leaving)})
        if not going:
            continue
        first = max(max(task.first_free, used.get(task.id, 0)) for task in members)
        follower = {number: first + place for place, number in enumerate(going)}
        for task in members:
            reason = fault(graph, task)
            if reason is None and task_resources(graph, task):
                reason = f"{graph.name(task)!r} needs what not every task manager has"
            if reason is not None:
                return reason
            replaced[task.id] = follower
            wide[task.id] = task.numbered((*task.numbers, *follower.values()))
            after[task.id] = task.numbered(sorted({*wide[task.id].numbers} - follower.keys()))
        for number in going:
            targets |= _places(graph, members, number, follower[number], {**places, **targets}, leaving, managers)
    at_most = with_tasks(graph, list(wide.values()), graph)
    then = with_tasks(graph, list(after.values()), at_most)
    return LiveChange(graph, at_most, then, without_gaps(then), replaced), targets


def _numbers_at(
    graph: ExecutionGraph, task: Task, places: Mapping[str, str], managers: Collection[str]
) -> Sequence[int]:
    names = zip(task.numbers, graph.instances(task), strict=True)
    return [number for number, name in names if places.get(name) in managers]


def _places(
    graph: ExecutionGraph,
    members: Sequence[Task],
    number: int,
    follower: int,
    places: Mapping[str, str],
    leaving: Collection[str],
    managers: Sequence[str],
) -> Targets:
    """Return where the followers of one instance of each of these tasks come: together, or where it stays."""
    names = {graph.name(task) for task in members}
    here = Counter(dict.fromkeys(managers, 0))
    here.update(place for name, place in places.items() if name.rpartition("[")[0] in names and place in here)
    best = min(managers, key=lambda manager: here[manager])
    stay = {name: places[instance_name(name, number)] for name in names}
    return {
        instance_name(name, follower): best if place in leaving or place not in here else place
        for name, place in stay.items()
    }
