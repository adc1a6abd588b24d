"""The change of places that is under way in a job: what it is, what it waits for and how far it is. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from penstock.engine.moves.live_changes import LiveChange
from penstock.engine.plan.planner import lies_by_key
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners

BUILT_ANEW = "all instances have begun anew"
COMMITTED = "a checkpoint is committed"


@dataclass(frozen=True, slots=True)
class ChangeUnderWay:
    """A move, or a change of parallelism or of task managers, that is not done.

    ``waits_for`` is what it goes on after, in words. Key groups of ``task`` move (null: of none, now), of which so many
    of ``key_groups`` have their new owner.
    """

    what: str
    waits_for: str
    task: str | None = None
    moved_key_groups: int = 0
    key_groups: int = 0

    def sentence(self) -> str:
        """Return it for people."""
        if self.task is not None:
            return f"{self.what}: {self.moved_key_groups} of {self.key_groups} key groups of {self.task} have moved"
        return f"{self.what}: waits until {self.waits_for}"


def change_phrase(change: LiveChange, vacates: Collection[str]) -> str:
    """Return what a change of instances is, which lets these task managers go."""
    if vacates:
        return f"{', '.join(vacates)} drained"
    pairs = zip(change.before.tasks, change.after.tasks, strict=True)
    return ", ".join(
        f"{change.after.name(task)} from {was.parallelism} to {task.parallelism} instances"
        for was, task in pairs
        if task != was
    )


def rescale_phrase(parallelism: Mapping[str, int]) -> str:
    """Return what a change is that was asked for, by the names of operators."""
    wanted = [f"{name} to {count} instance{'' if count == 1 else 's'}" for name, count in parallelism.items()]
    return ", ".join(wanted) or "instances placed anew"


def key_group_counts(graph: ExecutionGraph, owners: Mapping[TaskId, Owners]) -> Callable[[str, int], int | None]:
    """Return what says how many key groups an instance has, by its task's name and its number.

    None: it has no state that lies by key, or is not up.
    """
    tables = {
        graph.name(task): owners[task.id]
        for task in graph.tasks
        if task.id in owners and any(lies_by_key(graph, graph.node(operator)) for operator in task.operators)
    }

    def count(task: str, instance: int) -> int | None:
        table = tables.get(task)
        return None if table is None else int((table == instance).sum())

    return count
