"""Delivery over links that lose, repeat, delay and reorder."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.executors.managers.delivery import (
    HEARTBEAT_NS,
    LONGEST_RESEND_NS,
    RESEND_NS,
    WINDOW,
    Delivery,
    Ends,
    Envelope,
)


def pair(now_ns: int = 0) -> tuple[Delivery, Delivery]:
    return Delivery(Ends("job", 3, "head", "tm-0"), now_ns), Delivery(Ends("job", 3, "tm-0", "head"), now_ns)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.7), st.floats(0.0, 0.5))
def test_each_message_arrives_once_and_in_order_whatever_the_link_does(seed: int, loss: float, repeat: float) -> None:
    dice = np.random.default_rng(seed)
    ends = pair()
    sent: list[list[bytes]] = [[], []]
    received: list[list[bytes]] = [[], []]
    under_way: list[tuple[int, Envelope]] = []

    def give(receiver: int, envelope: Envelope, fair: bool) -> None:
        if fair or dice.random() >= loss:
            under_way.append((receiver, envelope))
            if dice.random() < repeat:
                under_way.append((receiver, envelope))

    now_ns = 0
    for _ in range(60):
        sender = int(dice.integers(2))
        for _ in range(int(dice.integers(4))):
            body = b"%d" % len(sent[sender])
            sent[sender].append(body)
            give(1 - sender, ends[sender].send(body, now_ns), fair=False)
        for _ in range(int(dice.integers(len(under_way) + 1))):
            receiver, envelope = under_way.pop(int(dice.integers(len(under_way))))
            received[receiver] += ends[receiver].receive(envelope, now_ns)
        now_ns += int(dice.integers(RESEND_NS))
        for end in (0, 1):
            for envelope in ends[end].due(now_ns):
                give(1 - end, envelope, fair=False)
    while any(end.waiting for end in ends) or under_way:
        for receiver, envelope in under_way:
            received[receiver] += ends[receiver].receive(envelope, now_ns)
        under_way.clear()
        now_ns = max(now_ns, min(end.due_ns() for end in ends))
        if any(end.waiting for end in ends):
            for end in (0, 1):
                for envelope in ends[end].due(now_ns):
                    give(1 - end, envelope, fair=True)
    assert received[1] == sent[0]
    assert received[0] == sent[1]


def test_what_is_of_another_job_run_or_link_is_dropped_and_counted() -> None:
    head, manager = pair()
    foreign = [
        Delivery(Ends(*ends), 0).send(b"x", 0)
        for ends in (
            ("other", 3, "head", "tm-0"),
            ("job", 2, "head", "tm-0"),
            ("job", 3, "tm-1", "tm-0"),
            ("job", 3, "head", "tm-1"),
        )
    ]
    assert [manager.receive(envelope, 5) for envelope in foreign] == [[]] * 4
    assert manager.dropped == {"of another run or link": 4}
    assert manager.heard_ns == 0
    assert manager.receive(head.send(b"y", 0), 5) == [b"y"]


def test_a_message_is_sent_again_ever_more_rarely_until_it_is_acknowledged() -> None:
    head, manager = pair()
    first = head.send(b"x", 0)
    times = []
    now_ns = 0
    while len(times) < 7:
        now_ns = head.due_ns()
        if any(envelope.sequence for envelope in head.due(now_ns)):
            times.append(now_ns)
    pauses = [after - before for before, after in zip([0, *times], times, strict=False)]
    assert pauses[:4] == [RESEND_NS, 2 * RESEND_NS, 4 * RESEND_NS, 8 * RESEND_NS]
    assert max(pauses) == LONGEST_RESEND_NS
    assert manager.receive(first, now_ns) == [b"x"]
    (answer,) = manager.due(now_ns)
    assert head.receive(answer, now_ns) == []
    assert head.waiting == 0
    head.send(b"y", now_ns)
    assert head.due_ns() == now_ns + RESEND_NS


def test_a_silent_end_gives_a_sign_of_life() -> None:
    head, manager = pair()
    assert head.due(HEARTBEAT_NS - 1) == []
    (sign,) = head.due(HEARTBEAT_NS)
    assert manager.receive(sign, HEARTBEAT_NS + 7) == []
    assert manager.heard_ns == HEARTBEAT_NS + 7
    assert head.due(HEARTBEAT_NS) == []
    # A sign of life is not acknowledged: two idle ends would answer each other for ever.
    assert manager.due_ns() == HEARTBEAT_NS


def test_what_is_kept_ahead_of_a_lost_message_is_bounded() -> None:
    head, manager = pair()
    envelopes = [head.send(b"%d" % number, 0) for number in range(WINDOW + 5)]
    for envelope in envelopes[1:]:
        assert manager.receive(envelope, 0) == []
    assert manager.dropped == {"too far ahead": 5}
    assert len(manager.receive(envelopes[0], 0)) == WINDOW
