"""The I/O thread: real coroutines, cancellation, and ends that nothing may hold up."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from penstock.engine.core import async_calls
from penstock.engine.core.async_calls import Answer, IoThread

LONG_S = 60.0
"""Longer than anything here takes."""


class Thread:
    """An I/O thread whose wake-ups can be waited for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.woken = threading.Event()
        self.calls = IoThread(function, self.woken.set)

    def answers(self, count: int) -> list[Answer]:
        """Wait for so many answers and return them by ticket."""
        found: list[Answer] = []
        while len(found) < count:
            assert self.woken.wait(LONG_S)
            self.woken.clear()
            found += self.calls.completed()
        return sorted(found, key=lambda answer: answer[0])


@pytest.fixture
def made() -> Iterator[Callable[[Callable[..., Any]], Thread]]:
    threads: list[Thread] = []

    def make(function: Callable[..., Any]) -> Thread:
        threads.append(Thread(function))
        return threads[-1]

    yield make
    for thread in threads:
        thread.calls.stop()


Made = Callable[[Callable[..., Any]], Thread]


def test_answers_and_errors_come_back(made: Made) -> None:
    async def halve(x: int) -> int:
        assert asyncio.get_running_loop().is_running()
        await asyncio.sleep(0)
        if x % 2:
            raise ValueError(f"{x} is odd")
        return x // 2

    thread = made(halve)
    thread.calls.submit([(7, (4,)), (8, (5,))])
    (even, odd) = thread.answers(2)
    assert even == (7, 2, None)
    assert odd[:2] == (8, None)
    assert odd[2] is not None
    assert odd[2].startswith("Traceback")
    assert odd[2].rstrip().endswith("ValueError: 5 is odd")


def test_each_call_has_a_context_of_its_own(made: Made) -> None:
    seen: ContextVar[int] = ContextVar("seen", default=0)

    async def function(x: int) -> int:
        before = seen.get()
        seen.set(x)
        return before

    thread = made(function)
    thread.calls.submit([(ticket, (1,)) for ticket in range(3)])
    assert [result for _, result, _ in thread.answers(3)] == [0, 0, 0]


def test_a_cancelled_call_is_not_answered(made: Made) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def function(x: int) -> int:
        if x:
            return x
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return x

    thread = made(function)
    thread.calls.submit([(1, (0,))])
    assert begun.wait(LONG_S)
    thread.calls.cancel([1, 2])
    thread.calls.submit([(2, (5,))])
    assert thread.answers(1) == [(2, 5, None)]
    assert ended.wait(LONG_S)


def test_a_coroutine_that_cancels_itself_failed(made: Made) -> None:
    async def function() -> None:
        raise asyncio.CancelledError("myself")

    thread = made(function)
    thread.calls.submit([(1, ())])
    ((_, _, error),) = thread.answers(1)
    assert error is not None
    assert "myself" in error


def test_what_ends_programs_ends_the_job(made: Made) -> None:
    async def function() -> None:
        raise SystemExit(3)

    thread = made(function)
    thread.calls.submit([(1, ())])
    with pytest.raises(SystemExit):
        thread.answers(1)


def test_a_stop_cancels_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_calls, "STOP_S", LONG_S)
    begun, ended = threading.Event(), threading.Event()

    async def function() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    thread = Thread(function)
    thread.calls.submit([(1, ())])
    assert begun.wait(LONG_S)
    thread.calls.stop()
    assert ended.is_set()
    assert not [item for item in threading.enumerate() if item.name == "penstock-async"]
    thread.calls.stop()
    assert not thread.calls.ready()


def test_a_stop_without_a_call_starts_nothing() -> None:
    IoThread(asyncio.sleep, lambda: None).stop()


def test_a_coroutine_that_ignores_its_cancellation_does_not_hold_up_the_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(async_calls, "STOP_S", 0.05)
    begun, release = threading.Event(), threading.Event()

    async def stubborn() -> None:
        begun.set()
        while not release.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    thread = Thread(stubborn)
    thread.calls.submit([(1, ())])
    assert begun.wait(LONG_S)
    with caplog.at_level(logging.WARNING):
        thread.calls.stop()
    assert "goes on although it was cancelled" in caplog.text
    release.set()
    for item in threading.enumerate():
        if item.name == "penstock-async":
            item.join(LONG_S)
