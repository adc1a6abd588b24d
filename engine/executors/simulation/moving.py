"""Moves of key groups in a simulated job: begun at random, with state that is under way for a while."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.dataflow.handovers import Handover, Installed, MoveReport
from penstock.engine.dataflow.instance import Instance
from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.history import History
from penstock.engine.moves import move_events as ev
from penstock.engine.moves.movable import fault, is_source, marker_senders, refusal, takers, together
from penstock.engine.moves.move_coordinator import MoveCoordinator
from penstock.engine.moves.move_orders import MoveOrder, MoveOrders, MoveSummary
from penstock.model.errors import RetryableError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners, moved

MOST_ASKED = 12
"""So many moves are asked for in one seed: without an end to them, checkpoints would have none either."""


@dataclass
class MoveCounts:
    """Counts of one seed's moves, over all attempts; ``state_bytes`` and ``partitions`` of those that were done."""

    begun: int = 0
    done: int = 0
    failed: int = 0
    state_bytes: int = 0
    partitions: int = 0


@dataclass
class RandomMoves:
    """Moves that begin with a chance at each turn, of groups and to takers that the dice choose."""

    dice: Dice
    chance: float
    counts: MoveCounts = field(default_factory=MoveCounts)


class AskedMoves:
    """Moves that are asked for at random of a job on task managers, as a user would."""

    def __init__(self, plan: RandomMoves, orders: MoveOrders) -> None:
        """Begin without one."""
        self._plan, self._orders = plan, orders
        self._asked: Future[MoveSummary] | None = None

    def look(self, graph: ExecutionGraph, places: Mapping[str, str]) -> None:
        """Ask for a move between two of these places, if none is on its way and the dice say so."""
        plan = self._plan
        movable = frozenset(task.id for task in graph.tasks if refusal(graph, task.id) is None)
        reading = [task for task in graph.tasks if is_source(graph, task)]
        wanted = [
            MoveOrder(name, manager)
            for names in map(graph.instances, [*takers(graph, movable), *reading])
            for name in names
            for manager in sorted({places[other] for other in names if other in places})
            if places.get(name, manager) != manager
        ]
        if self._asked is None and wanted and plan.counts.begun < MOST_ASKED and plan.dice.chance(plan.chance):
            plan.counts.begun += 1
            self._asked = self._orders.ask(plan.dice.choose(wanted)).answer
            self._asked.add_done_callback(self._over)

    def _over(self, asked: "Future[MoveSummary]") -> None:
        self._asked = None
        if asked.exception() is None:
            self._plan.counts.done += 1
            self._plan.counts.state_bytes += asked.result().state_bytes
            self._plan.counts.partitions += asked.result().partitions
        elif isinstance(asked.exception(), RetryableError):
            self._plan.counts.failed += 1


class SimulatedMoves:
    """The moves of one attempt; ``owners`` are those of the key groups of each task, and change with them."""

    def __init__(
        self,
        plan: RandomMoves,
        graph: ExecutionGraph,
        history: History,
        checkpoints: CheckpointSession,
        now_ns: Callable[[], int],
    ) -> None:
        """Begin without one."""
        self._plan = plan
        self._graph = graph
        self._history = history
        self._checkpoints = checkpoints
        self._now_ns = now_ns
        self._coordinator = MoveCoordinator()
        self._leads = sorted({min(together(graph, task.id)) for task in graph.tasks if refusal(graph, task.id) is None})
        self._up: dict[str, tuple[TaskId, Instance]] = {}
        self.owners: dict[TaskId, Owners] = {}
        # Under way: when each arrives.
        self._under_way: list[tuple[int, Handover]] = []

    def began(self, tasks: Mapping[TaskId, Sequence[Instance]], owners: Mapping[TaskId, Owners]) -> None:
        """Instances run, with these owners of key groups."""
        self._up |= {item.name: (task, item) for task, members in tasks.items() for item in members}
        self.owners |= owners

    def gone(self, instances: Collection[Instance], reason: str) -> None:
        """Instances are taken down, and what was under way to them with them."""
        names = {item.name for item in instances}
        self._do(self._coordinator.on(ev.TasksFailed(frozenset(self._up[name][0] for name in names), reason)))
        self._up = {name: item for name, item in self._up.items() if name not in names}
        self._under_way = [item for item in self._under_way if item[1].to not in names]

    def look(self) -> None:
        """Begin a move, if none is under way and the dice say so."""
        plan = self._plan
        if self._coordinator.moving is not None or not self._leads or not plan.dice.chance(plan.chance):
            return
        lead = plan.dice.choose(self._leads)
        tasks = together(self._graph, lead)
        moving = takers(self._graph, tasks)
        instances = [item for task, item in self._up.values() if task in {member.id for member in moving}]
        parallelism, numbers = moving[0].parallelism, moving[0].numbers
        groups = self._drawn(self.owners[lead], parallelism)
        if not instances or fault(self.owners[lead], numbers, groups) is not None:
            return
        plan.counts.begun += 1
        names = tuple((task.id, self._graph.name(task)) for task in moving)
        ended = frozenset(item.name for item in instances if item.done)
        self._do(self._coordinator.on(ev.MoveWanted(lead, groups, names, ended)))

    def tell(self, report: MoveReport) -> None:
        """Take in what an instance says of a move."""
        name = (report.move, report.task, report.giver, report.taker)
        if isinstance(report, Installed):
            self._history.detail(f"move {report.move}: {report.task}[{report.taker}] goes on")
            self._do(self._coordinator.on(ev.StateInstalled(*name)))
            return
        self._history.detail(f"move {report.move}: {report.task}[{report.giver}] gives {report.bytes} bytes")
        self._plan.counts.state_bytes += report.bytes
        self._do(self._coordinator.on(ev.StateGiven(*name)))
        fate = self._plan.dice.uniform()
        most_ns = 100_000 if fate < 0.5 else 3_000_000 if fate < 0.9 else 30_000_000
        self._under_way.append((self._now_ns() + self._plan.dice.below(most_ns), report))

    def ended(self, instance: str) -> None:
        """An instance has ended."""
        self._do(self._coordinator.on(ev.InstanceLeft(instance)))

    def due(self, now_ns: int) -> list[Handover]:
        """Return what has arrived and is not taken in."""
        return [handover for due_ns, handover in self._under_way if due_ns <= now_ns]

    def next_ns(self) -> int | None:
        """Return when the next state arrives."""
        return min((due_ns for due_ns, _ in self._under_way), default=None)

    def deliver(self, handover: Handover) -> None:
        """Let an instance take in what has arrived for it."""
        self._under_way = [item for item in self._under_way if item[1] is not handover]
        self._up[handover.to][1].take_over(handover)

    def _drawn(self, owners: Owners, parallelism: int) -> tuple[tuple[int, int, int], ...]:
        dice = self._plan.dice
        one_giver = dice.chance(0.7)
        giver = dice.below(parallelism)
        chosen: list[tuple[int, int, int]] = []
        most = dice.choose([1, 2, len(owners)])
        for group in np.flatnonzero(owners == giver) if one_giver else range(len(owners)):
            taker = dice.below(parallelism)
            if len(chosen) < most and dice.chance(0.4) and taker != owners[group]:
                chosen.append((int(group), int(owners[group]), taker))
        return tuple(chosen)

    def _do(self, commands: Sequence[ev.MoveCommand]) -> None:
        for command in commands:
            match command:
                case ev.HoldBarriers():
                    self._checkpoints.hold_barriers(held=True)
                case ev.LetBarriersGo():
                    self._checkpoints.hold_barriers(held=False)
                case ev.SendMarkers():
                    self._send(command)
                case ev.MoveDone():
                    self._plan.counts.done += 1
                    self._history.event(f"move {command.reroute.move} is done")
                case ev.MoveFailed():
                    self._plan.counts.failed += 1
                    self._history.event(f"move {command.reroute.move} is void: {command.reason}")

    def _send(self, command: ev.SendMarkers) -> None:
        reroute = command.reroute
        tasks = {item.id for item in marker_senders(self._graph, command.tasks)}
        senders = [item for task, item in self._up.values() if task in tasks and not item.done]
        told = ", ".join(f"{group}: {giver} -> {taker}" for group, giver, taker in reroute.groups)
        self._history.event(f"move {reroute.move} of task {reroute.task} begins: {told}")
        for instance in senders:
            instance.send_reroute(reroute)
        if senders:
            for task in command.tasks:
                self.owners[task] = moved(self.owners[task], reroute.groups)
        self._do(self._coordinator.on(ev.MarkersSent(reroute.move, len(senders))))
