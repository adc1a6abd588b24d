"""One task instance: an input (a gate or a source), a chain of operators, and one step at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.core.contract import SLICE_NS, Clock, Operator, asleep
from penstock.engine.core.elements import Barrier, Batch, CancelBarrier, Element, EndOfStream, Left, Reroute
from penstock.engine.dataflow.accounting import Accounting, Activity
from penstock.engine.dataflow.chain import BREATH, Awaited, ChainNode, Room, fire_timers, push, send_letters
from penstock.engine.dataflow.checkpoint_port import BarrierGivenUp, TakeReport
from penstock.engine.dataflow.cut import InstanceCut, cut_operator
from penstock.engine.dataflow.handovers import Handover, Handovers, TellMove, nobody_moves
from penstock.engine.dataflow.input_gate import InputGate
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.dataflow.source_head import SourceHead
from penstock.model.execution_graph import instance_name
from penstock.model.failpoints import failpoint

PATIENCE_NS = 20_000_000
"""How long an instance with little to do lets others go first."""


@dataclass(frozen=True, slots=True)
class Participation:
    """The part of an instance in checkpoints: ``report`` takes its contribution, from the thread that steps it.

    ``last_epoch`` is the last epoch before its first barrier. ``moves`` takes what it says of moves, in the same way.
    """

    report: TakeReport
    last_epoch: int
    moves: TellMove = nobody_moves


class Instance:
    """Runs one instance of a task. The worker asks `activity`, then calls `step`."""

    def __init__(
        self,
        task: str,
        index: int,
        clock: Clock,
        *,
        root: ChainNode,
        gate: InputGate | None = None,
        head: SourceHead | None = None,
        alignment: SourceAlignment | None = None,
        participation: Participation | None = None,
    ) -> None:
        """Give either a gate or a head. ``root`` is the first operator of the chain.

        Without ``participation`` barriers pass, and nothing is cut or moves.
        """
        self.task = task
        self.index = index
        self.root = root
        self.gate = gate
        self.head = head
        self.done = False
        self.accounting = Accounting(clock.monotonic_ns())
        self._clock = clock
        self._alignment = alignment
        self._current: Iterator[Room] | None = None
        self._full: Room | None = None
        self._worked_rows = 0
        self.outputs = tuple(root.outputs())
        self.nodes = tuple(root.walk())
        self.on_change: Callable[[], None] = asleep
        """Makes the loop look at the instance again; set by the loop that steps it."""
        self._barriers: list[Barrier] = []
        self._last_barrier = False
        self._paused = self._passed_over = False
        self._participation = participation
        self.delivered = 0 if participation is None else participation.last_epoch
        """The epoch of the last barrier that was passed, by this instance or before it began."""
        self._patient_since_ns: int | None = None
        self._handovers = Handovers(
            task, index, clock, self.nodes, nobody_moves if participation is None else participation.moves
        )
        # Most operators have neither timers nor anything pending, and the loop asks after every step.
        operators = [node.operator for node in self.nodes]
        self._timed = [item for item in operators if type(item).timer_ns is not Operator.timer_ns]
        self._keeping = [item for item in operators if type(item).has_pending is not Operator.has_pending]

    @property
    def name(self) -> str:
        """Task and index, for people."""
        return instance_name(self.task, self.index)

    def inject(self, barrier: Barrier, *, last: bool = False) -> None:
        """Let a source instance send a barrier before it reads on; after the ``last`` one it reads nothing."""
        self._barriers.append(barrier)
        self._last_barrier |= last
        self.on_change()
        failpoint("instance.barrier.injected")

    def end_input(self, *, drain: bool) -> None:
        """Let a source instance read nothing more; ``drain``: as if its input had ended."""
        assert self.head is not None
        self.head.stop(drain)
        self.on_change()

    def send_reroute(self, reroute: Reroute) -> None:
        """Let a producer of tasks that move send rows to the new owners from here on; between two steps."""
        for output in self.outputs:
            output.reroute(reroute)

    def take_over(self, handover: Handover) -> None:
        """Take in what another instance of the task gives; between two steps."""
        self._handovers.arrived(handover)
        self.on_change()

    def has_barrier(self) -> bool:
        """Return whether a source is to send a barrier."""
        return bool(self._barriers)

    def activity(self, now_ns: int) -> Activity:
        """Say what the instance would do with the core now: CORE_WAIT means it can step.

        REMOTE_WAIT: an operator takes no more in, or the input no end, before answers come from outside. While answers
        are awaited but more could be taken in, an instance waits for input.
        """
        if self.done:
            return Activity.INPUT_WAIT
        if self._current is not None:
            full = self._full
            if full is None or full.has_room():
                return Activity.CORE_WAIT
            return Activity.REMOTE_WAIT if isinstance(full, Awaited) else Activity.OUTPUT_WAIT
        if not self._has_input(now_ns):
            return Activity.INPUT_WAIT
        for output in self.outputs:
            if not output.has_room():
                return Activity.OUTPUT_WAIT
        return Activity.CORE_WAIT

    def wake_ns(self, now_ns: int) -> int | None:
        """Return the monotonic time of the next timer or poll after now, None when none will come.

        What is due already and still cannot run waits for a channel or another source, not for the clock.
        """
        if self.done:
            return None
        times = [due for operator in self._timed if (due := operator.timer_ns()) is not None]
        if self.head is not None and not self._paused:
            times += [due for due in (self.head.wake_ns(), self.head.linger_ns()) if due is not None]
        return min((due for due in times if due > now_ns), default=None)

    def has_little(self) -> bool:
        """Return whether it is between two steps and less than a full batch waits; a source has none to wait for."""
        return self.gate is not None and self._current is None and self.gate.has_little()

    def patient_until_ns(self, now_ns: int) -> int | None:
        """Return until when others may go first, as they may make a full batch of what waits; None: no longer."""
        if self.gate is None or self._current is not None or not self.gate.is_thin():
            return None
        for operator in self._timed:
            due_ns = operator.timer_ns()
            if due_ns is not None and due_ns <= now_ns:
                return None
        if self._patient_since_ns is None:
            self._patient_since_ns = now_ns
        until_ns = self._patient_since_ns + PATIENCE_NS
        return until_ns if until_ns > now_ns else None

    def settle(self) -> Sequence[SourceHead]:
        """Take in how far a source has read; return the sources of which it may have changed whether they may read."""
        if self.head is None or self._alignment is None:
            return ()
        return self._alignment.settle(self.head)

    def hold_rows(self, now_ns: int) -> None:
        """Count the rows that wait in its channels, or are worked on, as being here from ``now_ns`` on."""
        waiting = 0 if self.gate is None else self.gate.waiting_rows
        self.accounting.hold(waiting + self._worked_rows, now_ns)

    def stepped(self, began_ns: int, now_ns: int) -> None:
        """Count the rows that are left, and of a source those that it read and worked on in a step."""
        if self.gate is None:
            self.accounting.hold(self._worked_rows, began_ns)
        if self._current is None:
            self._worked_rows = 0
        self.hold_rows(now_ns)

    @property
    def goes_on(self) -> bool:
        """Whether its next step is the rest of the last one."""
        return self._current is not None

    def has_pending(self) -> bool:
        """Return whether an operator kept something for a quiet moment."""
        return not self.done and self._current is None and any(item.has_pending() for item in self._keeping)

    def step(self, *, idle: bool = False) -> None:
        """Process due timers and input up to one batch, or what is pending (``idle``), as far as outputs have room.

        What takes long goes on in the next step, from `SLICE_NS` on, where an operator has put something out.
        """
        self._patient_since_ns = None
        if self._current is None:
            self._current = self._next(idle)
        until_ns = self._clock.monotonic_ns() + SLICE_NS
        try:
            self._full = next(self._current, None)
            while self._full is BREATH and self._clock.monotonic_ns() < until_ns:
                self._full = next(self._current, None)
        except Exception as error:
            error.add_note(f"In task {self.name}: {' -> '.join(node.name for node in self.nodes)}.")
            raise
        if self._full is None:
            self._current = None

    def _has_input(self, now_ns: int) -> bool:
        for operator in self._timed:
            due_ns = operator.timer_ns()
            if due_ns is not None and due_ns <= now_ns:
                return True
        if self.gate is not None:
            return self.gate.has_input()
        assert self.head is not None
        if self._barriers:
            return True
        if self._paused:
            return False
        due_ns = self.head.linger_ns()
        return self._may_poll(self.head, now_ns) or (due_ns is not None and due_ns <= now_ns)

    def _may_poll(self, head: SourceHead, now_ns: int) -> bool:
        wake_ns = head.wake_ns()
        if wake_ns is None or wake_ns > now_ns:
            return False
        return self._alignment is None or self._alignment.may_read(head)

    def _next(self, idle: bool) -> Iterator[Room]:
        now_ns = self._clock.monotonic_ns()
        # Others wait for a barrier or a marker that rows are before: timers come with every other batch then.
        self._passed_over = not (idle or self._passed_over or self.gate is None) and self.gate.is_hurried()
        if not self._passed_over:
            yield from fire_timers(self.root, now_ns, idle)
        if idle:
            return
        if self.gate is not None:
            while self.gate.has_input():
                taken = self.gate.take(self.root.operator.batches_at_once())
                if taken is None:
                    if self.gate.awaits_reroute:
                        self._handovers.marked()
                    yield from self._cancel_given_up(self.gate)
                    continue
                if isinstance(taken[1], Barrier | Reroute):
                    yield from self._cancel_given_up(self.gate)
                if isinstance(taken[1], Reroute) and taken[1].concerns(self.index):
                    self._handovers.marked()
                yield from self._push(*taken)
                if isinstance(taken[1], Batch | EndOfStream | Left):
                    return
            return
        assert self.head is not None
        while self._barriers:
            for element in self.head.cut():
                yield from send_letters(self.root)
                yield from self._push(0, element)
            yield from send_letters(self.root)
            yield from self._push(0, self._barriers.pop(0))
            self._paused |= self._last_barrier and not self._barriers
        if self._paused:
            return
        for element in self.head.poll() if self._may_poll(self.head, now_ns) else self.head.leave():
            yield from send_letters(self.root)
            yield from self._push(0, element)
        yield from send_letters(self.root)

    def _cancel_given_up(self, gate: InputGate) -> Iterator[Room]:
        """Say which barriers will not come: others may wait for them, and hold up what the marker of a move needs."""
        for epoch in gate.take_given_up():
            if self._participation is not None:
                self._participation.report(BarrierGivenUp(self.name, epoch))
            yield from push(self.root, 0, CancelBarrier(epoch))

    def _push(self, port: int, element: Element) -> Iterator[Room]:
        if isinstance(element, Batch):
            self._worked_rows += element.rows.num_rows
        yield from push(self.root, port, element)
        if isinstance(element, Barrier):
            self.delivered = element.epoch
            failpoint("instance.barrier.passed")
            self._cut(element.epoch, ended=False)
        elif isinstance(element, Reroute):
            self._handovers.passed(element)
        elif isinstance(element, EndOfStream | Left):
            self.done = True
            failpoint("instance.ended")
            self._cut(self.delivered + 1, ended=True)

    def _cut(self, epoch: int, *, ended: bool) -> None:
        if self._participation is None:
            return
        heads = [self.head] + [None] * (len(self.nodes) - 1)
        operators = tuple(
            cut_operator(node, self.index, epoch, head) for node, head in zip(self.nodes, heads, strict=True)
        )
        failpoint("instance.cut.taken")
        self._participation.report(InstanceCut(self.name, epoch, operators, ended))
        failpoint("instance.cut.reported")
