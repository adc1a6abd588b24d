"""The input gate at the end of a channel: a watermark and a barrier may both be due."""

from penstock.engine.elements import Barrier, EndOfStream, Watermark
from penstock.engine.input_gate import GateInput, InputGate
from tests.engine.loop import channel


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
