"""Links of several regions in one set: news reach their halves, a loss is reported once, and only news ends a wait."""

import select
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.elements import Barrier, Batch
from penstock.engine.transport.batch_body import plain_body
from penstock.engine.transport.framed_link import FramedLink
from penstock.engine.transport.link_set import LinkSet
from penstock.engine.transport.linked import LinkedChannels
from penstock.engine.transport.waiting import Waiter
from tests.engine.transport.linked_pairs import LINKS, Links, connected, descriptors, join

CAPACITY_BYTES = 1 << 20

every_kind = pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)


class Sides:
    """A set of links, and the other side of each, as channels by region and peer."""

    def __init__(self, stack: ExitStack, links: Links, *names: tuple[int, str]) -> None:
        self.links: LinkSet[int] = LinkSet()
        self.own: dict[tuple[int, str], LinkedChannels] = {}
        self.others: dict[tuple[int, str], LinkedChannels] = {}
        for region, peer in names:
            one, other = stack.enter_context(links())
            self.own[region, peer], self.others[region, peer] = LinkedChannels(one), LinkedChannels(other)
            self.links.add(region, peer, self.own[region, peer])

    def have_unsent(self) -> bool:
        """Return whether something could not leave yet over a link of the set."""
        return any(channels.link.has_unsent() for channels in self.own.values())

    def loses(self, name: tuple[int, str]) -> None:
        link = self.others[name].link
        assert isinstance(link, FramedLink)
        link._socket.close()


def wait(*sets: LinkSet[int], timeout_s: float = 30) -> bool:
    return bool(select.select(sets, [], [], timeout_s)[0])


@every_kind
def test_news_of_each_link_reach_its_halves(links: Links) -> None:
    with ExitStack() as stack:
        names = [(1, "tm-1"), (1, "tm-2"), (2, "tm-1")]
        sides = Sides(stack, links, *names)
        receivers = {name: sides.own[name].receiver(0, "c", CAPACITY_BYTES) for name in names}
        senders = {name: sides.others[name].sender(0, "c", CAPACITY_BYTES) for name in names}
        for count, name in enumerate(names, 1):
            assert not wait(sides.links, timeout_s=0)
            senders[name].put(Batch(pa.record_batch({"x": np.arange(count)})))
            sides.others[name].turn()
            while not receivers[name].waiting_rows:
                assert wait(sides.links)
                assert sides.links.turn() == []
        assert [receivers[name].waiting_rows for name in names] == [1, 2, 3]
        sides.links._poll.close()


@every_kind
def test_what_could_not_leave_leaves_when_there_is_room(links: Links) -> None:
    rows = pa.record_batch({"x": np.arange(400_000)})
    with ExitStack() as stack:
        sides = Sides(stack, links, (1, "tm-1"))
        sender = sides.own[1, "tm-1"].sender(0, "c", CAPACITY_BYTES)
        receiver = sides.others[1, "tm-1"].receiver(0, "c", CAPACITY_BYTES)
        sender.put(Batch(rows))
        sides.links.turn()
        assert sides.have_unsent() and not wait(sides.links, timeout_s=0)
        while not receiver.waiting_rows:
            sides.others[1, "tm-1"].turn()
            sides.links.turn()
        # Nothing is left to write: that there is room is no news.
        assert not sides.have_unsent()
        sides.links.turn()
        assert not wait(sides.links, timeout_s=0)
        sides.links._poll.close()


@every_kind
def test_a_lost_link_is_reported_once(links: Links) -> None:
    with ExitStack() as stack:
        sides = Sides(stack, links, (1, "tm-1"), (2, "tm-2"))
        sender = sides.own[1, "tm-1"].sender(0, "c", CAPACITY_BYTES)
        receiver = sides.own[1, "tm-1"].receiver(1, "c", CAPACITY_BYTES)
        sides.others[1, "tm-1"].sender(1, "c", CAPACITY_BYTES).put(Batch(pa.record_batch({"x": [1, 2]})))
        sides.others[1, "tm-1"].turn()
        sides.loses((1, "tm-1"))
        lost = []
        while not lost:
            assert wait(sides.links)
            lost += sides.links.turn()
        assert [(each.region, each.peer) for each in lost] == [(1, "tm-1")] and "is lost" in lost[0].reason
        assert receiver.waiting_rows == 2
        receiver.take()
        for epoch in range(3):
            sender.put(Barrier(epoch))
            assert sides.links.turn() == [] and not wait(sides.links, timeout_s=0)
        assert not sides.have_unsent()
        sides.links._poll.close()


@every_kind
def test_a_link_that_ended_and_went_is_neither_lost_nor_news(links: Links) -> None:
    with ExitStack() as stack:
        sides = Sides(stack, links, (1, "tm-1"))
        receiver = sides.own[1, "tm-1"].receiver(0, "c", 8)
        sender, other = sides.others[1, "tm-1"].sender(0, "c", 8), sides.others[1, "tm-1"].link
        sender.put(Batch(pa.record_batch({"x": np.arange(4)})))
        other.end()
        sides.links.end(1)
        while not (other.has_ended() and not other.has_unsent()):
            assert sides.links.turn() == []
            sides.others[1, "tm-1"].turn()
        sides.loses((1, "tm-1"))
        assert wait(sides.links)
        while wait(sides.links, timeout_s=0):
            assert sides.links.turn() == []
        # Credit goes to nobody.
        receiver.take()
        while sides.have_unsent():
            assert sides.links.turn() == []
        assert sides.own[1, "tm-1"].link.has_ended()
        sides.links._poll.close()


@every_kind
def test_elements_for_a_side_that_ended_and_went_are_a_loss(links: Links) -> None:
    with ExitStack() as stack:
        sides = Sides(stack, links, (1, "tm-1"))
        sender = sides.own[1, "tm-1"].sender(0, "c", 8)
        other = sides.others[1, "tm-1"].link
        other.end()
        while not sides.own[1, "tm-1"].link.has_ended() or other.has_unsent():
            sides.others[1, "tm-1"].turn()
            assert sides.links.turn() == []
        sides.loses((1, "tm-1"))
        assert wait(sides.links)
        while wait(sides.links, timeout_s=0):
            assert sides.links.turn() == []
        lost = []
        while not lost:
            sender.put(Barrier(1))
            lost += sides.links.turn()
        sender.put(Barrier(2))
        assert len(lost) == 1 and sides.links.turn() == [] and not sides.have_unsent()
        sides.links._poll.close()


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_removing_a_region_closes_its_links_alone(kind: str) -> None:
    before = descriptors()
    links: LinkSet[int] = LinkSet()
    waiter = Waiter()
    waiter.add(links.fileno())
    others = {}
    for region, peer in [(1, "tm-1"), (2, "tm-1"), (2, "tm-2")]:
        one, others[region, peer] = connected(kind)
        links.add(region, peer, LinkedChannels(join(kind, one, peer)))
    links.remove(2)
    for name, other in others.items():
        other.setblocking(False)
        assert bool(select.select([other], [], [], 0 if name[0] == 1 else 30)[0]) == (name[0] == 2)
    others[1, "tm-1"].send(b"no frame")
    assert list(waiter.wait(None)) == [links.fileno()]
    links.close()
    waiter.close()
    for other in others.values():
        other.close()
    assert descriptors() == before


class Meanwhile(SystemClock):
    """A clock that stands still; whenever it is asked something happens on other sides."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.happens, self.asked = happens, 0

    def monotonic_ns(self) -> int:
        self.happens()
        self.asked += 1
        assert self.asked < 10_000, "it goes on for ever"
        return 0


@pytest.mark.parametrize("links", [LINKS["ring"], LINKS["tcp"]], ids=["ring", "tcp"])
def test_state_of_a_move_goes_on_while_the_other_side_takes_it(links: Links) -> None:
    state = pa.py_buffer(bytes(range(256)) * 64_000)
    with ExitStack() as stack:
        sides = Sides(stack, links, (1, "tm-1"))
        here, there = sides.own[1, "tm-1"], sides.others[1, "tm-1"]
        came: list[pa.Buffer] = []
        there.on_state = came.append
        clock = Meanwhile(there.turn)
        assert not here.link.carries_state() and sides.links.turn_on(clock) == [] and clock.asked == 1
        here.send_state(plain_body(state), state.size, more=False)
        there.turn()
        assert here.link.carries_state() and not came, "more than fits at once"
        assert sides.links.turn_on(clock) == [] and not here.link.carries_state()
        while not came:
            sides.links.turn()
            there.turn()
        assert came[0].equals(state) and not there.link.carries_state()
        sides.links._poll.close()


def test_state_that_nobody_takes_holds_nothing_up_though_rows_come_from_others() -> None:
    state = pa.py_buffer(bytes(16_000_000))
    with ExitStack() as stack:
        sides = Sides(stack, LINKS["ring"], (1, "tm-1"), (1, "tm-2"))
        here, other = sides.own[1, "tm-1"], sides.others[1, "tm-2"]
        sides.own[1, "tm-2"].receiver(0, "c", CAPACITY_BYTES)
        sender = other.sender(0, "c", CAPACITY_BYTES)

        def send() -> None:
            sender.put(Batch(pa.record_batch({"x": np.arange(3)})))
            other.turn()

        clock = Meanwhile(send)
        here.send_state(plain_body(state), state.size, more=False)
        sides.links.turn()
        assert sides.links.turn_on(clock) == []
        assert here.link.carries_state() and clock.asked <= 3
        sides.links._poll.close()


@every_kind
def test_a_link_that_is_lost_carries_no_state(links: Links) -> None:
    state = pa.py_buffer(bytes(2_000_000))
    with ExitStack() as stack:
        sides = Sides(stack, links, (1, "tm-1"))
        here = sides.own[1, "tm-1"]
        here.send_state(plain_body(state), state.size, more=False)
        sides.loses((1, "tm-1"))
        lost = []
        while not lost:
            lost += sides.links.turn_on(SystemClock())
        assert len(lost) == 1 and not here.link.carries_state()
        sides.links._poll.close()
