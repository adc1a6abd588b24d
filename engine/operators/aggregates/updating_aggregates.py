"""The bases of aggregates: changes of slots, rows in order of event time, and windows of event or processing time."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.aggregate_input import AggregateInput
from penstock.engine.operators.aggregates.aggregate_schema import AggregatePlan
from penstock.engine.operators.ordered_rows import OrderedRows
from penstock.engine.operators.processing_clock import ProcessingClock
from penstock.engine.operators.updating_operator import UpdatingOperator
from penstock.engine.operators.updating_output import UpdatingOutput
from penstock.state.keys.arrays import Ints
from penstock.state.store import Slots
from penstock.state.tables.grouping import KeyGrouper


class UpdatingAggregate(UpdatingOperator):
    """Emits changes of the slots of a table; `open` makes ``_output``."""

    _output: UpdatingOutput

    def has_pending(self) -> bool:
        """Return whether anything changed since the last emission of updates."""
        return bool(self._output.pending)

    def _changes(self) -> Iterator[pa.RecordBatch]:
        return self._output.changes()


class OrderedAggregate(UpdatingAggregate):
    """Folds rows in order of event time: they wait until the watermark, less the lateness, has passed them.

    The constructor sets the rows' ``_fields``, ``_lateness_us``, and whether results are ``_updating``.
    """

    _fields: pa.Schema
    _lateness_us: int
    _updating: bool

    def open(self, context: OperatorContext) -> None:
        """Open the waiting rows."""
        super().open(context)
        self._waiting = OrderedRows(context.state, "rows", self._fields, context.locate_port(0))
        self._grouper = KeyGrouper()
        self._passed_us = context.earliest("passed_us", START_OF_TIME_US)
        self._ingest_ns = 0

    def output_watermark(self, time_us: int) -> int:
        """Hold back by the lateness, and by the microsecond that a result may be older than what ends its window.

        Updates have no event time, and nothing is held back.
        """
        if self._updating:
            return time_us
        passed_us = self._passed(time_us)
        return passed_us if passed_us in (START_OF_TIME_US, END_OF_TIME_US) else passed_us - 1

    def notes(self) -> Notes:
        """Return how far time has come."""
        return {"passed_us": self._passed_us}

    @abstractmethod
    def _show(self, slots: Slots) -> pa.RecordBatch:
        """Return the results of slots."""

    @abstractmethod
    def _forget(self, slots: Slots) -> None:
        """Drop slots, of which nothing is pending."""

    def _release(self, time_us: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the watermark has passed now, in order of time."""
        self._passed_us = max(self._passed_us, self._passed(time_us))
        for rows, _ in self._waiting.release(self._passed_us, self.context.batch_rows):
            yield rows

    def _close(self, slots: Slots) -> Iterator[Emission]:
        """Emit the results of windows that are over, or with updates their last changes, and forget them."""
        if not len(slots):
            return
        if self._updating:
            yield from self._leave(self._output.changes_of(slots))
            self._forget(slots)
            return
        step = self.context.batch_rows
        for start in range(0, len(slots), step):
            part = slots[start : start + step]
            yield MAIN, Batch(self._show(part), ingest_ns=self._ingest_ns)
            self._forget(part)

    def _passed(self, watermark_us: int) -> int:
        if watermark_us in (START_OF_TIME_US, END_OF_TIME_US):
            return watermark_us
        return max(START_OF_TIME_US, watermark_us - self._lateness_us)


class ClockedWindows(Operator):
    """Windows that may be of processing time, which timers end.

    The constructor sets whether they are (``_by_clock``), and whether event times decide the windows (``_by_event``).
    """

    _plan: AggregatePlan
    _input: AggregateInput
    _by_clock: bool
    _by_event: bool

    def open(self, context: OperatorContext) -> None:
        """Start at the beginning of time, or where the watermark was; what is kept may need `_set_timer` then."""
        super().open(context)
        self._clock = ProcessingClock(context.clock, context.restored)
        event_us = context.earliest("watermark_us", START_OF_TIME_US)
        self._watermark_us = self._clock.latest_us if self._by_clock else event_us
        self._over_ns: int | None = None
        self._ingest_ns = 0

    def timer_ns(self) -> int | None:
        """Return when the next window by processing time is over."""
        return self._over_ns

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """End the windows that are over by processing time."""
        if self._by_clock:
            yield from self._advance(self._clock.now_us())
            self._set_timer()

    def notes(self) -> Notes:
        """Return how far time has come."""
        return {"watermark_us": self._watermark_us, **self._clock.notes()}

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

    def _times(self, rows: pa.RecordBatch) -> tuple[Ints, Ints | None]:
        """Return the times that decide the windows, and the event times if aggregates look at them."""
        times_us = self._input.times_us(rows) if self._by_event or self._plan.timed else None
        at_us = np.full(rows.num_rows, self._watermark_us) if not self._by_event or times_us is None else times_us
        return at_us, times_us if self._plan.timed else None


class UpdatingWindows(UpdatingAggregate, ClockedWindows):
    """Results that follow their rows, in windows that may be of processing time."""

    def timer_ns(self) -> int | None:
        """Return when the emission interval ends, if anything changed, or a window by processing time is over."""
        due_ns = (UpdatingAggregate.timer_ns(self), ClockedWindows.timer_ns(self))
        return min((time_ns for time_ns in due_ns if time_ns is not None), default=None)

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Emit what changed, and end the windows that are over by processing time."""
        yield from UpdatingAggregate.on_timer(self, now_ns)
        yield from ClockedWindows.on_timer(self, now_ns)

    def due_us(self) -> int | None:
        """Return when the next window is over; without windows of event time only the end matters."""
        over_us = self._next_over_us()
        if over_us is None:
            return super().due_us()
        return END_OF_TIME_US if self._by_clock else min(over_us, END_OF_TIME_US)
