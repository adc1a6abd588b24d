"""Keep rates that a test sets on the attempts of a job that runs, as a controller would: between two of their steps."""

import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from penstock.engine.executors.embedded_attempt import EmbeddedAttempt
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.model.keep_rates import KeepRates

Rates = SimpleQueue[KeepRates]
"""Rates that wait to be set, in order."""


def set_by_attempts(monkeypatch: pytest.MonkeyPatch) -> Rates:
    """Return a queue that attempts of this process take rates from: one before each step, the first before any."""
    waiting: Rates = SimpleQueue()

    def next_rates() -> KeepRates | None:
        return None if waiting.empty() else waiting.get_nowait()

    for kind in (EmbeddedAttempt, ManagedAttempt):
        monkeypatch.setattr(kind, "proceed", _with_rates(kind.proceed, next_rates))
    return waiting


def set_by_clock(rates: Callable[[], KeepRates], wait_s: Callable[[], float]) -> None:
    """Let attempts of this process take other rates from now on, the first before any step, then after each wait."""
    due_s = 0.0

    def next_rates() -> KeepRates | None:
        nonlocal due_s
        if time.monotonic() < due_s:
            return None
        due_s = time.monotonic() + wait_s()
        return rates()

    for kind in (EmbeddedAttempt, ManagedAttempt):
        kind.proceed = _with_rates(kind.proceed, next_rates)  # type: ignore[method-assign]


def _with_rates(proceed: Callable[..., Any], next_rates: Callable[[], KeepRates | None]) -> Callable[..., Any]:
    def proceed_with_rates(attempt: Any, over: Callable[[], bool], *arguments: Any) -> Any:
        def set_and_look() -> bool:
            rates = next_rates()
            if rates is not None:
                attempt.set_keep(rates)
            return over()

        return proceed(attempt, set_and_look, *arguments)

    return proceed_with_rates
