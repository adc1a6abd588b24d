"""Instances that come while those before them run: what they are joined to, in two steps (docs/design/moves.md 7).

First the new ones are built, and the gates of receivers listen to them; then producers send to them, too. Between the
two steps every task manager must have taken the first, so that nobody sends to where nothing listens.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.builder import Builder
from penstock.engine.dataflow.exchange import Output
from penstock.engine.dataflow.input_gate import GateInput
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.instance_services import InstanceServices
from penstock.engine.transport.halves import SendingHalf
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners


@dataclass(frozen=True, slots=True)
class Standing:
    """What new instances come to: of each task below which number they have ``begun``, the owners, the last move."""

    begun: Mapping[TaskId, int]
    owners: Mapping[TaskId, Owners]
    last_move: int


@dataclass(frozen=True, slots=True)
class Growth:
    """The new instances of ``part`` that are here, and the new channels of producers that were here before."""

    part: Build
    _joining: tuple[tuple[Instance, Output, Mapping[int, SendingHalf]], ...]

    def join(self) -> list[Instance]:
        """Let producers send to the new instances, too; return these producers. From the thread of the loop."""
        for _, output, senders in self._joining:
            output.join(tuple(senders.values()), tuple(senders))
        return [instance for instance, _, _ in self._joining]


def grow(
    here: Build,
    graph: ExecutionGraph,
    options: LoopOptions,
    services: InstanceServices,
    start: AttemptStart,
    tasks: Collection[TaskId],
    standing: Standing,
) -> Growth:
    """Build the instances that some tasks, whole regions, have in a plan beside those that are ``here`` and elsewhere.

    They do not run yet, and hold no key group. Receivers that run here listen to new producers from now on, and what
    is new is part of ``here``. When opening fails nothing has changed, and what was opened is let go of.
    """
    chosen = [task for task in graph.tasks if task.id in tasks]
    builder = Builder(graph, options, services, start, standing.owners)
    with builder.letting_go():
        part = builder.grow(chosen, standing.begun, here.alignments)
    running = {(task, instance.index): instance for task, members in here.tasks.items() for instance in members}
    joining = []
    for edge in part.senders:
        producer, consumer = graph.task_of(edge.producer), graph.task_of(edge.consumer)
        _listen(part, edge, consumer, running, standing)
        for number, output in sorted(here.outputs.get(edge, {}).items()):
            new = {pair[1]: sender for pair, sender in sorted(part.senders[edge].items()) if pair[0] == number}
            if new:
                joining.append((running[producer.id, number], output, new))
    here.add(part)
    return Growth(part, tuple(joining))


def _listen(
    part: Build, edge: Edge, consumer: Task, running: Mapping[tuple[TaskId, int], Instance], standing: Standing
) -> None:
    for (_, number), receiver in sorted(part.receivers[edge].items()):
        instance = running.get((consumer.id, number))
        if instance is not None and instance.gate is not None and not instance.done:
            instance.gate.join(GateInput(receiver, edge.port), standing.last_move)
