"""The transport of the simulated executor: links that deliver late, out of step with each other, or not for a while."""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from penstock.engine.core.elements import Element
from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.faults import Faults
from penstock.engine.executors.simulation.history import History
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.in_memory import Channel
from penstock.engine.transport.picked_rows import Picks


@dataclass(frozen=True, slots=True)
class _Message:
    arrival_ns: int
    element: Element
    picks: Picks | None
    rows: int
    size: int


class Link:
    """The link between the halves of a channel to another worker: `deliver` brings what was put, in order.

    Credit comes back at once when something is taken, so rows under way count against the channel's bound.
    """

    __slots__ = ("_network", "_transit", "channel", "down_until_ns", "last_arrival_ns")

    def __init__(self, name: str, capacity_bytes: int, network: "Network") -> None:
        """Make an empty channel with nothing under way."""
        receiver = ReceivingHalf(name)
        self.channel = Channel(SendingHalf(name, capacity_bytes, self._send), receiver)
        receiver.join(self.channel.sender.add_credit)
        self._network = network
        self._transit: deque[_Message] = deque()
        self.last_arrival_ns = 0
        self.down_until_ns = 0

    def arrival_ns(self) -> int | None:
        """Return when the oldest element that is under way arrives, None if nothing is."""
        return max(self._transit[0].arrival_ns, self.down_until_ns) if self._transit else None

    @property
    def name(self) -> str:
        """The name of its channel."""
        return self.channel.sender.name

    def deliver(self) -> Element:
        """Let the oldest element arrive."""
        message = self._transit.popleft()
        self.channel.receiver.accept(message.element, message.picks, message.rows, message.size)
        return message.element

    def _send(self, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        self.last_arrival_ns = max(self.last_arrival_ns, self._network.arrival_ns())
        self._transit.append(_Message(self.last_arrival_ns, element, picks, rows, size))


class Network:
    """All links of one attempt."""

    def __init__(self, dice: Dice, history: History, faults: Faults, now_ns: Callable[[], int]) -> None:
        """Begin without links."""
        self.links: list[Link] = []
        self._dice = dice
        self._history = history
        self._faults = faults
        self._now_ns = now_ns

    def link(self, name: str, capacity_bytes: int) -> Channel:
        """Make a channel with a link between its halves."""
        link = Link(name, capacity_bytes, self)
        self.links.append(link)
        return link.channel

    def drop(self, senders: Collection[SendingHalf]) -> None:
        """Take away the links of these senders that have one, with what is under way."""
        dropped = {id(sender) for sender in senders}
        self.links = [link for link in self.links if id(link.channel.sender) not in dropped]

    def arrival_ns(self) -> int:
        """Draw when an element that is sent now arrives."""
        now_ns = self._now_ns()
        if not self._faults.delay:
            return now_ns + 50_000
        fate = self._dice.uniform()
        most_ns = 200_000 if fate < 0.8 else 3_000_000 if fate < 0.98 else 30_000_000
        return now_ns + self._dice.below(most_ns)

    def due(self, now_ns: int) -> list[Link]:
        """Return the links whose oldest element is there."""
        return [link for link in self.links if (due := link.arrival_ns()) is not None and due <= now_ns]

    def next_ns(self) -> int | None:
        """Return when the next element arrives."""
        return min((due for link in self.links if (due := link.arrival_ns()) is not None), default=None)

    def maybe_cut(self, probability: float) -> None:
        """Cut a link now and then, until it is healed."""
        if self.links and self._faults.cut and self._dice.chance(probability):
            link = self._dice.choose(self.links)
            down_ns = self._dice.below(40_000_000)
            link.down_until_ns = self._now_ns() + down_ns
            self._history.event(f"FAULT link {link.name} is cut for {down_ns / 1e6:.1f} ms")
