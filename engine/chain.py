"""A chain: operators of one task that hand batches to each other directly, as a tree that ends in exchange outputs.

The functions here push one element through a chain. They are generators that yield whenever an output has no room,
so that the worker loop can park an instance between any two batches.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from penstock.engine.elements import (
    END_OF_TIME_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    Idle,
    Reroute,
    Watermark,
)
from penstock.engine.exchange import Output
from penstock.engine.operators.contract import Emission, Operator, RowCounters


@dataclass(slots=True)
class ChainNode:
    """An operator in its chain and where each of its outputs goes. ``port`` is the input its chained producer feeds."""

    name: str
    operator: Operator
    counters: RowCounters
    port: int = 0
    chained: dict[str, list["ChainNode"]] = field(default_factory=dict)
    exchanged: dict[str, list[Output]] = field(default_factory=dict)

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


def push(node: ChainNode, port: int, element: Element) -> Iterator[Output]:
    """Push an element through a node and everything behind it; yield the output that has no room, until it has."""
    if isinstance(element, Batch):
        if element.rows.num_rows:
            yield from _emit(node, node.operator.process(port, element))
    elif isinstance(element, Watermark):
        yield from _emit(node, node.operator.on_watermark(element.time_us))
        yield from _control(node, Watermark(node.operator.output_watermark(element.time_us)))
    elif isinstance(element, Barrier):
        yield from _emit(node, node.operator.on_barrier(element.epoch))
        yield from _control(node, element)
    elif isinstance(element, EndOfStream):
        yield from _end(node, element)
    else:
        assert isinstance(element, Idle | Reroute)
        yield from _control(node, element)


def fire_timers(node: ChainNode, now_ns: int, idle: bool) -> Iterator[Output]:
    """Run the due timers of a chain; with ``idle`` also what operators keep pending for a quiet moment."""
    for member in list(node.walk()):
        due = member.operator.timer_ns()
        if (due is not None and due <= now_ns) or (idle and member.operator.has_pending()):
            yield from _emit(member, member.operator.on_timer(now_ns))


def _end(node: ChainNode, element: EndOfStream) -> Iterator[Output]:
    operator = node.operator
    if element.drained:
        yield from _emit(node, operator.on_watermark(END_OF_TIME_US))
        yield from _emit(node, operator.on_end())
        yield from _control(node, Watermark(END_OF_TIME_US))
    elif operator.has_pending():
        yield from _emit(node, operator.on_timer(operator.context.clock.monotonic_ns()))
    yield from _control(node, element)


def _emit(node: ChainNode, emissions: Iterable[Emission]) -> Iterator[Output]:
    for name, batch in emissions:
        rows = batch.rows.num_rows
        if not rows:
            continue
        node.counters.rows_out += rows
        for target in node.chained.get(name, ()):
            yield from push(target, target.port, batch)
        for output in node.exchanged.get(name, ()):
            while not output.has_room():
                yield output
            output.send(batch)


def _control(node: ChainNode, element: Element) -> Iterator[Output]:
    for nodes in node.chained.values():
        for target in nodes:
            yield from push(target, target.port, element)
    for outputs in node.exchanged.values():
        for output in outputs:
            output.send_control(element)
