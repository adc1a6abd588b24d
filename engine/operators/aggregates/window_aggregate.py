"""Aggregates per window, each window's result emitted once, when the window is over.

Sessions and count windows have operators of their own; windows with updates belong to `GroupAggregate`.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import LATE, MAIN, Emission, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.aggregate_input import AggregateInput
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.engine.operators.aggregates.assigned_windows import AssignedWindows
from penstock.engine.operators.aggregates.pane_state import PaneState
from penstock.engine.operators.aggregates.pane_windows import PaneWindows
from penstock.engine.operators.aggregates.updating_aggregates import ClockedWindows
from penstock.engine.operators.aggregates.window_state import (
    CustomWindowState,
    GlobalWindowState,
    WindowState,
)
from penstock.model.errors import BugError
from penstock.model.job_graph import AggregateSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Global, Hopping, Tumbling, WindowAssigner


class WindowAggregate(ClockedWindows):
    """One result per window and key, final. Rows whose windows are all over leave through `LATE`, unchanged."""

    def __init__(self, spec: AggregateSpec, schema: StreamSchema, name: str) -> None:
        """Check and compile.

        Raises:
            PlanError: the aggregate cannot be built over this input.
        """
        if spec.windowing is None:
            raise BugError(f"window aggregate {name!r} was built without a window; please report it")
        self._plan = plan_aggregate(spec, schema, name)
        self._windowing = spec.windowing
        self._name = name
        custom = isinstance(spec.windowing.window, WindowAssigner)
        leading = (pa.int64(),) if custom else ()
        self._input = AggregateInput(spec, schema, name, (*leading, *self._plan.key_types))
        self._by_clock = spec.windowing.clock == "processing"
        self._by_event = not self._by_clock and not isinstance(spec.windowing.window, Global)

    def open(self, context: OperatorContext) -> None:
        """Open the table of windows."""
        super().open(context)
        self._state = self._make_state(context)
        if self._by_clock:
            self._set_timer()

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Fold one batch."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        if self._by_clock:
            yield from self._advance(self._clock.now_us())
        rows, evaluated = self._input.evaluate(self.context, batch)
        if evaluated is None:
            return
        at_us, times_us = self._times(rows)
        refused = self._state.fold(evaluated, at_us, times_us, self._watermark_us)
        counters.folded += evaluated.count
        if refused.outside is not None:
            outside = int(np.count_nonzero(refused.outside))
            counters.folded -= outside
            counters.filtered += outside
        if self._by_clock:
            self._set_timer()
        if refused.late is not None:
            late = rows.filter(pa.array(refused.late))
            counters.folded -= late.num_rows
            counters.late += late.num_rows
            yield LATE, batch.with_rows(late)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Emit the windows that are over."""
        if self._by_clock and time_us != END_OF_TIME_US:
            return ()
        return self._advance(time_us)

    def output_watermark(self, time_us: int) -> int:
        """Hold the watermark back by the allowed lateness: results of windows still open may be that old."""
        if time_us == END_OF_TIME_US or self._by_clock:
            return time_us
        return max(START_OF_TIME_US, time_us - self._windowing.lateness_us)

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Give back scratch memory, which is no state to keep."""
        self._state.release()
        return ()

    def due_us(self) -> int | None:
        """Return when the next window is over; by the processing clock only the end matters."""
        if self._state.table.first_prefix() is None:
            return None
        over_us = None if self._by_clock else self._state.next_us()
        return END_OF_TIME_US if over_us is None else min(over_us, END_OF_TIME_US)

    def _make_state(self, context: OperatorContext) -> WindowState:
        window, lateness_us = self._windowing.window, self._windowing.lateness_us
        if isinstance(window, Tumbling | Hopping):
            return PaneState(self._plan, context, PaneWindows.of(window, lateness_us), self._watermark_us)
        if isinstance(window, WindowAssigner):
            windows = AssignedWindows(window, lateness_us, self._name)
            return CustomWindowState(self._plan, context, windows)
        if isinstance(window, Global):
            return GlobalWindowState(self._plan, context)
        raise BugError(f"{window} windows have an operator of their own; please report it")

    def _advance(self, watermark_us: int) -> Iterator[Emission]:
        self._watermark_us = max(self._watermark_us, watermark_us)
        for rows in self._state.results(self._watermark_us):
            yield MAIN, Batch(rows, ingest_ns=self._ingest_ns)

    def _next_over_us(self) -> int | None:
        return self._state.next_us()
