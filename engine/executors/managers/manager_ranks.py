"""The ranks of task managers, where some have what instances need; see `engine.plan.resources`."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from penstock.engine.executors.managers.places import Places
from penstock.engine.plan.resources import instance_ranks
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId


@dataclass(frozen=True, slots=True)
class ManagerRanks:
    """So many ranks; ``rank_of`` returns the one that a task manager has, None: none that any instance needs."""

    count: int
    rank_of: Callable[[str], int | None]

    def places(self, graph: ExecutionGraph, tasks: Collection[TaskId], live: Sequence[str]) -> Places:
        """Return the task managers of the instances of some tasks that need something; all their ranks are taken."""
        holders = self._holders(live)
        return {name: holders[rank] for name, rank in instance_ranks(graph, tasks, self.count).items()}

    def lack(self, graph: ExecutionGraph, live: Sequence[str]) -> bool:
        """Return whether a rank that some instance needs has no task manager."""
        tasks = frozenset(task.id for task in graph.tasks)
        return not self._holders(live).keys() >= set(instance_ranks(graph, tasks, self.count).values())

    def _holders(self, live: Sequence[str]) -> dict[int, str]:
        ranks = {name: self.rank_of(name) for name in live}
        return {rank: name for name, rank in ranks.items() if rank is not None}
