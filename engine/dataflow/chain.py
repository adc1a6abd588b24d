"""A chain: operators of one task that hand batches to each other directly, as a tree that ends in exchange outputs.

The functions here push one element through a chain. They are generators that yield whenever an output has no room,
so that the worker loop can park an instance between any two batches. They do the same when an operator waits for
something outside, and between what it puts out, as that may have taken long.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.engine.core.contract import Emission, Operator, RowCounters
from penstock.engine.core.elements import (
    END_OF_TIME_US,
    NO_ROWS,
    START_OF_TIME_US,
    Barrier,
    Batch,
    CancelBarrier,
    Element,
    EndOfStream,
    Idle,
    Left,
    Reroute,
    Watermark,
)
from penstock.engine.dataflow.dead_letter_output import DeadLetterOutput
from penstock.engine.dataflow.exchange import Output
from penstock.engine.dataflow.sic_account import SicAccount


@dataclass(slots=True)
class ChainNode:
    """An operator in its chain and where each of its outputs goes. ``port`` is the input its chained producer feeds.

    ``letters`` is set if something reads the operator's dead letters. ``watermark_us`` is the last watermark passed on,
    ``idle`` whether idleness waits behind rows that are unanswered.
    """

    name: str
    operator: Operator
    counters: RowCounters
    port: int = 0
    chained: dict[str, list["ChainNode"]] = field(default_factory=dict)
    exchanged: dict[str, list[Output]] = field(default_factory=dict)
    letters: DeadLetterOutput | None = None
    watermark_us: int = START_OF_TIME_US
    idle: bool = False
    sic: SicAccount = field(default_factory=lambda: SicAccount({}))

    def walk(self) -> Iterator["ChainNode"]:
        """Yield this node and all nodes chained behind it, producers first."""
        yield self
        for nodes in self.chained.values():
            for node in nodes:
                yield from node.walk()

    def outputs(self) -> Iterator[Output]:
        """Yield every exchange output of this node and of those behind it."""
        for node in self.walk():
            for edges in node.exchanged.values():
                yield from edges


class Room(Protocol):
    """The room that a parked chain waits for."""

    def has_room(self) -> bool:
        """Return whether the chain can go on."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """Stands for what operators wait for outside: there is room when one of them, or of those behind, can go on."""

    node: ChainNode
    waiting: Callable[[], bool]

    def has_room(self) -> bool:
        """Return whether the wait is over, or a timer is due."""
        if not self.waiting():
            return True
        now_ns = self.node.operator.context.clock.monotonic_ns()
        return any((due := node.operator.timer_ns()) is not None and due <= now_ns for node in self.node.walk())


class _Breath:
    """Stands between two emissions of an operator: whoever runs the chain may let others go first, and need not."""

    def has_room(self) -> bool:
        """Return True: nothing is waited for."""
        return True


BREATH: Room = _Breath()


def push(node: ChainNode, port: int, element: Element) -> Iterator[Room]:
    """Push an element through a node and everything behind it; yield what has no room, until it has, and `BREATH`."""
    if isinstance(element, Batch):
        if element.sic:
            node.sic.take(element.sic, node.operator.context.clock.monotonic_ns())
        if element.rows.num_rows:
            node.idle = False
            if not node.operator.has_room():
                yield from _wait(node, lambda: not node.operator.has_room())
            yield from _emit(node, node.operator.process(port, element), element)
    elif isinstance(element, Watermark):
        node.idle = False
        yield from _emit(node, node.operator.on_watermark(element.time_us))
        yield from _watermark(node, node.operator.output_watermark(element.time_us))
    elif isinstance(element, Barrier):
        if not node.operator.takes_barrier():
            yield from _wait(node, lambda: not node.operator.takes_barrier())
        yield from _emit(node, node.operator.on_barrier(element.epoch))
        yield from _control(node, element)
    elif isinstance(element, EndOfStream | Left):
        yield from _end(node, element)
    elif isinstance(element, Idle) and node.operator.unanswered():
        node.idle = True
    elif isinstance(element, Reroute):
        yield from _reroute(node, element)
    else:
        assert isinstance(element, Idle | CancelBarrier)
        yield from _control(node, element)
    if node.sic.holds and node.sic.is_due(node.operator.context.clock.monotonic_ns()):
        yield from _send_sic(node)


def _send_sic(node: ChainNode) -> Iterator[Room]:
    """Send on SIC that no rows leave with."""
    for name in node.sic.outputs:
        shares = iter(node.sic.leave(name))
        for target in node.chained.get(name, ()):
            if any(sic := next(shares)):
                yield from push(target, target.port, Batch(NO_ROWS, sic=sic))
        for output in node.exchanged.get(name, ()):
            if any(sic := next(shares)):
                output.send_sic(Batch(NO_ROWS, sic=sic))


def send_letters(node: ChainNode) -> Iterator[Room]:
    """Send on what a source's head rejected; an operator's own letters leave with what it emits."""
    if node.letters is not None:
        yield from _emit(node, ())


def fire_timers(node: ChainNode, now_ns: int, idle: bool) -> Iterator[Room]:
    """Run the due timers of a chain; with ``idle`` also what operators keep pending for a quiet moment."""
    for member in list(node.walk()):
        due = member.operator.timer_ns()
        if (due is not None and due <= now_ns) or (idle and member.operator.has_pending()):
            yield from _emit(member, member.operator.on_timer(now_ns))
            yield from _release(member)


def _wait(node: ChainNode, waiting: Callable[[], bool]) -> Iterator[Room]:
    """Run the timers of a node, and of those behind it, when they are due, as long as ``waiting`` says."""
    awaited = Awaited(node, waiting)
    while waiting():
        yield awaited
        yield from fire_timers(node, node.operator.context.clock.monotonic_ns(), idle=False)


def _release(node: ChainNode) -> Iterator[Room]:
    """Pass on the watermark, and the idleness, that waited for what has left now."""
    released_us = node.operator.released_watermark()
    if released_us is not None:
        yield from _watermark(node, released_us)
    if node.idle and not node.operator.unanswered():
        node.idle = False
        yield from _control(node, Idle())


def _end(node: ChainNode, element: EndOfStream | Left) -> Iterator[Room]:
    operator = node.operator
    drained = isinstance(element, EndOfStream) and element.drained
    if drained:
        yield from _emit(node, operator.on_watermark(END_OF_TIME_US))
    # What is left when it has ended is its cut.
    yield from _wait(node, lambda: operator.unanswered() or not operator.takes_barrier())
    if drained:
        yield from _emit(node, operator.on_end())
        yield from _watermark(node, END_OF_TIME_US)
    elif operator.has_pending():
        yield from _emit(node, operator.on_timer(operator.context.clock.monotonic_ns()))
    if node.sic.holds:
        yield from _send_sic(node)
    yield from _control(node, element)


def _reroute(node: ChainNode, reroute: Reroute) -> Iterator[Room]:
    """Let a marker through, which goes on to tasks that move together alone."""
    operator = node.operator
    behind = (member for member in node.walk() if member is not node)
    is_last = not any(member.operator.gives_state for member in behind)
    is_last = is_last and all(output.leads_to != reroute.task for output in node.outputs())
    if not operator.takes_reroute(reroute, is_last=is_last):
        yield from _wait(node, lambda: not operator.takes_reroute(reroute, is_last=is_last))
    yield from _release(node)
    yield from _emit(node, operator.on_reroute(reroute))
    for nodes in node.chained.values():
        for target in nodes:
            yield from push(target, target.port, reroute)
    for outputs in node.exchanged.values():
        for output in outputs:
            output.reroute(reroute)


def _emit(node: ChainNode, emissions: Iterable[Emission], cause: Batch | None = None) -> Iterator[Room]:
    if node.letters is not None:
        emissions = node.letters.among(emissions, cause)
    is_first = True
    for name, batch in emissions:
        if not is_first:
            yield BREATH
        is_first = False
        rows = batch.rows.num_rows
        if not rows:
            continue
        node.counters.rows_out += rows
        shares = None
        if node.sic.holds or batch.sic:
            shares = iter(node.sic.leave(name))
        for target in node.chained.get(name, ()):
            yield from push(target, target.port, batch if shares is None else replace(batch, sic=next(shares, ())))
        for output in node.exchanged.get(name, ()):
            sent = batch if shares is None else replace(batch, sic=next(shares, ()))
            while not output.has_room():
                yield output
            output.send(sent)


def _watermark(node: ChainNode, time_us: int) -> Iterator[Room]:
    if time_us > node.watermark_us:
        node.watermark_us = time_us
        if node.sic.holds and node.sic.has_lost():
            # Results that the watermark makes leave behind it are to know what was dropped before.
            yield from _send_sic(node)
        yield from _control(node, Watermark(time_us))


def _control(node: ChainNode, element: Element) -> Iterator[Room]:
    for nodes in node.chained.values():
        for target in nodes:
            yield from push(target, target.port, element)
    for outputs in node.exchanged.values():
        for output in outputs:
            output.send_control(element)
