"""The links of one task manager to all others, of all regions that are deployed on it.

One descriptor stands for all of them: a loop that has nothing to do waits for it, and a turn asks it which links have
news, so that the others cost next to nothing.
"""

import select
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.engine.core.contract import SLICE_NS, Clock
from penstock.engine.transport.link import Link
from penstock.engine.transport.linked import LinkedChannels
from penstock.model.errors import WorkerLostError

Region = TypeVar("Region", bound=Hashable)
"""What tells the deployed regions apart, as the number of an attempt does."""

_NEWS = select.EPOLLIN | select.EPOLLRDHUP
_GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR

CARRY_NS = 4 * SLICE_NS
"""For how long a loop brings on what a move hands over before it steps an instance again."""

STEP_S = 2 * SLICE_NS / 1e9
"""For how long it waits for the other side: steps there take up to so long, as the last piece of a slice ends."""


@dataclass(frozen=True, slots=True)
class LostLink(Generic[Region]):
    """A link whose other side is gone: what was on its way is lost."""

    region: Region
    peer: str
    reason: str


@dataclass(slots=True)
class _Entry(Generic[Region]):
    region: Region
    peer: str
    channels: LinkedChannels
    descriptor: int
    events: int = _NEWS
    """What is waited for; 0: nothing will come any more."""
    is_lost: bool = False


class LinkSet(Generic[Region]):
    """Links by region and peer. It belongs to the thread of the loop."""

    def __init__(self) -> None:
        """Begin without links."""
        self._poll = select.epoll()
        self._entries: dict[int, _Entry[Region]] = {}

    def fileno(self) -> int:
        """Return what becomes readable when a turn has something to do."""
        return self._poll.fileno()

    def add(self, region: Region, peer: str, channels: LinkedChannels) -> None:
        """Take over a link and its channels."""
        entry = _Entry(region, peer, channels, channels.link.fileno())
        self._entries[entry.descriptor] = entry
        self._poll.register(entry.descriptor, entry.events)

    def remove(self, region: Region) -> None:
        """Close the links of a region; nothing is heard of them any more."""
        self._close(list(self._of(region)))

    def remove_peer(self, peer: str) -> None:
        """Close the links to a peer, of all regions, and count what came by them no more."""
        self._close([entry for entry in self._entries.values() if entry.peer == peer])

    def turn(self) -> Sequence[LostLink[Region]]:
        """Bring what has come to its halves and let what was sent leave; the loop calls it between two steps.

        Returns the links that were lost, each once: they are asked no more, and stay until their region is removed.
        """
        lost: list[LostLink[Region]] = []
        for descriptor, events in self._poll.poll(0):
            entry = self._entries[descriptor]
            if not self._ask(entry, lost) and events & _GONE:
                # The other side ended in order and went.
                self._watch(entry, 0)
        for entry in self._entries.values():
            link = entry.channels.link
            if link.has_unsent():
                link.flush()
                if entry.events:
                    self._watch(entry, _NEWS | select.EPOLLOUT if link.is_blocked() else _NEWS)
                elif not entry.is_lost:
                    # Credit may go to nobody, elements may not.
                    self._ask(entry, lost)
            elif entry.events & select.EPOLLOUT:
                self._watch(entry, _NEWS)
        return lost

    def turn_on(self, clock: Clock) -> Sequence[LostLink[Region]]:
        """Turn, and go on while what a move hands over is on its way: a ring would be filled, and emptied, once a step.

        For a moment, and as long as something passes over a link that carries some. Returns as `turn` does.
        """
        lost, until_ns = list(self.turn()), clock.monotonic_ns() + CARRY_NS
        while (carrying := self._carrying()) and clock.monotonic_ns() < until_ns and self._poll.poll(STEP_S):
            before = sum(link.passed() for link in carrying)
            lost += self.turn()
            if sum(link.passed() for link in carrying) == before:
                break
        return lost

    def counts(self) -> tuple[int, int]:
        """Return the elements that were put into the links on this side, and that came out of them."""
        channels = [entry.channels for entry in self._entries.values()]
        return sum(item.sent for item in channels), sum(item.received for item in channels)

    def end(self, region: Region) -> None:
        """Tell the other sides that no element will be sent any more in a region."""
        for entry in self._of(region):
            entry.channels.link.end()

    def close(self) -> None:
        """Close all links."""
        for region in {entry.region for entry in self._entries.values()}:
            self.remove(region)
        self._poll.close()

    def _ask(self, entry: _Entry[Region], lost: list[LostLink[Region]]) -> bool:
        """Let a link bring what has come, and return whether something has; if it is lost, add that."""
        try:
            return entry.channels.turn()
        except WorkerLostError as error:
            self._watch(entry, 0)
            entry.is_lost = True
            lost.append(LostLink(entry.region, entry.peer, str(error)))
            return True

    def _carrying(self) -> Sequence[Link]:
        return [link for entry in self._entries.values() if (link := entry.channels.link).carries_state()]

    def _close(self, entries: Sequence[_Entry[Region]]) -> None:
        for entry in entries:
            self._watch(entry, 0)
            del self._entries[entry.descriptor]
            entry.channels.link.close()

    def _of(self, region: Region) -> Iterator[_Entry[Region]]:
        return (entry for entry in self._entries.values() if entry.region == region)

    def _watch(self, entry: _Entry[Region], events: int) -> None:
        if events == entry.events:
            return
        if events:
            self._poll.modify(entry.descriptor, events)
        else:
            self._poll.unregister(entry.descriptor)
        entry.events = events
