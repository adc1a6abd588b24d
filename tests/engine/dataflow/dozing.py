"""Operators that are told of a watermark only when they say that it matters, as it is done with parts of a large state.

A result must not show it. `restarting` does so with operators that also stop and go on.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import strategies as st

from penstock.engine.core.contract import Emission, Operator, OperatorContext
from penstock.engine.core.elements import Batch
from tests.engine.restarts import Restarting, locate_by


def cuts_of(seed: int) -> list[str]:
    """Return what is done before each of many steps: nothing (always for seed 0), now and then or often something."""
    rng = random.Random(seed)
    often = rng.choice([0.2, 0.8]) if seed else 0.0
    return [rng.choice(["restart", "two", "two", "one"]) if rng.random() < often else "" for _ in range(40)]


MANY_CUTS = st.integers(0, 10**6).map(cuts_of)
"""Like `CUTS`, but most examples have some."""


class Dozing(Operator):
    """Hands ``inner`` watermarks from `due_us` on; those before that only with whatever comes next."""

    def __init__(self, inner: Operator) -> None:
        self.inner = inner
        self._missed_us: int | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.inner.open(context)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        self._catch_up()
        return self.inner.process(port, batch)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        due_us = self.inner.due_us()
        if due_us is None or time_us < due_us:
            self._missed_us = time_us
            return ()
        self._missed_us = None
        return self.inner.on_watermark(time_us)

    def output_watermark(self, time_us: int) -> int:
        return self.inner.output_watermark(time_us)

    def timer_ns(self) -> int | None:
        return self.inner.timer_ns()

    def has_pending(self) -> bool:
        return self.inner.has_pending()

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        self._catch_up()
        return self.inner.on_timer(now_ns)

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        self._catch_up()
        return self.inner.on_barrier(epoch)

    def notes(self) -> Any:
        return self.inner.notes()

    def due_us(self) -> int | None:
        return self.inner.due_us()

    def on_end(self) -> Iterable[Emission]:
        self._catch_up()
        return self.inner.on_end()

    def close(self) -> None:
        self.inner.close()

    def _catch_up(self) -> None:
        if self._missed_us is not None:
            emitted = list(self.inner.on_watermark(self._missed_us))
            assert not emitted, "a watermark that was said not to matter let something out"
            self._missed_us = None


def restarting(make: Callable[[], Operator], cuts: Iterable[str], *keys: str) -> Restarting:
    """Return an operator over one input, keyed by these columns, that stops and goes on, and dozes in between."""
    return Restarting(lambda: Dozing(make()), cuts, [locate_by(*keys)])


def parts(operator: Operator) -> list[Any]:
    """Return the operators that now are what `restarting` returned, or the operator itself."""
    if not isinstance(operator, Restarting):
        return [operator]
    return [part.inner for part in operator._inner if isinstance(part, Dozing)]
