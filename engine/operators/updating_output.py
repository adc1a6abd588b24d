"""The changelog that an updating aggregate emits: when, and from which changes."""

from collections.abc import Callable, Iterator
from typing import TypeVar
from weakref import WeakMethod

import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.operators.changelog import changes_between
from penstock.engine.operators.pending_changes import Changes, PendingChanges
from penstock.state.keys.arrays import Mask
from penstock.state.store import Slots

T = TypeVar("T")


class UpdatingOutput:
    """Emits what changed at most once per interval of processing time, or when the loop is idle.

    ``show`` returns the result rows of slots, ``alive`` says which slots have one. ``settle`` is called with slots
    whose changes have been emitted. They are methods of what holds the output, to which it does not refer for its
    part: only the collector would free both.
    """

    def __init__(
        self,
        context: OperatorContext,
        interval_us: int | None,
        show: Callable[[Slots], pa.RecordBatch],
        alive: Callable[[Slots], Mask],
        settle: Callable[[Slots], None] | None = None,
    ) -> None:
        """Start with nothing to emit; the first interval begins now."""
        self.pending = PendingChanges()
        self._clock = context.clock
        self._batch_rows = context.batch_rows
        self._interval_ns = context.interval_ns(interval_us)
        self._show, self._alive = _weak(show), _weak(alive)
        self._settle = None if settle is None else _weak(settle)
        self._emitted_ns = self._clock.monotonic_ns()
        self._ingest_ns: int | None = None

    def after(self, batch: Batch) -> Iterator[Emission]:
        """Emit, after a batch has been folded, if the interval has passed."""
        if self.pending:
            known = self._ingest_ns
            self._ingest_ns = batch.ingest_ns if known is None else min(known, batch.ingest_ns)
            if self._clock.monotonic_ns() - self._emitted_ns >= self._interval_ns:
                yield from self.emit()

    def due_ns(self) -> int | None:
        """Return when the interval ends, if anything changed."""
        return self._emitted_ns + self._interval_ns if self.pending else None

    def emit(self) -> Iterator[Emission]:
        """Emit everything that changed."""
        self._emitted_ns = self._clock.monotonic_ns()
        if self.pending:
            yield from self._emit(self.pending.take())
            self._ingest_ns = None

    def emit_only(self, slots: Slots) -> Iterator[Emission]:
        """Emit what changed in these slots."""
        yield from self._emit(self.pending.take_only(slots))

    def _emit(self, changes: Changes) -> Iterator[Emission]:
        alive = self._alive(changes.touched)
        for rows in changes_between(changes, alive, self._show, self._batch_rows):
            yield MAIN, Batch(rows, ingest_ns=self._ingest_ns or 0)
        if self._settle is not None:
            self._settle(changes.touched)


def _weak(method: Callable[[Slots], T]) -> Callable[[Slots], T]:
    """Return what calls a method without keeping its object."""
    reference = WeakMethod(method)

    def call(slots: Slots) -> T:
        alive = reference()
        assert alive is not None
        return alive(slots)

    return call
