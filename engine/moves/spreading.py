"""Instances at every task manager: what a job on some of them gets where others have come. Pure."""

from collections.abc import Mapping, Sequence

from penstock.engine.moves.live_changes import LiveChange, live_change
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.recut import recut
from penstock.engine.restore.key_group_owners import coupled_tasks
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph, Task
from penstock.model.ids import TaskId


def spread(
    graph: ExecutionGraph,
    places: Mapping[str, str],
    managers: Sequence[str],
    key_groups: int,
    used: Mapping[TaskId, int] | None = None,
) -> tuple[LiveChange, dict[str, str]] | None:
    """Return the change by which what has state gets an instance at each task manager that has none, and where.

    ``places`` are those of all instances, numbers below those of ``used`` were taken before. Tasks that cannot get more
    instances while they run stay as they are. None: all do, or none lacks any.
    """
    found: tuple[LiveChange, dict[str, str]] | None = None
    after = graph
    for together in coupled_tasks(graph):
        members = [task for task in graph.tasks if task.id in together]
        taken = {places[name] for task in members for name in graph.instances(task) if name in places}
        count = members[0].parallelism + sum(manager not in taken for manager in managers)
        nodes = [graph.node(operator) for task in members for operator in task.operators]
        try:
            wider = recut(after, {node.name: count for node in nodes if descriptor_of(node.spec).keyed}, key_groups)
        except OptionError:
            continue
        change = live_change(graph, wider, used)
        if isinstance(change, LiveChange):
            after = wider
            found = change, _places(change, managers, places)
    return found


def shares(graph: ExecutionGraph, task: Task, places: Mapping[str, str]) -> list[float]:
    """Return the share of the key groups that each instance of a task is to have: as much for every task manager."""
    at = [places[name] for name in graph.instances(task)]
    return [1.0 / at.count(manager) for manager in at]


def _places(change: LiveChange, managers: Sequence[str], places: Mapping[str, str]) -> dict[str, str]:
    targets: dict[str, str] = {}
    new = set(change.new())
    for task in change.wide.tasks:
        names = change.wide.instances(task)
        taken = {places[name] for name in names if name in places}
        lacking = (manager for manager in managers if manager not in taken)
        targets |= dict(zip([name for name in names if name in new], lacking, strict=False))
    return targets
