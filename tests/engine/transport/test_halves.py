"""The halves of a channel: what either counts, alone, and what they agree on once all that was sent was taken."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import Barrier, Batch, Element, Watermark
from penstock.engine.transport.halves import FullSenders, ReceivingHalf, SendingHalf, WaitingInput
from penstock.engine.transport.in_memory import join
from penstock.engine.transport.picked_rows import Picks

CAPACITY_BYTES = 400

Sent = tuple[Element, Picks | None, int, int]


def batch(rows: int) -> Batch:
    """Return a batch of rows of 8 bytes."""
    return Batch(pa.record_batch({"x": np.arange(rows)}))


def test_a_sending_half_knows_its_credit_without_the_other() -> None:
    sent: list[Sent] = []
    sender = SendingHalf("away", 100, lambda *element: sent.append(element))
    granted: list[int] = []
    sender.on_credit = lambda: granted.append(sender.credit_bytes)
    sender.put(batch(10))
    assert sender.has_room()
    sender.put(batch(10), np.array([1, 2, 3, 4], np.int32))
    assert not sender.has_room() and sender.sent_rows == 14
    sender.put(Barrier(1))
    assert [(rows, size) for _, _, rows, size in sent] == [(10, 80), (4, 32), (0, 0)]
    sender.add_credit(80)
    assert sender.has_room() and granted == [68]


def test_a_receiving_half_returns_the_bytes_of_what_was_taken() -> None:
    receiver = ReceivingHalf("away")
    returned: list[int] = []
    receiver.join(returned.append)
    receiver.accept(batch(10), None, 10, 80)
    receiver.accept(Barrier(1), None, 0, 0)
    waiting = WaitingInput()
    receiver.count_in(waiting)
    assert (len(receiver), receiver.waiting_rows, receiver.waiting_bytes) == (2, 10, 80)
    assert (waiting.rows, waiting.bytes, waiting.signals) == (10, 80, 1)
    receiver.take_share(4)
    assert (returned, receiver.received_rows, receiver.waiting_bytes) == ([32], 4, 48)
    receiver.take_share()
    receiver.take_share()
    assert (sum(returned), receiver.received_rows) == (80, 10)
    assert (waiting.rows, waiting.bytes, waiting.signals) == (0, 0, 0)


def test_elements_that_arrive_later_count_against_the_credit_at_once() -> None:
    """The halves of a channel between two processes: what is under way has left one and not come to the other."""
    under_way: list[Sent] = []
    receiver = ReceivingHalf("link")
    sender = SendingHalf("link", 100, lambda *element: under_way.append(element))
    receiver.join(sender.add_credit)
    sender.put(batch(20))
    assert not sender.has_room() and not len(receiver)
    receiver.accept(*under_way.pop())
    assert not sender.has_room() and len(receiver) == 1
    receiver.take()
    assert sender.has_room() and sender.credit_bytes == 100


@given(st.data())
def test_joined_halves_agree(data: st.DataObject) -> None:
    channel = join("both", CAPACITY_BYTES)
    sender, receiver = channel.sender, channel.receiver
    full, waiting = FullSenders(), WaitingInput()
    sender.join(full)
    receiver.count_in(waiting)
    for _ in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["rows", "picked", "watermark", "barrier", "take"])):
            case "rows":
                sender.put(batch(data.draw(st.integers(0, 60))))
            case "picked":
                rows = data.draw(st.integers(1, 60))
                sender.put(batch(rows), np.arange(data.draw(st.integers(1, rows)), dtype=np.int32))
            case "watermark":
                sender.put(Watermark(1))
            case "barrier":
                sender.put(Barrier(1))
            case "take" if len(receiver):
                receiver.take_share(data.draw(st.none() | st.integers(1, 60)))
        assert sender.credit_bytes == CAPACITY_BYTES - receiver.waiting_bytes
        assert sender.has_room() == (receiver.waiting_bytes < CAPACITY_BYTES) == (not full.count)
        assert (waiting.rows, waiting.bytes) == (receiver.waiting_rows, receiver.waiting_bytes)
        assert sender.sent_rows == receiver.received_rows + receiver.waiting_rows
    while len(receiver):
        receiver.take()
    assert (sender.credit_bytes, receiver.waiting_rows) == (CAPACITY_BYTES, 0)
    assert (full.count, waiting.rows, waiting.bytes, waiting.signals) == (0, 0, 0, 0)
