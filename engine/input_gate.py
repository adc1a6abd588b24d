"""Where an instance's input channels meet: fair choice, merged watermarks, aligned barriers, the end of all inputs."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

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
from penstock.engine.transport.in_memory import Channel
from penstock.engine.watermark import WatermarkMerge


@dataclass(frozen=True, slots=True)
class GateInput:
    """A channel and the operator port it feeds."""

    channel: Channel
    port: int


class InputGate:
    """Merges channels into one sequence of (port, element), in the order of each channel.

    Watermarks and idleness are merged; a barrier or reroute comes out once, when every open channel has delivered
    it, and a channel that delivered it is blocked until then; the end comes out when every channel has ended.
    """

    def __init__(self, inputs: Sequence[GateInput]) -> None:
        """Take the channels; there is at least one."""
        self.inputs = tuple(inputs)
        self._merge = WatermarkMerge(len(inputs))
        self._ended = [False] * len(inputs)
        self._drained = True
        self._blocked: set[int] = set()
        self._awaited: Barrier | Reroute | None = None
        self._released: deque[tuple[int, Element]] = deque()
        self._next = 0
        self._said_idle = False

    @property
    def watermark_us(self) -> int:
        """The merged watermark."""
        return self._merge.time_us

    def has_input(self) -> bool:
        """Return whether `take` would find an element."""
        return bool(self._released) or any(
            len(gate_input.channel) and index not in self._blocked for index, gate_input in enumerate(self.inputs)
        )

    def take(self) -> tuple[int, Element] | None:
        """Take one element from the next channel that has one; None when it changed nothing for the operators."""
        if self._released:
            return self._released.popleft()
        count = len(self.inputs)
        for step in range(count):
            index = (self._next + step) % count
            if len(self.inputs[index].channel) and index not in self._blocked:
                self._next = (index + 1) % count
                return self._accept(index, self.inputs[index].channel.take())
        return None

    def _accept(self, index: int, element: Element) -> tuple[int, Element] | None:
        port = self.inputs[index].port
        if isinstance(element, Batch):
            self._merge.set_active(index)
            self._said_idle = False
            return port, element
        if isinstance(element, Watermark):
            advanced = self._merge.advance(index, element.time_us)
            self._said_idle = False
            return (port, Watermark(self._merge.time_us)) if advanced else None
        if isinstance(element, Idle):
            return self._idle(port, self._merge.set_idle(index))
        if isinstance(element, EndOfStream):
            return self._end(index, element)
        return self._align(index, element)

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
        self._awaited = element
        self._blocked.add(index)
        return self._release(self.inputs[index].port)

    def _release(self, port: int) -> tuple[int, Element] | None:
        if self._awaited is None:
            return None
        if any(not ended and index not in self._blocked for index, ended in enumerate(self._ended)):
            return None
        element, self._awaited = self._awaited, None
        self._blocked.clear()
        return port, element
