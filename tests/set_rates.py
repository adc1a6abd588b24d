"""Keep rates that a test sets on the attempts of a job that runs, as a controller would: between two of their steps."""

import contextlib
from collections.abc import Callable
from queue import Empty, SimpleQueue
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
    for kind in (EmbeddedAttempt, ManagedAttempt):
        monkeypatch.setattr(kind, "proceed", _with_rates(kind.proceed, waiting))
    return waiting


def _with_rates(proceed: Callable[..., Any], waiting: Rates) -> Callable[..., Any]:
    def proceed_with_rates(attempt: Any, over: Callable[[], bool], *arguments: Any) -> Any:
        def set_and_look() -> bool:
            with contextlib.suppress(Empty):
                attempt.set_keep(waiting.get_nowait())
            return over()

        return proceed(attempt, set_and_look, *arguments)

    return proceed_with_rates
