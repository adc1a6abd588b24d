"""Rows that several producers write to one place for their receiver: nothing overtakes a barrier or a watermark."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.elements import Barrier, Batch, EndOfStream, Watermark
from penstock.engine.exchange import Hash
from penstock.engine.input_gate import GateInput, InputGate
from penstock.engine.transport.in_memory import Channel
from penstock.engine.transport.shared_rows import SharedRows
from penstock.model.key_groups import assign

BATCH_ROWS = 8


def batch(producer: int, first: int, count: int, epoch: int, keep: float, text: bool) -> Batch:
    places = np.arange(first, first + count)
    columns = {
        "place": places,
        "producer": np.full(count, producer),
        "epoch": np.full(count, epoch),
        "half": pa.array(places / 2),
    }
    if text:
        columns["half"] = pa.array([None if place % 3 else place / 2 for place in places], pa.float64())
    return Batch(pa.record_batch(columns), keep)


class Edge:
    """Producers, and receivers with their gates."""

    def __init__(self, producers: int, receivers: int) -> None:
        shared = [SharedRows(BATCH_ROWS) for _ in range(receivers)]
        self.channels = [[Channel(f"{i} {j}", 1 << 20, shared[j]) for j in range(receivers)] for i in range(producers)]
        owners = assign(64, receivers)
        self.outputs = [Hash(mine, lambda rows: rows.select(["place"]), [pa.int64()], owners) for mine in self.channels]
        self.gates = [
            InputGate([GateInput(mine[j], 0) for mine in self.channels], BATCH_ROWS) for j in range(receivers)
        ]


@given(data=st.data())
def test_rows_keep_their_place_between_barriers_and_before_watermarks(data: st.DataObject) -> None:
    producers, receivers = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    # Of one header, rows move along when their memory is full.
    headers = data.draw(st.integers(1, 2))
    edge = Edge(producers, receivers)
    places, epochs = [0] * producers, [0] * producers
    ended = [False] * producers
    seen: list[tuple[int, int]] = []
    passed = [-1] * receivers
    last = [[-1] * producers for _ in range(receivers)]
    epoch = [0] * receivers
    over: set[int] = set()

    def take(receiver: int) -> None:
        taken = edge.gates[receiver].take()
        if taken is None:
            return
        element = taken[1]
        if isinstance(element, Watermark):
            assert element.time_us > passed[receiver]
            passed[receiver] = element.time_us
        elif isinstance(element, Barrier):
            assert element.epoch == epoch[receiver] + 1
            epoch[receiver] += 1
        elif isinstance(element, EndOfStream):
            over.add(receiver)
        else:
            assert isinstance(element, Batch)
            assert 0 < element.rows.num_rows <= BATCH_ROWS
            element.rows.validate(full=True)
            for row in element.rows.to_pylist():
                assert row["place"] > last[receiver][row["producer"]]
                last[receiver][row["producer"]] = row["place"]
                # A producer's watermark is the place it has reached, and no row came after the one that has come out.
                assert row["place"] >= passed[receiver]
                assert row["epoch"] == epoch[receiver]
                assert row["half"] in (None, row["place"] / 2)
                assert element.keep == 1 / (1 + row["place"] % headers)
                seen.append((row["producer"], row["place"]))

    for _ in range(data.draw(st.integers(1, 80))):
        producer = data.draw(st.integers(0, producers - 1))
        what = data.draw(
            st.sampled_from(["rows", "rows", "rows", "watermark", "barrier", "take", "take", "take", "end"])
        )
        if what == "take":
            take(data.draw(st.integers(0, receivers - 1)))
        elif ended[producer]:
            continue
        elif what == "rows":
            count, text = data.draw(st.integers(1, BATCH_ROWS)), data.draw(st.booleans())
            # Rows of one batch have one header: every second place if there are two.
            start = places[producer]
            sent = batch(producer, start, count, epochs[producer], 1 / (1 + start % headers), text)
            mine = sent.rows.take(pa.array(np.arange(0, count, headers)))
            edge.outputs[producer].send(sent.with_rows(mine))
            places[producer] += count + 1
        elif what == "watermark":
            edge.outputs[producer].send_control(Watermark(places[producer]))
        elif what == "barrier":
            if epochs[producer] - min(e for e, gone in zip(epochs, ended, strict=True) if not gone) < 2:
                epochs[producer] += 1
                edge.outputs[producer].send_control(Barrier(epochs[producer]))
        elif what == "end":
            edge.outputs[producer].send_control(EndOfStream(drained=False))
            ended[producer] = True
    most = max(epochs)
    for producer in range(producers):
        while not ended[producer] and epochs[producer] < most:
            epochs[producer] += 1
            edge.outputs[producer].send_control(Barrier(epochs[producer]))
        if not ended[producer]:
            edge.outputs[producer].send_control(EndOfStream(drained=False))
    for receiver in range(receivers):
        while edge.gates[receiver].has_input():
            take(receiver)
    assert over == set(range(receivers))
    sent_rows = sum(channel.sent_rows for mine in edge.channels for channel in mine)
    assert len(seen) == len(set(seen)) == sent_rows
    for mine in edge.channels:
        for channel in mine:
            assert (channel.waiting_rows, channel.waiting_bytes, channel.waiting_signals) == (0, 0, 0)
            assert channel.received_rows == channel.sent_rows
