"""The base of operators whose result is a changelog: when they emit what changed."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, Batch


class UpdatingOperator(Operator):
    """Emits changes when their interval of processing time ends, when idle, before a barrier and at the end.

    The constructor sets ``_interval_us`` (None: the job's).
    """

    _interval_us: int | None

    def open(self, context: OperatorContext) -> None:
        """Start with nothing to emit; the first interval begins now."""
        super().open(context)
        self._interval_ns = context.interval_ns(self._interval_us)
        self._emitted_ns = context.clock.monotonic_ns()
        self._oldest_ns: int | None = None

    @abstractmethod
    def has_pending(self) -> bool:
        """Return whether anything changed since the last emission."""

    @abstractmethod
    def _changes(self) -> Iterator[pa.RecordBatch]:
        """Yield the changelog since the last emission, a batch at a time."""

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Emit everything at the end of time."""
        return self._emit() if time_us == END_OF_TIME_US else ()

    def timer_ns(self) -> int | None:
        """Return when the emission interval ends, if anything changed."""
        return self._emitted_ns + self._interval_ns if self.has_pending() else None

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Emit what changed."""
        return self._emit()

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Emit what changed: what was shown before is not part of a checkpoint."""
        return self._emit()

    def due_us(self) -> int | None:
        """Return the end of time if anything changed: no other watermark matters."""
        return END_OF_TIME_US if self.has_pending() else None

    def on_end(self) -> Iterable[Emission]:
        """Emit what changed."""
        return self._emit()

    def _after(self, batch: Batch) -> Iterator[Emission]:
        """Emit, after a batch has been taken in, if the interval has passed."""
        if self.has_pending():
            oldest_ns = self._oldest_ns
            self._oldest_ns = batch.ingest_ns if oldest_ns is None else min(oldest_ns, batch.ingest_ns)
            if self.context.clock.monotonic_ns() - self._emitted_ns >= self._interval_ns:
                yield from self._emit()

    def _emit(self) -> Iterator[Emission]:
        """Emit everything that changed."""
        self._emitted_ns = self.context.clock.monotonic_ns()
        if self.has_pending():
            yield from self._leave(self._changes())
            self._oldest_ns = None

    def _leave(self, changes: Iterator[pa.RecordBatch]) -> Iterator[Emission]:
        """Emit changes, as old as the oldest batch that brought some."""
        for rows in changes:
            yield MAIN, Batch(rows, ingest_ns=self._oldest_ns or 0)
