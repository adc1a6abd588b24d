"""The input gate: an end may release a watermark and a barrier, rows end idleness, batches that wait are joined."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import START_OF_TIME_US, Barrier, Batch, EndOfStream, Idle, Watermark
from penstock.engine.dataflow.input_gate import GateInput, InputGate
from penstock.engine.transport.in_memory import Channel, join
from tests.engine.loop import channel, rows


def test_an_end_that_releases_a_watermark_and_a_barrier() -> None:
    one = channel(elements=[Watermark(50), Barrier(5), Watermark(60)])
    two = channel(elements=[Watermark(10), EndOfStream()])
    gate = InputGate([GateInput(one.receiver, 0), GateInput(two.receiver, 0)])
    taken = []
    while gate.has_input():
        taken.append(gate.take())
    assert [item[1] for item in taken if item is not None] == [
        Watermark(10), Watermark(50), Barrier(5), Watermark(60),
    ]  # fmt: skip


def test_rows_bring_an_idle_channel_back() -> None:
    one, two = channel(elements=[Watermark(50)]), channel(elements=[Idle()])
    gate = InputGate([GateInput(one.receiver, 0), GateInput(two.receiver, 0)])
    assert gate.take() is None
    assert gate.take() == (0, Watermark(50))
    two.sender.put(rows(1))
    gate.take()
    one.sender.put(Watermark(80))
    assert gate.take() is None
    two.sender.put(Watermark(60))
    assert gate.take() == (0, Watermark(60))


def test_large_batches_that_were_not_cut_are_not_copied() -> None:
    large, small = rows(6), rows(2)
    gate = InputGate([GateInput(channel(elements=[small, large, small, small, large]).receiver, 0)], batch_rows=10)
    taken = [gate.take() for _ in range(4)]
    assert not gate.has_input()
    batches = [item[1] for item in taken if item is not None]
    assert batches[0] is small and batches[1] is large and batches[3] is large
    assert isinstance(batches[2], Batch) and batches[2].rows.num_rows == 4


def test_a_batch_knows_how_far_the_other_ports_are() -> None:
    left = [channel(), channel()]
    right = channel(elements=[Watermark(90)])
    gate = InputGate([GateInput(left[0].receiver, 0), GateInput(left[1].receiver, 0), GateInput(right.receiver, 1)])

    def opposite_us(source: Channel) -> int:
        while gate.has_input():
            gate.take()
        source.sender.put(rows(1))
        taken = gate.take()
        assert taken is not None and isinstance(taken[1], Batch)
        return taken[1].opposite_us

    assert opposite_us(left[0]) == 90
    assert opposite_us(right) == START_OF_TIME_US
    left[0].sender.put(Watermark(20))
    assert opposite_us(right) == START_OF_TIME_US
    # A channel that is idle may yet bring rows that are older than the merged watermark.
    left[1].sender.put(Idle())
    assert opposite_us(right) == START_OF_TIME_US
    left[1].sender.put(Watermark(10))
    assert opposite_us(right) == 10
    left[1].sender.put(EndOfStream())
    assert opposite_us(right) == 20
    assert opposite_us(left[0]) == 90


Sent = tuple[int, int]
"""A row: its channel, and its place there."""


def sent_rows(channel: int, first: int, count: int, keep: float) -> Batch:
    places = pa.array(range(first, first + count), pa.int64())
    names = pa.array([None if place % 3 else f"row {place}" for place in range(first, first + count)], pa.string())
    channels = pa.array([channel] * count, pa.int64())
    rows = pa.record_batch({"channel": channels, "place": places, "name": names})
    branches, keys = (b"\x10" if keep == rate else b"" for rate in (0.25, 0.125))
    return Batch(rows, max(keep, 0.5), branches=branches, keys=keys)


@given(data=st.data(), batch_rows=st.integers(1, 9))
def test_waiting_batches_are_joined_and_watermarks_are_never_early(data: st.DataObject, batch_rows: int) -> None:
    channels = [join(str(number), 1 << 20) for number in range(data.draw(st.integers(1, 3)))]
    ports = [data.draw(st.integers(0, 1)) for _ in channels]
    gate = InputGate([GateInput(item.receiver, port) for item, port in zip(channels, ports, strict=True)], batch_rows)
    places, promised = [0] * len(channels), [0] * len(channels)
    due: dict[Sent, float] = {}
    passed_us = 0

    def take() -> None:
        nonlocal passed_us
        batches = data.draw(st.integers(1, 3))
        taken = gate.take(batches)
        if taken is None:
            return
        port, element = taken
        if isinstance(element, Watermark):
            assert element.time_us > passed_us
            passed_us = element.time_us
            return
        assert isinstance(element, Batch)
        assert element.rows.num_rows <= batches * batch_rows
        for row in element.rows.to_pylist():
            sent = (row["channel"], row["place"])
            assert row["name"] == (None if row["place"] % 3 else f"row {row['place']}")
            assert ports[row["channel"]] == port
            assert due.pop(sent) == (0.25 if element.branches else 0.125 if element.keys else element.keep)
            # A row is not before any watermark that came out ahead of it, and its channel's rows keep their order.
            assert row["place"] >= passed_us
            assert all(place > row["place"] for channel, place in due if channel == row["channel"])

    for _ in range(data.draw(st.integers(1, 40))):
        number = data.draw(st.integers(0, len(channels) - 1))
        match data.draw(st.sampled_from(["rows", "picked", "watermark", "take"])):
            case "take":
                take()
            case "watermark" if places[number] > promised[number]:
                promised[number] = places[number]
                channels[number].sender.put(Watermark(places[number]))
            case kind:
                keep = data.draw(st.sampled_from([1.0, 0.5, 0.25, 0.125]))
                count = data.draw(st.integers(1, batch_rows))
                batch = sent_rows(number, places[number], count, keep)
                picks = np.arange(count, dtype=np.int32)
                if kind == "picked":
                    picks = picks[data.draw(st.integers(0, count - 1)) :]
                due |= {(number, places[number] + int(pick)): keep for pick in picks}
                channels[number].sender.put(batch, picks if kind == "picked" else None)
                places[number] += count
    while gate.has_input():
        take()
    assert not due
    assert passed_us == min(promised)
    assert all(not item.receiver.waiting_bytes and not item.receiver.waiting_rows for item in channels)
    assert all(item.sender.sent_rows == item.receiver.received_rows for item in channels)
    assert all(item.sender.credit_bytes == 1 << 20 for item in channels)


def test_a_barrier_parts_the_batches_on_both_sides_of_it() -> None:
    one = join("one", 1 << 20)
    gate = InputGate([GateInput(one.receiver, 0)], 10)
    for element in (sent_rows(0, 0, 2, 1.0), sent_rows(0, 2, 2, 1.0), Barrier(1), sent_rows(0, 4, 2, 1.0)):
        one.sender.put(element)
    found = []
    while gate.has_input():
        taken = gate.take()
        assert taken is not None
        found.append(taken[1])
    assert [item.rows.num_rows if isinstance(item, Batch) else item for item in found] == [4, Barrier(1), 2]
