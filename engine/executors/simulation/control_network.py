"""Control links of simulated task managers: their real deliveries over a network that loses, repeats and reorders."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from penstock.engine.core.contract import Clock
from penstock.engine.executors.managers.control_plane import OnClosed, OnMessage
from penstock.engine.executors.managers.delivery import Delivery, Ends, Envelope
from penstock.engine.executors.simulation.control_faults import ControlFaults


@dataclass(frozen=True, slots=True)
class Side:
    """The side of a task manager: what takes its messages, and whether its process takes anything at this time."""

    ends: Ends
    receive: Callable[[bytes], None]
    on_closed: Callable[[], None]
    is_awake: Callable[[], bool]


@dataclass(slots=True)
class _Journey:
    arrival_ns: int
    envelope: Envelope


@dataclass
class _ControlLink:
    side: Side
    head: Delivery
    manager: Delivery | None = None
    up: list[_Journey] = field(default_factory=list)
    down: list[_Journey] = field(default_factory=list)
    closed_ns: int | None = None
    """From when on the head sees that the other end is closed."""


class SimulatedPlane:
    """The control links of one head; a `Plane` of its pool."""

    def __init__(
        self,
        faults: ControlFaults,
        is_head_awake: Callable[[], bool],
        clock: Clock,
        on_message: OnMessage,
        on_closed: OnClosed,
    ) -> None:
        """Begin with no link."""
        self._faults, self._is_head_awake, self._clock = faults, is_head_awake, clock
        self._on_message, self._on_closed = on_message, on_closed
        self._links: dict[str, _ControlLink] = {}

    def add(self, end: Side, ends: Ends, /) -> None:
        """Take over the link to a task manager that was started."""
        self._links[ends.there] = _ControlLink(end, Delivery(ends, self._clock.monotonic_ns()))

    def send(self, there: str, body: bytes) -> None:
        """Let a message begin its journey to a task manager."""
        link = self._links.get(there)
        if link is not None:
            self._travel(link.down, link.head.send(body, self._clock.monotonic_ns()))

    def send_up(self, name: str, body: bytes) -> None:
        """Let a message of a task manager begin its journey."""
        link = self._links.get(name)
        if link is not None and link.manager is not None:
            self._travel(link.up, link.manager.send(body, self._clock.monotonic_ns()))

    def heard_ns(self, there: str) -> int | None:
        """Return when a task manager was last heard, None if its link is gone."""
        link = self._links.get(there)
        return None if link is None else link.head.heard_ns

    def remove(self, there: str) -> None:
        """Close a link: the task manager ends with it."""
        link = self._links.pop(there, None)
        if link is not None:
            link.side.on_closed()

    def close(self) -> None:
        """Close all."""
        for name in list(self._links):
            self.remove(name)

    def end_of(self, name: str) -> None:
        """The process of a task manager has ended: its head sees it soon."""
        link = self._links.get(name)
        if link is not None and link.closed_ns is None:
            link.closed_ns = self._clock.monotonic_ns() + self._faults.delay_ns()

    def choices(self, now_ns: int) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield what can happen now, with its name."""
        head_awake = self._is_head_awake()
        for name, link in self._links.items():
            if head_awake:
                if link.up and min(item.arrival_ns for item in link.up) <= now_ns:
                    yield f"a message of {name} arrives", partial(self._arrive_up, name, link)
                elif link.closed_ns is not None and link.closed_ns <= now_ns:
                    yield f"the end of {name} is seen", partial(self._see_end, name)
                elif link.head.due_ns() <= now_ns:
                    yield f"the head repeats to {name}", partial(self._repeat, link.down, link.head)
            if link.closed_ns is None and link.side.is_awake():
                if link.down and min(item.arrival_ns for item in link.down) <= now_ns:
                    yield f"a message arrives at {name}", partial(self._arrive_down, link)
                elif link.manager is not None and link.manager.due_ns() <= now_ns:
                    yield f"{name} repeats", partial(self._repeat, link.up, link.manager)

    def next_ns(self) -> int | None:
        """Return when something can happen next; who is not awake is left out."""
        times: list[int] = []
        head_awake = self._is_head_awake()
        for link in self._links.values():
            if head_awake:
                times += [item.arrival_ns for item in link.up]
                times.append(link.head.due_ns())
                if link.closed_ns is not None:
                    times.append(link.closed_ns)
            if link.closed_ns is None and link.side.is_awake():
                times += [item.arrival_ns for item in link.down]
                if link.manager is not None:
                    times.append(link.manager.due_ns())
        return min(times, default=None)

    def _travel(self, road: list[_Journey], envelope: Envelope) -> None:
        now_ns = self._clock.monotonic_ns()
        road += [_Journey(now_ns + delay_ns, envelope) for delay_ns in self._faults.journeys()]

    def _repeat(self, road: list[_Journey], delivery: Delivery) -> None:
        for envelope in delivery.due(self._clock.monotonic_ns()):
            self._travel(road, envelope)

    def _arrive_up(self, name: str, link: _ControlLink) -> None:
        for message in link.head.receive(_next(link.up), self._clock.monotonic_ns()):
            self._on_message(name, message)

    def _arrive_down(self, link: _ControlLink) -> None:
        now_ns = self._clock.monotonic_ns()
        if link.manager is None:
            link.manager = Delivery(link.side.ends, now_ns)
        for message in link.manager.receive(_next(link.down), now_ns):
            link.side.receive(message)

    def _see_end(self, name: str) -> None:
        del self._links[name]
        self._on_closed(name, "its other end was closed")


def _next(road: list[_Journey]) -> Envelope:
    journey = min(road, key=lambda item: item.arrival_ns)
    road.remove(journey)
    return journey.envelope
