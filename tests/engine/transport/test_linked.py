"""Channels over a link: what two halves in two task managers agree on, whatever the order of turns."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import Barrier, Batch
from penstock.engine.transport.batch_body import plain_body
from penstock.engine.transport.halves import ReceivingHalf
from penstock.engine.transport.linked import PORTIONS, LinkedChannels
from penstock.model.errors import WorkerLostError
from tests.engine.transport.linked_pairs import ring_links

CAPACITY_BYTES = 4_000


@given(st.data())
def test_halves_agree(data: st.DataObject) -> None:
    with ring_links() as (one, other):
        here, there = LinkedChannels(one), LinkedChannels(other)
        senders = [here.sender(number, "c", CAPACITY_BYTES) for number in range(2)]
        receivers = [there.receiver(number, "c", CAPACITY_BYTES) for number in range(2)]
        for _ in range(data.draw(st.integers(1, 30))):
            number = data.draw(st.integers(0, 1))
            match data.draw(st.sampled_from(["rows", "picked", "barrier", "take", "here", "there"])):
                case "rows":
                    senders[number].put(Batch(pa.record_batch({"x": np.arange(data.draw(st.integers(0, 400)))})))
                case "picked":
                    picks = np.arange(data.draw(st.integers(1, 50)), dtype=np.int32)
                    senders[number].put(Batch(pa.record_batch({"x": np.arange(50)})), picks)
                case "barrier":
                    senders[number].put(Barrier(1))
                case "take" if len(receivers[number]):
                    receivers[number].take_share(data.draw(st.none() | st.integers(1, 400)))
                case "here":
                    here.turn()
                case "there":
                    there.turn()
        for _ in range(8):
            here.turn()
            there.turn()
        assert (here.sent, here.received) == (there.received, there.sent)
        for sender, receiver in zip(senders, receivers, strict=True):
            assert sender.sent_rows == receiver.received_rows + receiver.waiting_rows
            while len(receiver):
                receiver.take()
        there.turn()
        here.turn()
        for sender in senders:
            assert CAPACITY_BYTES * (PORTIONS - 1) / PORTIONS <= sender.credit_bytes <= CAPACITY_BYTES


def test_what_was_whole_is_brought_before_the_loss_is_told() -> None:
    with ring_links() as (one, other):
        here, there = LinkedChannels(one), LinkedChannels(other)
        sender, receiver = here.sender(0, "c", CAPACITY_BYTES), there.receiver(0, "c", CAPACITY_BYTES)
        told: list[ReceivingHalf] = []
        receiver.on_arrival = lambda: told.append(receiver)
        sender.put(Batch(pa.record_batch({"x": np.arange(10)})))
        here.turn()
        one._socket.close()
        there.turn()
        assert told == [receiver] and receiver.waiting_rows == 10
        with pytest.raises(WorkerLostError):
            there.turn()


@given(sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=6))
def test_state_comes_as_it_was_sent_between_elements_and_is_counted(sizes: list[int]) -> None:
    contents = [pa.py_buffer(bytes([number + 1]) * size) for number, size in enumerate(sizes)]
    with ring_links() as (one, other):
        here, there = LinkedChannels(one), LinkedChannels(other)
        sender, receiver = here.sender(0, "c", CAPACITY_BYTES), there.receiver(0, "c", CAPACITY_BYTES)
        came: list[pa.Buffer] = []
        there.on_state = came.append
        for left, content in zip(reversed(range(len(contents))), contents, strict=True):
            sender.put(Barrier(1))
            here.send_state(plain_body(content), content.size, more=left > 0)
        while there.received < here.sent:
            here.turn()
            there.turn()
            assert there.link.carries_state() == (0 < len(came) < len(contents) or there.link._under_way is not None)
        assert [item.to_pybytes() for item in came] == [item.to_pybytes() for item in contents]
        assert len(receiver) == len(contents)
