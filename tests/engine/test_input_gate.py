"""The input gate: an end may release a watermark and a barrier, rows end idleness."""

from penstock.engine.elements import Barrier, EndOfStream, Idle, Watermark
from penstock.engine.input_gate import GateInput, InputGate
from tests.engine.loop import channel, rows


def test_an_end_that_releases_a_watermark_and_a_barrier() -> None:
    one = channel(elements=[Watermark(50), Barrier(5), Watermark(60)])
    two = channel(elements=[Watermark(10), EndOfStream()])
    gate = InputGate([GateInput(one, 0), GateInput(two, 0)])
    taken = []
    while gate.has_input():
        taken.append(gate.take())
    assert [item[1] for item in taken if item is not None] == [
        Watermark(10), Watermark(50), Barrier(5), Watermark(60),
    ]  # fmt: skip


def test_rows_bring_an_idle_channel_back() -> None:
    one, two = channel(elements=[Watermark(50)]), channel(elements=[Idle()])
    gate = InputGate([GateInput(one, 0), GateInput(two, 0)])
    assert gate.take() is None
    assert gate.take() == (0, Watermark(50))
    two.put(rows(1))
    gate.take()
    one.put(Watermark(80))
    assert gate.take() is None
    two.put(Watermark(60))
    assert gate.take() == (0, Watermark(60))
