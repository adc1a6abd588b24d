"""The places of instances: which task manager runs each, and which channels cross from one to another. Pure."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from penstock.engine.dataflow.instance_services import Halves, MakeChannel, local_channel
from penstock.engine.moves.movable import is_source, refusal
from penstock.engine.plan.planner import in_caller
from penstock.engine.transport.linked import LinkedChannels
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import TaskId

CALLER = "caller"
"""The name of the task manager in the process that started the job."""

Places = Mapping[str, str]
"""The name of a task manager for every instance, by the instance's name."""


def deal_out(
    graph: ExecutionGraph, tasks: Collection[TaskId], managers: Sequence[str], chosen: Places | None = None
) -> Places:
    """Return places for the instances of some tasks: those that were ``chosen`` for them.

    Others go around, instance i to task manager i modulo their number; there is one at least.
    """
    chosen = chosen or {}
    return {
        name: chosen.get(name) or managers[index % len(managers)]
        for task in graph.tasks
        if task.id in tasks
        for index, name in enumerate(graph.instances(task))
    }


def at_caller(graph: ExecutionGraph, tasks: Collection[TaskId]) -> Places:
    """Return the places of the instances that hold objects of the process that started the job: they stay in it."""
    return {
        name: CALLER
        for task in graph.tasks
        if task.id in tasks and is_in_caller(graph, task)
        for name in graph.instances(task)
    }


def is_in_caller(graph: ExecutionGraph, task: Task) -> bool:
    """Return whether a task reads or writes objects of the process that started the job."""
    return any(in_caller(graph.node(operator)) for operator in task.operators)


class Crossings:
    """The channels of some tasks as one task manager sees them: inside it, or to and from others."""

    def __init__(
        self,
        graph: ExecutionGraph,
        tasks: Collection[TaskId],
        places: Places,
        here: str,
        begun: Mapping[TaskId, int] | None = None,
    ) -> None:
        """``tasks`` are whole regions, of which ``places`` has all instances.

        Where instances of numbers below these have ``begun`` before, the channels are those of the ones that follow.
        """
        self._here = here
        self._begun = begun or {}
        self._numbers: dict[Edge, int] = {}
        self._place: dict[TaskId, dict[int, str]] = {
            task.id: {number: places[name] for number, name in zip(task.numbers, graph.instances(task), strict=True)}
            for task in graph.tasks
            if task.id in tasks
        }
        self._ends: dict[Edge, tuple[dict[int, str], dict[int, str]]] = {}
        self._receiving: dict[Edge, int] = {}
        self.peers: set[str] = set()
        """The other task managers to which a channel leads, or from which one comes."""
        number = 0
        task_of = {operator: task for task in graph.tasks for operator in task.operators}
        for edge in graph.edges:
            producer, consumer = task_of[edge.producer], task_of[edge.consumer]
            if edge.chained or producer.id not in self._place:
                continue
            self._numbers[edge], self._receiving[edge] = number, consumer.first_free
            number += producer.first_free * consumer.first_free
            ends = self._ends[edge] = self._place[producer.id], self._place[consumer.id]
            begun_here = self._begun.get(producer.id, 0), self._begun.get(consumer.id, 0)
            self.peers |= self._others(edge, *ends, begun_here)

        for task in graph.tasks:
            # What moves goes straight from one instance to another.
            mine = self._place.get(task.id, {})
            if here in mine.values() and not is_source(graph, task) and refusal(graph, task.id) is None:
                new = _from(mine, self._begun.get(task.id, 0))
                self.peers |= set(mine.values() if here in new else new) - {here}

    def hosts(self, task: TaskId, index: int) -> bool:
        """Return whether an instance is here."""
        return self._place[task][index] == self._here

    def channel(self, channels: Mapping[str, LinkedChannels]) -> MakeChannel:
        """Return what makes channels, over ``channels`` where they lead to the `peers`."""
        return partial(self._make, channels)

    def _make(
        self,
        channels: Mapping[str, LinkedChannels],
        edge: Edge,
        producer: int,
        receiver: int,
        name: str,
        capacity_bytes: int,
    ) -> Halves:
        producers, receivers = self._ends[edge]
        sends, receives = producers[producer] == self._here, receivers[receiver] == self._here
        if sends and receives:
            return local_channel(edge, producer, receiver, name, capacity_bytes)
        # Both sides number the channels of a plan alike.
        number = self._numbers[edge] + producer * self._receiving[edge] + receiver
        if sends:
            return channels[receivers[receiver]].sender(number, name, capacity_bytes), None
        return None, channels[producers[producer]].receiver(number, name, capacity_bytes)

    def _others(
        self, edge: Edge, producers: Mapping[int, str], receivers: Mapping[int, str], begun: tuple[int, int]
    ) -> set[str]:
        new = _from(producers, begun[0]), _from(receivers, begun[1])
        if edge.exchange == "forward":
            pairs = set(zip(*new, strict=True))
        else:
            pairs = {(sends, receives) for sends in set(producers.values()) for receives in set(new[1])}
            pairs |= {(sends, receives) for sends in set(new[0]) for receives in set(receivers.values())}
        return {
            other
            for sends, receives in pairs
            for mine, other in ((sends, receives), (receives, sends))
            if mine == self._here and other != self._here
        }


def _from(places: Mapping[int, str], first: int) -> list[str]:
    """Return the places of the instances from a number on."""
    return [place for number, place in places.items() if number >= first]


def names_at(places: Places, manager: str) -> frozenset[str]:
    """Return the instances at a task manager."""
    return frozenset(name for name, place in places.items() if place == manager)


def tasks_of(graph: ExecutionGraph, instance: str) -> frozenset[TaskId]:
    """Return the task of an instance, none if no task has such a one."""
    return frozenset(task.id for task in graph.tasks if instance in graph.instances(task))


def tasks_at(graph: ExecutionGraph, places: Places, manager: str) -> frozenset[TaskId]:
    """Return the tasks that have instances at a task manager."""
    names = names_at(places, manager)
    return frozenset(task.id for task in graph.tasks if not names.isdisjoint(graph.instances(task)))


def place_phrase(manager: str) -> str:
    """Return how users are told of a task manager."""
    return "the process that started the job" if manager == CALLER else f"task manager {manager!r}"
