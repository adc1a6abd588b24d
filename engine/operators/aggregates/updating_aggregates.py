"""The base of updating aggregates: times at which they emit their changes, and windows of processing time.

Count windows and reduce build on `UpdatingAggregate`; `group_aggregate` and `session_aggregate` on `UpdatingWindows`.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from penstock.engine.core.contract import Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.operators.processing_clock import ProcessingClock
from penstock.engine.operators.updating_output import UpdatingOutput


class UpdatingAggregate(Operator):
    """Emits changes when their interval ends, when idle, before a barrier and at the end; `open` makes ``_output``."""

    _output: UpdatingOutput

    def timer_ns(self) -> int | None:
        """Return when the emission interval ends, if anything changed."""
        return self._output.due_ns()

    def has_pending(self) -> bool:
        """Return whether anything changed since the last emission of updates."""
        return bool(self._output.pending)

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Emit what changed."""
        return self._output.emit()

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Emit what changed: what was shown before is not part of a checkpoint."""
        return self._output.emit()

    def on_end(self) -> Iterable[Emission]:
        """Emit what changed."""
        return self._output.emit()


class UpdatingWindows(UpdatingAggregate):
    """Results that follow their rows, in windows that may be of processing time; the constructor sets ``_by_clock``."""

    _by_clock: bool

    def open(self, context: OperatorContext) -> None:
        """Start at the beginning of time, or where the watermark was; what is kept may need `_set_timer` then."""
        super().open(context)
        self._clock = ProcessingClock(context.clock, context.restored)
        event_us = context.earliest("watermark_us", START_OF_TIME_US)
        self._watermark_us = self._clock.latest_us if self._by_clock else event_us
        self._over_ns: int | None = None

    def timer_ns(self) -> int | None:
        """Return when the emission interval ends, if anything changed, or a window by processing time is over."""
        due_ns = super().timer_ns()
        if due_ns is None or self._over_ns is None:
            return due_ns or self._over_ns
        return min(due_ns, self._over_ns)

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Emit what changed, and end the windows that are over by processing time."""
        yield from super().on_timer(now_ns)
        if self._by_clock:
            yield from self._advance(self._clock.now_us())
            self._set_timer()

    def notes(self) -> Notes:
        """Return how far time has come."""
        return {"watermark_us": self._watermark_us, **self._clock.notes()}

    def due_us(self) -> int | None:
        """Return when the next window is over; without windows of event time only the end matters."""
        over_us = self._next_over_us()
        if over_us is None:
            return END_OF_TIME_US if self._output.pending else None
        return END_OF_TIME_US if self._by_clock else min(over_us, END_OF_TIME_US)

    @abstractmethod
    def _next_over_us(self) -> int | None:
        """Return when the next window is over, or a time before that; None when there is none."""

    @abstractmethod
    def _advance(self, watermark_us: int) -> Iterator[Emission]:
        """End the windows that are over at this time."""

    def _set_timer(self) -> None:
        """Note when `on_timer` is to end the next window of processing time."""
        due_us = self._next_over_us()
        self._over_ns = None if due_us is None else self._clock.due_ns(due_us)
