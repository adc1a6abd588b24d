"""Links of every kind: any elements in any interleaving of both sides, batches larger than their room, sudden death."""

import os
import select
import socket
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import Barrier, Batch, Element, EndOfStream, Watermark
from penstock.engine.transport.framed_link import FramedLink
from penstock.engine.transport.link import Arrival, Arrived, Granted
from penstock.engine.transport.picked_rows import Picks
from penstock.engine.transport.ring import make_ring
from penstock.engine.transport.ring_link import RingLink
from penstock.model.errors import WorkerLostError
from tests.engine.transport.linked_pairs import (
    CERTIFICATES,
    LINKS,
    SMALL_RING_BYTES,
    Links,
    connected,
    descriptors,
    join,
    rings_mapped,
    tls_here,
)
from tests.engine.transport.test_batch_body import batches, picked, picks_of

every_kind = pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)


def put(link: FramedLink, channel: int, element: Element, picks: Picks | None = None) -> Arrived:
    """Send an element as a sending half does; return what is to arrive."""
    if not isinstance(element, Batch):
        link.send(channel, element, None, 0, 0)
        return Arrived(channel, element)
    rows = element.rows.num_rows if picks is None else int(picks.size)
    link.send(channel, element, picks, rows, rows * 8)
    return Arrived(channel, element.with_rows(picked(element.rows, picks)), rows, rows * 8)


def exchange(sender: FramedLink, receiver: FramedLink) -> list[Arrival]:
    """Turn both ends until everything has arrived."""
    last = put(sender, 99, Watermark(99))
    arrivals: list[Arrival] = []
    while last not in arrivals:
        sender.flush()
        wait(sender, receiver)
        arrivals += receiver.receive()
        sender.receive()
    arrivals.remove(last)
    return arrivals


def wait(*links: FramedLink) -> None:
    """Wait until one of them can go on."""
    blocked = [link for link in links if link.is_blocked()]
    assert any(select.select(links, blocked, [], 30))


def receive_all(link: FramedLink) -> list[Arrival]:
    """Receive until the link is lost."""
    arrivals: list[Arrival] = []
    with pytest.raises(WorkerLostError, match="the link to the other is lost"):
        while True:
            wait(link)
            arrivals += link.receive()
    return arrivals


@every_kind
@given(data=st.data())
def test_everything_arrives_in_order(data: st.DataObject, links: Links) -> None:
    with links() as (one, other):
        due: list[Arrival] = []
        arrived: list[Arrival] = []
        for _ in range(data.draw(st.integers(1, 8))):
            match data.draw(st.sampled_from(["rows", "many", "watermark", "barrier", "credit", "receive", "flush"])):
                case "rows":
                    rows = data.draw(batches())
                    picks = data.draw(picks_of(rows.num_rows))
                    branches, keys = (data.draw(st.binary(max_size=3)) for _ in range(2))
                    batch = Batch(rows, 0.5, 77_000, branches=branches, keys=keys)
                    due.append(put(one, data.draw(st.integers(0, 2)), batch, picks))
                case "many":
                    count = data.draw(st.integers(1, 30_000))
                    due.append(put(one, 3, Batch(pa.record_batch({"x": np.arange(count), "y": np.arange(count)}))))
                case "watermark":
                    due.append(put(one, 1, Watermark(data.draw(st.integers(-5, 5)))))
                case "barrier":
                    due.append(put(one, 2, Barrier(3)))
                case "credit":
                    one.grant(4, 100)
                case "receive":
                    arrived += other.receive()
                    one.receive()
                case "flush":
                    one.flush()
        arrived += exchange(one, other)
        assert [item for item in arrived if isinstance(item, Arrived)] == due
        one.receive()
        if isinstance(one, RingLink) and isinstance(other, RingLink):
            assert one._writer.room + other._unreported == SMALL_RING_BYTES


@every_kind
def test_both_sides_send_more_than_there_is_room_for_at_once(links: Links) -> None:
    rows = pa.record_batch({"x": np.arange(50_000)})
    with links() as (one, other):
        due = [put(one, 0, Batch(rows)) for _ in range(3)]
        back = [put(other, 0, Batch(rows)) for _ in range(3)]
        there: list[Arrival] = []
        here: list[Arrival] = []
        while one.has_unsent() or other.has_unsent() or len(there) < 3 or len(here) < 3:
            one.flush()
            other.flush()
            wait(one, other)
            there += other.receive()
            here += one.receive()
        assert (there, here) == (due, back)


@every_kind
def test_credit_overtakes_rows_that_wait_for_room(links: Links) -> None:
    with links() as (one, other):
        due = put(one, 0, Batch(pa.record_batch({"x": np.arange(200_000)})))
        one.grant(5, 800)
        arrivals: list[Arrival] = []
        while len(arrivals) < 2:
            one.flush()
            wait(one, other)
            arrivals += other.receive()
            one.receive()
        assert arrivals == [Granted(5, 800), due]


@every_kind
def test_a_row_larger_than_the_room(links: Links) -> None:
    rows = pa.record_batch({"text": ["x" * 500_000, "y"]})
    with links() as (one, other):
        due = put(one, 0, Batch(rows))
        assert exchange(one, other) == [due]


@every_kind
def test_received_rows_are_not_written_over(links: Links) -> None:
    with links() as (one, other):
        due = put(one, 0, Batch(pa.record_batch({"x": np.arange(1_000)})))
        arrivals = exchange(one, other)
        for _ in range(40):
            put(one, 0, Batch(pa.record_batch({"x": np.zeros(1_000, np.int64)})))
            exchange(one, other)
        assert arrivals == [due]


@every_kind
def test_a_schema_may_change(links: Links) -> None:
    with links() as (one, other):
        due = [put(one, 0, Batch(pa.record_batch({"x": [1]}))), put(one, 0, Batch(pa.record_batch({"x": ["a"]})))]
        assert exchange(one, other) == due


@every_kind
def test_an_end_in_order_is_no_loss(links: Links) -> None:
    with links() as (one, other):
        put(one, 0, EndOfStream())
        one.end()
        arrivals: list[Arrival] = []
        while one.has_unsent() or not other.has_ended():
            one.flush()
            wait(one, other)
            arrivals += other.receive()
            one.receive()
        assert arrivals == [Arrived(0, EndOfStream())]
        one._socket.close()
        wait(other)
        assert list(other.receive()) == []


@every_kind
def test_closing_in_order_takes_nothing_back(links: Links) -> None:
    with links() as (one, other):
        # All leaves and waits on its way; TCP takes it back when a side closes that has left something unread.
        one._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        other.end()
        other.flush()
        due = [put(one, 0, Batch(pa.record_batch({"x": np.arange(200_000)})))]
        one.end()
        arrivals: list[Arrival] = []
        is_open = True
        while not other.has_ended():
            if is_open:
                one.receive()
                other.grant(0, 1)
                other.flush()
            if is_open and one.has_ended() and not one.has_unsent():
                one._socket.close()
                is_open = False
            else:
                arrivals += other.receive()
        assert arrivals == due


@every_kind
def test_elements_that_nobody_will_read_are_a_loss_to_a_side_that_was_told_of_the_end(links: Links) -> None:
    with links() as (one, other):
        other.end()
        other.flush()
        while not one.has_ended():
            wait(one)
            one.receive()
        other._socket.close()
        while one._lost is None:
            put(one, 0, Barrier(1))
            one.flush()
        assert receive_all(one) == []


@every_kind
def test_a_side_that_has_ended_reads_on(links: Links) -> None:
    with links() as (one, other):
        other.end()
        other.flush()
        while not one.has_ended():
            wait(one)
            one.receive()
        due = put(one, 0, Batch(pa.record_batch({"x": np.arange(100_000)})))
        assert exchange(one, other) == [due]


@every_kind
def test_a_side_that_ended_and_went_before_all_was_read_is_a_lost_link(links: Links) -> None:
    with links() as (one, other):
        put(one, 0, Batch(pa.record_batch({"x": np.arange(100_000)})))
        other.end()
        other.flush()
        other._socket.close()
        assert receive_all(one) == []


@every_kind
def test_a_link_that_is_lost_takes_no_call_amiss_but_receive(links: Links) -> None:
    with links() as (one, other):
        due = put(other, 0, Batch(pa.record_batch({"x": [1]})))
        other.flush()
        other._socket.close()
        for _ in range(3):
            put(one, 0, Batch(pa.record_batch({"x": np.arange(100_000)})))
            one.flush()
        assert receive_all(one) == [due]
        assert not one.has_unsent() and not one.is_blocked()


@pytest.mark.parametrize("acts", [["send"], []])
@pytest.mark.parametrize("kind", LINKS)
def test_a_killed_process_is_a_lost_link(kind: str, acts: list[str]) -> None:
    tls_here()
    before, mapped = descriptors(), rings_mapped()
    here, there = connected(kind)
    command = [
        sys.executable,
        "-m",
        "tests.engine.transport.dying_end",
        kind,
        str(there.fileno()),
        str(CERTIFICATES),
        *acts,
    ]
    child = subprocess.Popen(command, pass_fds=[there.fileno()])
    there.close()
    link = join(kind, here, "child")
    arrived: list[Arrival] = []
    if acts:
        # What was written of the batch fills what there is room for, the rest was not.
        select.select([link], [], [])
        arrived += link.receive()
    else:
        put(link, 0, Batch(pa.record_batch({"x": np.arange(100_000)})))
        link.flush()
        assert link.has_unsent()
    child.kill()
    child.wait()
    with pytest.raises(WorkerLostError, match="the link to child is lost"):
        while True:
            arrived += link.receive()
    assert arrived == ([Arrived(0, Watermark(1))] if acts else [])
    link.close()
    assert (descriptors(), rings_mapped()) == (before, mapped)


@every_kind
def test_nothing_is_left(links: Links) -> None:
    before, mapped = descriptors(), rings_mapped()
    for _ in range(20):
        with links() as (one, other):
            put(one, 0, Batch(pa.record_batch({"x": np.arange(50_000)})))
            kept = exchange(one, other)
            put(one, 0, Batch(pa.record_batch({"x": np.arange(50_000)})))
        assert len(kept) == 1
    assert (descriptors(), rings_mapped()) == (before, mapped)


def test_shared_memory_cannot_be_cut_off() -> None:
    ring = make_ring(SMALL_RING_BYTES)
    with pytest.raises(PermissionError):
        os.ftruncate(ring.descriptor, 0)
    ring.close()
