"""Places that meet, each in a thread of its own, and rows of one element that they exchange then."""

import select
import threading
from collections.abc import Callable, Iterable, Mapping

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.elements import Barrier
from penstock.engine.transport.addresses import Transport
from penstock.engine.transport.link import Arrived, Link
from penstock.engine.transport.meeting import MeetingPlace
from penstock.engine.transport.tls import Tls
from tests.engine.transport.linked_pairs import SMALL_RING_BYTES, TOKEN


def place(me: str, transport: Transport | None = None, token: bytes = TOKEN, tls: Tls | None = None) -> MeetingPlace:
    """Make a place whose rings are small."""
    return MeetingPlace(me, token, SystemClock(), transport, ring_bytes=SMALL_RING_BYTES, tls=tls)


def never() -> bool:
    return False


class GivenUp:
    """Is given up when it has been asked so many times; calls something each time."""

    def __init__(self, times: int, act: Callable[[], None] = lambda: None) -> None:
        self._left = times
        self._act = act

    def __call__(self) -> bool:
        self._act()
        self._left -= 1
        return self._left <= 0


def exchange(me: str, attempt: int, links: Mapping[str, Link]) -> None:
    """Send a barrier to each of the others, and take those of all; the end in order, and close."""
    for link in links.values():
        link.send(attempt, Barrier(len(me)), None, 0, 0)
        link.end()
        link.flush()
    heard: dict[str, list[object]] = {peer: [] for peer in links}
    while left := {peer: link for peer, link in links.items() if not link.has_ended() or link.has_unsent()}:
        blocked = [link for link in left.values() if link.is_blocked()]
        assert any(select.select(list(left.values()), blocked, [], 30))
        for peer, link in left.items():
            heard[peer] += link.receive()
    assert heard == {peer: [Arrived(attempt, Barrier(len(peer)))] for peer in links}
    for link in links.values():
        link.close()


def together(acts: Iterable[Callable[[], None]]) -> None:
    """Do all at the same time; raise what one of them raises."""
    errors: list[BaseException] = []

    def run(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
