"""What the instances of a running job have, and how much of it a move would give. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.engine.moves.movable import takers, together
from penstock.model.execution_graph import ExecutionGraph, instance_name
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners

StateBytes = Callable[[str | None, Collection[str]], int]
"""Returns how much state some operators, by name, have at a task manager."""


@dataclass(frozen=True, slots=True)
class HeldState:
    """A job on task managers as it is: the plan that runs, the owners of key groups, the places of instances.

    Numbers of instances below those of ``used`` were taken before, by task. Some of the instances have ``ended``.
    ``managers`` are the task managers that instances can be given to. ``ns_per_byte`` is what the last move took; None:
    there was none that could tell.
    """

    graph: ExecutionGraph
    owners: Mapping[TaskId, Owners]
    places: Mapping[str, str]
    state_bytes: StateBytes
    ns_per_byte: float | None = None
    used: Mapping[TaskId, int] = field(default_factory=dict)
    ended: bool = False
    managers: tuple[str, ...] = ()

    def planned_ms(self, planned_bytes: float) -> float | None:
        """Return about how long it takes to move so many bytes, None: nothing tells."""
        if self.ns_per_byte is None or not planned_bytes:
            return None
        return planned_bytes * self.ns_per_byte / 1e6


def planned_bytes(
    held: HeldState, lead: TaskId, groups: Iterable[tuple[int, int, int]]
) -> Mapping[tuple[int, int], float]:
    """Return about how much state each giver gives to each taker, by their numbers, of all tasks that move with one.

    Each of the key ``groups`` has its number, its giver and its taker.
    """
    places, owners = held.places, held.owners[lead]
    pairs = Counter((giver, taker) for _, giver, taker in groups)
    planned = dict.fromkeys(pairs, 0.0)
    for task in takers(held.graph, together(held.graph, lead)):
        operators = {held.graph.node(operator).name for operator in task.operators}
        for (giver, taker), count in pairs.items():
            manager = places.get(instance_name(held.graph.name(task), giver))
            here = sum(places.get(name) == manager for name in held.graph.instances(task))
            share = count / int((owners == giver).sum())
            planned[giver, taker] += held.state_bytes(manager, operators) * share / max(here, 1)
    return planned
