"""The key groups that an order moves, and how many of them at a time. Pure."""

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.engine.moves.movable import fault, is_source, refusal, together
from penstock.engine.moves.move_orders import GroupsOrder, MoveOrder
from penstock.engine.plan.planner import in_caller
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph, Task
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners

ROUND_BYTES = 16 << 20
"""About so much state changes its place in one round: what is in it pauses as long as that takes."""

MOST_GROUPS = 1_024
"""More key groups than that are not moved in one round: their numbers must fit in one frame."""

FIRST_GROUPS = 4
"""No more key groups move in the first round, as some may be much larger than others."""

Groups = tuple[tuple[int, int, int], ...]
"""Of each key group its number, the instance that gives it and the one that takes it."""


@dataclass(frozen=True, slots=True)
class WantedMove:
    """Key groups that are to change their owners; ``lead`` is the first of the tasks that move together."""

    lead: TaskId
    groups: Groups


def wanted_move(
    graph: ExecutionGraph, owners: Mapping[TaskId, Owners], places: Mapping[str, str], order: MoveOrder
) -> WantedMove:
    """Return what an order moves; each group goes to the taker that has the fewest then.

    Raises:
        OptionError: it cannot be done; the text says why.
    """
    task, number = _instance(graph, order.instance)
    reason = refusal(graph, task.id)
    if reason is not None:
        raise OptionError(f"{order.instance!r} does not move: {reason}.")
    _check_places(places, order)
    names = zip(task.numbers, graph.instances(task), strict=True)
    takers = [index for index, name in names if places.get(name) == order.manager]
    if not takers:
        name = graph.name(task)
        raise OptionError(f"no instance of {name!r} is at {order.manager!r}, which could take over what this one has.")
    table = owners[task.id]
    loads = [(int((table == taker).sum()), taker) for taker in takers]
    heapq.heapify(loads)
    groups = []
    for group in np.flatnonzero(table == number):
        count, taker = loads[0]
        groups.append((int(group), number, taker))
        heapq.heapreplace(loads, (count + 1, taker))
    if not groups:
        raise OptionError(f"{order.instance!r} has no key groups: they have moved before.")
    return WantedMove(min(together(graph, task.id)), tuple(groups))


@dataclass(frozen=True, slots=True)
class WantedHandover:
    """All partitions that an instance of a source has are to go to ``takers``; ``instances`` are all of the source."""

    task: TaskId
    instances: tuple[str, ...]
    giver: str
    takers: tuple[str, ...]


def wanted_handover(
    graph: ExecutionGraph, places: Mapping[str, str], ended: Collection[str], order: MoveOrder
) -> WantedHandover | None:
    """Return which partitions an order moves; None: the instance does not read from outside.

    Raises:
        OptionError: it cannot be done; the text says why.
    """
    task, _ = _instance(graph, order.instance)
    if not is_source(graph, task):
        return None
    if in_caller(graph.node(task.head)):
        raise OptionError(f"{order.instance!r} reads what the process has that started the job.")
    _check_places(places, order)
    instances = tuple(name for name in graph.instances(task) if name in places)
    if order.instance in ended:
        raise OptionError(f"{order.instance!r} reads nothing: what it read has ended, or is with others.")
    takers = tuple(name for name in instances if places[name] == order.manager and name not in ended)
    if not takers:
        name = graph.name(task)
        raise OptionError(f"no instance of {name!r} that reads is at {order.manager!r}, which could take over.")
    return WantedHandover(task.id, instances, order.instance, takers)


def wanted_groups(graph: ExecutionGraph, owners: Mapping[TaskId, Owners], order: GroupsOrder) -> WantedMove:
    """Return what an order of key groups moves: those that are where they are to be stay.

    Raises:
        OptionError: it cannot be done; the text says why.
    """
    task = next((task for task in graph.tasks if graph.name(task) == order.task), None)
    if task is None:
        raise OptionError(f"there is no task {order.task!r}: penstock top shows their names.")
    reason = refusal(graph, task.id)
    if reason is not None:
        raise OptionError(f"key groups of {order.task!r} do not move: {reason}.")
    table = owners[task.id]
    unknown = [group for group, _ in order.groups if not 0 <= group < len(table)]
    if unknown:
        raise OptionError(f"{order.task!r} has key groups 0 to {len(table) - 1}, and no {unknown[0]}.")
    groups = tuple((group, int(table[group]), taker) for group, taker in order.groups if table[group] != taker)
    wrong = fault(table, task.numbers, groups)
    if wrong is not None:
        raise OptionError(f"key groups of {order.task!r} do not move: {wrong}.")
    return WantedMove(min(together(graph, task.id)), groups)


def round_groups(groups: int, state_bytes: int, expected_bytes: int) -> int:
    """Return how many key groups the next round moves, after so many that had so many bytes of state together.

    Of the first round it is known how many bytes are expected of each.
    """
    if not groups:
        return max(1, min(FIRST_GROUPS, ROUND_BYTES // max(expected_bytes, 1)))
    # At most four times as many as are known, so that a few empty ones do not stand for all.
    fitting = ROUND_BYTES * groups // max(state_bytes, 1)
    return max(1, min(fitting, 4 * groups, MOST_GROUPS))


def _check_places(places: Mapping[str, str], order: MoveOrder) -> None:
    if order.manager not in places.values():
        known = ", ".join(sorted(set(places.values())))
        raise OptionError(f"no task manager {order.manager!r} hosts an instance; those that do are {known}.")
    if places.get(order.instance) == order.manager:
        raise OptionError(f"{order.instance!r} is at {order.manager!r} already.")


def _instance(graph: ExecutionGraph, name: str) -> tuple[Task, int]:
    for task in graph.tasks:
        for number, instance in zip(task.numbers, graph.instances(task), strict=True):
            if instance == name:
                return task, number
    raise OptionError(f"there is no instance {name!r}: penstock top shows their names.")
