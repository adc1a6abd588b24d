"""Partitions that change their instances while a source is read, as the head has it done (docs/design/moves.md 9).

What was read of a partition leaves before a barrier, and who takes it reads on once that has passed everybody: so its
rows stay in order, in every epoch too, and no checkpoint lacks it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from penstock.engine.checkpoint.states import CheckpointState
from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.dataflow.partition_handover import GivenPartition, HeldSource
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.jobs.attempt import AttemptContext, Struck
from penstock.engine.moves.dealt_partitions import PartitionMove
from penstock.model.errors import PlanChangedError, WorkerLostError
from penstock.model.failpoints import failpoint
from penstock.model.ids import TaskId

MOST_NS = 60_000_000_000
"""How long a handover may take before its region begins anew."""

STORED = frozenset({CheckpointState.UPLOADING, CheckpointState.PUBLISHING, CheckpointState.COMMITTING})

Choose = Callable[[Mapping[str, Sequence[str]], Sequence[str]], Sequence[PartitionMove]]
"""Returns what moves, given the partitions of all instances that read, by name, and those of them that stay."""


class _Step(Enum):
    HELD = "instances say what they have"
    STOPPED = "what goes is read up to the watermark of who takes it"
    PASSED = "the barrier behind it has passed everybody"
    GIVEN = "partitions are let go of"
    TAKEN = "they are read on"


@dataclass(slots=True)
class _Handover:
    """A handover: of the ``instances`` of a source those that ``stay`` have the partitions afterwards."""

    number: int
    task: TaskId
    instances: Sequence[str]
    stay: Sequence[str]
    choose: Choose
    done: Callable[[int], None]
    began_ns: int
    step: _Step = _Step.HELD
    awaited: set[str] = field(default_factory=set)
    managers: tuple[str, ...] = ()
    sources: dict[str, HeldSource] = field(default_factory=dict)
    moves: Sequence[PartitionMove] = ()
    given: dict[str, GivenPartition] = field(default_factory=dict)
    epoch: int = 0


class ManagedPartitions:
    """The handovers of one attempt, one at a time. It belongs to the thread that runs it."""

    def __init__(self, head: Head, deployments: Deployments, context: AttemptContext) -> None:
        """Begin without one."""
        self._head, self._deployments = head, deployments
        self._clock, self._checkpoints = context.clock, context.checkpoints
        self._number = 0
        self._handover: _Handover | None = None
        self._holds = False
        self._reason: str | None = None

    @property
    def due_ns(self) -> int | None:
        """When the one under way takes too long; None: there is none."""
        return None if self._handover is None else self._handover.began_ns + MOST_NS

    def is_quiet(self) -> bool:
        """Return whether none is under way."""
        return self._handover is None

    def begin(
        self, task: TaskId, instances: Sequence[str], stay: Sequence[str], choose: Choose, done: Callable[[int], None]
    ) -> None:
        """Let the instances of a source, all that run, change partitions; ``done`` hears how many did.

        Afterwards those that ``stay`` have them all. If the tasks are taken down before, it is not called.
        """
        self._number += 1
        places = self._deployments.places()
        here = [name for name in instances if name in places]
        handover = _Handover(self._number, task, here, stay, choose, done, self._clock.monotonic_ns())
        handover.managers = tuple(sorted({places[name] for name in here}))
        self._handover = handover
        for manager in handover.managers:
            mine = tuple(name for name in here if places[name] == manager)
            self._send(handover, manager, ms.HoldPartitions(handover.number, mine))

    def gone(self, tasks: frozenset[TaskId] | None) -> None:
        """Tasks (None: all) are taken down."""
        if self._handover is not None and (tasks is None or self._handover.task in tasks):
            self._handover = None
            self._hold_barriers(held=False)

    def hear(self, manager: str, message: ms.OfPartitions) -> None:
        """Take in what a task manager says; of a handover that is void nothing counts."""
        handover = self._handover
        if handover is None or message.handover != handover.number:
            return
        handover.awaited.discard(manager)
        match message:
            case ms.PartitionsHeld():
                handover.sources |= {source.instance: source for source in message.sources}
            case ms.PartitionsGiven():
                handover.given |= message.given
            case ms.PartitionsStopped() | ms.PartitionsTaken():
                pass

    def turn(self) -> Struck | None:
        """Take the next step if it is time; return what one that takes too long strikes."""
        handover = self._handover
        if handover is None:
            return None
        if not handover.awaited and self._reason is None:
            self._go_on(handover)
        if self._reason is not None:
            reason, self._reason = self._reason, None
            return Struck(PlanChangedError(f"it begins anew, as {reason}"), frozenset({handover.task}))
        if self._handover is handover and self._clock.monotonic_ns() >= handover.began_ns + MOST_NS:
            handover.began_ns = self._clock.monotonic_ns()
            text = f"partitions have not changed their instances within {MOST_NS // 1_000_000_000} s"
            return Struck(WorkerLostError(f"{text}: {handover.step.value}"), frozenset({handover.task}))
        return None

    def _go_on(self, handover: _Handover) -> None:
        match handover.step:
            case _Step.HELD:
                self._stop(handover)
            case _Step.STOPPED:
                self._ask_for_barrier(handover)
            case _Step.PASSED if self._has_passed(handover):
                handover.step = _Step.GIVEN
                for manager in handover.managers:
                    self._send(handover, manager, ms.GivePartitions(handover.number))
            case _Step.GIVEN:
                self._deal_out(handover)
            case _Step.TAKEN:
                self._handover = None
                self._hold_barriers(held=False)
                handover.done(len(handover.moves))
            case _:
                pass

    def _stop(self, handover: _Handover) -> None:
        live = {name: source for name, source in handover.sources.items() if not source.has_ended}
        held = {name: source.live for name, source in live.items()}
        stay, go = ([name for name in live if (name in handover.stay) is stays] for stays in (True, False))
        if not stay and any(held[name] for name in go):
            self._reason = "all instances that were to stay have ended, and others have partitions"
            return
        # A later run may go on with what has ended, and watermarks be held for that: it does not go with its instance.
        ended = [PartitionMove(item, name, stay[0]) for name in go if stay for item in live[name].ended]
        moves = handover.moves = (*handover.choose(held, stay), *ended)
        if not moves:
            self._deal_out(handover)
            return
        leaving: dict[str, list[str]] = defaultdict(list)
        for move in moves:
            leaving[move.giver].append(move.partition)
        takers = tuple(sorted({move.taker for move in moves}))
        above_us = max(live[name].watermark_us for name in takers)
        said_us = [live[name].watermark_us for name in leaving if not live[name].is_idle]
        least_us = min(said_us, default=START_OF_TIME_US)
        handover.step = _Step.STOPPED
        goes = {name: tuple(partitions) for name, partitions in leaving.items()}
        for manager in handover.managers:
            self._send(handover, manager, ms.StopPartitions(handover.number, goes, above_us, takers, least_us))

    def _ask_for_barrier(self, handover: _Handover) -> None:
        assert self._checkpoints is not None
        failpoint("partitions.stopped")
        handover.epoch, handover.step = self._checkpoints.begun + 1, _Step.PASSED
        self._checkpoints.request()

    def _has_passed(self, handover: _Handover) -> bool:
        """Return whether the barrier has passed all, and hold others then; ask for another if it was given up."""
        checkpoints = self._checkpoints
        assert checkpoints is not None
        state = checkpoints.coordinator.state
        if self._holds:
            return state is not CheckpointState.ALIGNING
        if checkpoints.begun > handover.epoch:
            handover.epoch = checkpoints.begun
        passed = checkpoints.begun == handover.epoch and state in STORED
        if passed or checkpoints.committed_epoch >= handover.epoch:
            self._hold_barriers(held=True)
            return state is not CheckpointState.ALIGNING
        if checkpoints.begun == handover.epoch and state is CheckpointState.READY:
            self._ask_for_barrier(handover)
        return False

    def _deal_out(self, handover: _Handover) -> None:
        given: dict[str, dict[str, GivenPartition]] = defaultdict(dict)
        for move in handover.moves:
            given[move.taker][move.partition] = handover.given[move.partition]
        known = [name for source in handover.sources.values() for name in (*source.live, *source.ended)]
        places = {name: place for place, name in enumerate(handover.stay)}
        handover.step = _Step.TAKEN
        for manager in handover.managers:
            order = ms.TakePartitions(handover.number, dict(given), places, tuple(dict.fromkeys(known)))
            self._send(handover, manager, order)

    def _send(self, handover: _Handover, manager: str, order: ms.ToManager) -> None:
        handover.awaited.add(manager)
        self._head.send(manager, order)

    def _hold_barriers(self, *, held: bool) -> None:
        if held is not self._holds:
            assert self._checkpoints is not None
            self._checkpoints.hold_barriers(held=held)
            self._holds = held
