"""Channels that join a gate, and senders that leave it: watermarks, markers, barriers and the end of what is left."""

from penstock.engine.core.elements import Barrier, Element, EndOfStream, Idle, Left, Reroute, Watermark
from penstock.engine.dataflow.exchange import Broadcast, Forward
from penstock.engine.dataflow.input_gate import GateInput, InputGate
from penstock.engine.transport.in_memory import Channel
from penstock.model.ids import TaskId
from tests.engine.loop import channel, rows

MOVE = Reroute(3, TaskId(1), ((0, 7, 8),))


def gate_of(*channels: Channel, number: int | None = None) -> InputGate:
    return InputGate([GateInput(item.receiver, 0) for item in channels], number=number)


def elements(gate: InputGate) -> list[Element]:
    taken = []
    while gate.has_input():
        taken.append(gate.take())
    return [item[1] for item in taken if item is not None]


def sent(one: Channel) -> list[Element]:
    return [one.receiver.take() for _ in range(len(one.receiver))]


def test_the_watermark_stays_until_a_channel_that_joined_has_brought_one() -> None:
    one, new = channel(elements=[Watermark(10)]), channel()
    gate = gate_of(one)
    assert elements(gate) == [Watermark(10)]
    gate.join(GateInput(new.receiver, 0), last_move=0)
    one.sender.put(Watermark(30))
    assert elements(gate) == []
    new.sender.put(Watermark(20))
    assert elements(gate) == [Watermark(20)]
    new.sender.put(Idle())
    assert elements(gate) == [Watermark(30)]


def test_a_channel_that_joined_brings_barriers_and_no_marker_of_before() -> None:
    one, two, new = channel(), channel(), channel()
    gate = gate_of(one, two, number=1)
    one.sender.put(MOVE)
    assert elements(gate) == []
    gate.join(GateInput(new.receiver, 0), last_move=3)
    two.sender.put(MOVE)
    assert elements(gate) == [MOVE]
    for each in (one, two):
        each.sender.put(Barrier(5))
    assert elements(gate) == []
    new.sender.put(Barrier(5))
    assert elements(gate) == [Barrier(5)]
    later = Reroute(4, TaskId(1), MOVE.groups)
    for each in (one, two):
        each.sender.put(later)
    assert elements(gate) == []
    new.sender.put(later)
    assert elements(gate) == [later]


def test_who_has_left_holds_nobody_and_does_not_end_the_others() -> None:
    one, two = channel(elements=[Watermark(50), Barrier(2)]), channel(elements=[Watermark(10), Left()])
    gate = gate_of(one, two)
    assert elements(gate) == [Watermark(10), Watermark(50), Barrier(2)]
    one.sender.put(Idle())
    assert elements(gate) == [Idle()]
    one.sender.put(EndOfStream())
    assert elements(gate)[-1] == EndOfStream()


def test_who_is_dismissed_by_all_says_that_it_leaves() -> None:
    one, two = channel(elements=[rows(1), Left(dismissed=True)]), channel(elements=[EndOfStream()])
    assert elements(gate_of(one, two))[-1] == Left()


def test_a_receiver_that_joins_is_told_what_holds() -> None:
    first, second, third = channel(), channel(), channel()
    output = Broadcast([first.sender])
    output.send_control(Watermark(7))
    output.send_control(Idle())
    output.join([second.sender], [1])
    assert sent(second) == [Watermark(7), Idle()]
    output.send(rows(2))
    output.send_control(EndOfStream())
    output.join([third.sender], [2])
    # Rows have come since it was idle.
    assert sent(third) == [Watermark(7), EndOfStream()]


def test_the_last_receivers_are_dismissed_and_get_nothing_more() -> None:
    channels = [channel() for _ in range(3)]
    output = Broadcast([item.sender for item in channels])
    output.dismiss([1, 2])
    output.send_control(Watermark(1))
    assert [sent(item) for item in channels] == [[Watermark(1)], [Left(dismissed=True)], [Left(dismissed=True)]]


def test_over_a_forward_edge_the_receiver_goes_with_its_producer() -> None:
    one = channel()
    Forward([one.sender]).send_control(Left())
    assert sent(one) == [Left(dismissed=True)]


def test_who_goes_leaves_a_gap_in_the_numbers() -> None:
    channels = [channel() for _ in range(3)]
    output = Broadcast([item.sender for item in channels])
    output.dismiss([0])
    late = channel()
    output.join([late.sender], [5])
    assert list(output.by_number) == [1, 2, 5]
    output.send_control(Watermark(1))
    assert sent(late) == sent(channels[1]) == [Watermark(1)] and sent(channels[0]) == [Left(dismissed=True)]
