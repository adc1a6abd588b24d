"""Waits end by descriptors, by wake-ups before and during them, from threads and from signal handlers."""

import os
import signal
import socket
import threading

import pytest

from penstock.engine.transport.waiting import Waiter
from tests.engine.transport.linked_pairs import descriptors


def test_a_wait_ends_by_a_descriptor() -> None:
    waiter = Waiter()
    one, other = socket.socketpair()
    waiter.add(one.fileno())
    assert list(waiter.wait(0)) == []
    other.send(b"x")
    assert list(waiter.wait(None)) == [one.fileno()]
    waiter.remove(one.fileno())
    assert list(waiter.wait(0)) == []
    for each in (one, other, waiter):
        each.close()


def test_wake_ups_before_a_wait_end_one() -> None:
    waiter = Waiter()
    waiter.wake()
    waiter.wake()
    assert list(waiter.wait(None)) == []
    one, other = socket.socketpair()
    waiter.add(one.fileno())
    other.send(b"x")
    waiter.wake()
    # The wake-up of before is spent, this one is spent together with the descriptor.
    assert list(waiter.wait(None)) == [one.fileno()]
    for each in (one, other, waiter):
        each.close()


def test_a_thread_ends_a_wait() -> None:
    waiter = Waiter()
    turns: list[int] = []
    rounds = 200

    def wake() -> None:
        for number in range(rounds):
            turns.append(number)
            waiter.wake()

    thread = threading.Thread(target=wake)
    thread.start()
    while len(turns) < rounds:
        waiter.wait(None)
    thread.join()
    waiter.close()


def test_a_signal_handler_ends_a_wait() -> None:
    waiter = Waiter()
    before = signal.signal(signal.SIGALRM, lambda *_: waiter.wake())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        waiter.wait(None)
        # As many as there can be.
        os.eventfd_write(waiter._woken, (1 << 64) - 2)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        waiter.wait(None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        waiter.close()


@pytest.mark.parametrize("closes", [1, 2])
def test_nothing_is_left(closes: int) -> None:
    before = descriptors()
    waiter = Waiter()
    for _ in range(closes):
        waiter.close()
    waiter.wake()
    assert descriptors() == before
