"""The gate of an instance's input channels: fair choice, merged watermarks, aligned barriers, the end of all inputs."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.engine.core.elements import (
    END_OF_TIME_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    Idle,
    Reroute,
    Watermark,
)
from penstock.engine.core.watermark import WatermarkMerge
from penstock.engine.transport.halves import ReceivingHalf
from penstock.engine.transport.picked_rows import Part, Picks, put_together
from penstock.model.errors import BugError


@dataclass(frozen=True, slots=True)
class GateInput:
    """The receiving half of a channel and the operator port it feeds."""

    receiver: ReceivingHalf
    port: int


class InputGate:
    """Merges channels into one sequence of (port, element), in the order of each channel.

    Watermarks and idleness are merged; a barrier or reroute comes out once, when every open channel has delivered
    it, and a channel that delivered it is blocked until then; the end comes out when every channel has ended. A channel
    that brings a later barrier, or a reroute, in the place of the barrier that others have delivered will never bring
    that one: it is given up (`take_given_up`), its channels are read on, and what is left of it is dropped.

    Batches of one port that wait already come out as one, of at most ``batch_rows``: an exchange cuts batches to
    pieces, and every piece would cost its receiver as many steps as a whole one. One that is large and was not cut
    comes out as it is: to copy it costs more than the steps that would be saved.
    """

    def __init__(self, inputs: Sequence[GateInput], batch_rows: int = 1) -> None:
        """Take the channels; there is at least one."""
        self.inputs = tuple(inputs)
        self._receivers = [item.receiver for item in inputs]
        self._opposite = _opposite(inputs)
        self._merge = WatermarkMerge(len(inputs))
        self._ended = [False] * len(inputs)
        self._drained = True
        self._blocked: set[int] = set()
        self._awaited: Barrier | Reroute | None = None
        # The greatest epoch whose barrier came out or was given up; 0: none.
        self._past_epoch = 0
        self._given_up: list[int] = []
        self._released: deque[tuple[int, Element]] = deque()
        self._next = 0
        self._said_idle = False
        self._batch_rows = batch_rows
        self._overtaken = False

    @property
    def watermark_us(self) -> int:
        """The merged watermark."""
        return self._merge.time_us

    def has_input(self) -> bool:
        """Return whether `take` would find an element."""
        if self._overtaken or self._released:
            return True
        return any(len(receiver) and index not in self._blocked for index, receiver in enumerate(self._receivers))

    def is_thin(self) -> bool:
        """Return whether less than a full batch waits, and nothing that more rows must not be waited for."""
        rows = 0
        for receiver in self._receivers:
            rows += receiver.waiting_rows
            if receiver.waiting_signals:
                return False
        return not self._released and not self._blocked and 4 * rows < 3 * self._batch_rows

    def take(self) -> tuple[int, Element] | None:
        """Take one element from the next channel that has one; None when it changed nothing for the operators."""
        if self._overtaken:
            self._overtaken = False
            return self.inputs[0].port, Watermark(self._merge.time_us)
        if self._released:
            return self._released.popleft()
        count = len(self.inputs)
        for step in range(count):
            index = (self._next + step) % count
            if len(self._receivers[index]) and index not in self._blocked:
                self._next = (index + 1) % count
                return self._accept(index, *self._receivers[index].take_share())
        return None

    def take_given_up(self) -> list[int]:
        """Return the epochs whose barriers were given up since the last call."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def _accept(self, index: int, element: Element, picks: Picks | None) -> tuple[int, Element] | None:
        port = self.inputs[index].port
        if isinstance(element, Batch):
            self._merge.set_active(index)
            self._said_idle = False
            batch = self._joined(index, element, picks)
            opposite = self._opposite.get(port)
            if opposite:
                batch = replace(batch, opposite_us=self._merge.least(opposite))
            return port, batch
        if isinstance(element, Watermark):
            advanced = self._merge.advance(index, element.time_us)
            self._said_idle = False
            return (port, Watermark(self._merge.time_us)) if advanced else None
        if isinstance(element, Idle):
            return self._idle(port, self._merge.set_idle(index))
        if isinstance(element, EndOfStream):
            return self._end(index, element)
        return self._align(index, element)

    def _joined(self, index: int, first: Batch, picks: Picks | None) -> Batch:
        """Return a batch with those that wait behind it, and at the heads of the other channels of its port."""
        if self._is_large(first, picks):
            return first
        parts: list[Part] = [(first.rows, picks)]
        rows, ingest_ns = first.rows.num_rows if picks is None else picks.size, first.ingest_ns
        port = self.inputs[index].port
        count = len(self.inputs)
        for other in ((index + step) % count for step in range(count)):
            if self.inputs[other].port != port or other in self._blocked:
                continue
            while rows < self._batch_rows and self._has_next(other, first.keep):
                batch, share = self._take_batch(other, self._batch_rows - rows)
                parts.append((batch.rows, share))
                ingest_ns = min(ingest_ns, batch.ingest_ns)
                rows += batch.rows.num_rows if share is None else share.size
        if len(parts) == 1 and picks is None:
            return first
        return replace(first, rows=put_together(parts), ingest_ns=ingest_ns)

    def _has_next(self, index: int, keep: float) -> bool:
        """Return whether a batch of this ``keep`` to be joined comes next in a channel, behind watermarks at most."""
        for element, picks in self._receivers[index].shares():
            if isinstance(element, Batch):
                return element.keep == keep and not self._is_large(element, picks)
            if not isinstance(element, Watermark):
                return False
        return False

    def _is_large(self, batch: Batch, picks: Picks | None) -> bool:
        return picks is None and 2 * batch.rows.num_rows >= self._batch_rows

    def _take_batch(self, index: int, most_rows: int) -> tuple[Batch, Picks | None]:
        while True:
            element, picks = self._receivers[index].take_share(most_rows)
            if isinstance(element, Batch):
                self._merge.set_active(index)
                return element, picks
            assert isinstance(element, Watermark)
            # It comes out after the rows that it was ahead of: a watermark may be late, but never early.
            self._overtaken |= self._merge.advance(index, element.time_us)

    def _idle(self, port: int, advanced: bool) -> tuple[int, Element] | None:
        if advanced:
            return port, Watermark(self._merge.time_us)
        if self._merge.idle and not self._said_idle:
            self._said_idle = True
            return port, Idle()
        return None

    def _end(self, index: int, element: EndOfStream) -> tuple[int, Element] | None:
        self._ended[index] = True
        self._drained = self._drained and element.drained
        port = self.inputs[index].port
        if all(self._ended):
            return port, EndOfStream(self._drained)
        # An ended channel counts as having delivered a watermark at the end of time and every later barrier.
        if element.drained and self._merge.advance(index, END_OF_TIME_US):
            self._released.append((port, Watermark(self._merge.time_us)))
        barrier = self._release(port)
        if barrier is not None:
            self._released.append(barrier)
        return self._released.popleft() if self._released else None

    def _align(self, index: int, element: Barrier | Reroute) -> tuple[int, Element] | None:
        awaited = self._awaited
        if isinstance(element, Barrier):
            if element.epoch <= self._past_epoch:
                return None
            if isinstance(awaited, Reroute) or (awaited is not None and element.epoch < awaited.epoch):
                self._give_up(element.epoch)
                return None
        if awaited is not None and element != awaited:
            if isinstance(awaited, Reroute):
                raise BugError(f"a channel brings {element} while {awaited} is awaited: neither may be passed over")
            self._give_up(awaited.epoch)
            self._blocked.clear()
        self._awaited = element
        self._blocked.add(index)
        return self._release(self.inputs[index].port)

    def _give_up(self, epoch: int) -> None:
        self._past_epoch = epoch
        self._given_up.append(epoch)

    def _release(self, port: int) -> tuple[int, Element] | None:
        if self._awaited is None:
            return None
        if any(not ended and index not in self._blocked for index, ended in enumerate(self._ended)):
            return None
        element, self._awaited = self._awaited, None
        if isinstance(element, Barrier):
            self._past_epoch = element.epoch
        self._blocked.clear()
        return port, element


def _opposite(inputs: Sequence[GateInput]) -> Mapping[int, Sequence[int]]:
    """Return, for each port, the channels of the other ports."""
    ports = {item.port for item in inputs}
    return {port: [index for index, item in enumerate(inputs) if item.port != port] for port in ports}
