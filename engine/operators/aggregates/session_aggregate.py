"""Aggregates per session: a key's rows with no more than a gap between neighbours.

Final results leave when a session is over; updating ones follow it, and sessions that merge retract what they showed.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import LATE, MAIN, Emission, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.core.event_time import time_array
from penstock.engine.operators.aggregates.aggregate_input import AggregateInput
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.engine.operators.aggregates.session_state import SessionAssignment, SessionState
from penstock.engine.operators.aggregates.updating_aggregates import UpdatingWindows
from penstock.engine.operators.key_sampler import no_buckets, noted_rates
from penstock.engine.operators.updating_output import UpdatingOutput
from penstock.model.errors import BugError, SchemaError
from penstock.model.job_graph import AggregateSpec
from penstock.model.result_columns import BUCKET
from penstock.model.schema import StreamSchema
from penstock.model.windows import Session
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.store import INTEGER, ColumnSpec, FixedColumn, Slots

_SHOWN: dict[str, ColumnSpec] = {
    "shown": FixedColumn(np.dtype(np.uint8)),
    "shown_first": INTEGER,
    "shown_last": INTEGER,
}


class SessionAggregate(UpdatingWindows):
    """One result per session and key, with ``window_start`` its first row and ``window_end`` its last row + gap.

    A row that joins no open session and could only begin one that is over leaves through `LATE`, unchanged.
    """

    def __init__(self, spec: AggregateSpec, schema: StreamSchema, name: str) -> None:
        """Check and compile.

        Raises:
            PlanError: the aggregate cannot be built over this input.
        """
        if spec.windowing is None or not isinstance(spec.windowing.window, Session):
            raise BugError(f"session aggregate {name!r} was built without one; please report it")
        self._plan = plan_aggregate(spec, schema, name)
        self._windowing = spec.windowing
        self._gap_us = spec.windowing.window.gap_us
        self._updating = spec.windowing.emission.mode == "updates"
        self._interval_us = spec.windowing.emission.interval_us
        self._by_clock = spec.windowing.clock == "processing"
        self._by_event = not self._by_clock
        self._input = AggregateInput(spec, schema, name, self._plan.key_types)
        self._has_buckets = BUCKET in self._plan.output.fields.names

    def open(self, context: OperatorContext) -> None:
        """Open the tables of sessions."""
        super().open(context)
        columns = self._plan.aggregation.columns() | (_SHOWN if self._updating else {})
        self._sessions = SessionState(
            context.state,
            self._plan.key_types,
            columns,
            self._gap_us,
            self._windowing.lateness_us,
            context.placed(),
        )
        self._table = self._sessions.table
        self._cells = self._plan.aggregation.bind(self._table)
        self._output = UpdatingOutput(context.batch_rows, self._show, self._alive, self._settle)
        self._check_rates(context)
        if self._by_clock:
            self._set_timer()

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Fold one batch into its sessions; with updates, emit if the interval has passed."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        if self._by_clock:
            yield from self._advance(self._clock.now_us())
        rows, evaluated = self._input.evaluate(self.context, batch)
        if evaluated is None:
            return
        at_us, times_us = self._times(rows)
        settled_us = self._sessions.settled_before_us(self._watermark_us)
        assigned = self._sessions.assign(evaluated.keys(), at_us, settled_us)
        counters.late += assigned.late
        counters.folded += evaluated.count - assigned.late
        self._cells.reset(assigned.fresh)
        if self._updating:
            self._remember(assigned)
        evaluated.fold(assigned.slots, times_us, self._cells)
        if len(assigned.absorbed):
            self._cells.absorb(assigned.into, self._cells, assigned.absorbed)
            if self._updating:
                self._output.pending.forget(assigned.absorbed)
            self._sessions.forget_merged(assigned.absorbed)
        if self._by_clock:
            self._set_timer()
        if assigned.late:
            yield LATE, batch.with_rows(rows.filter(pa.array(assigned.slots < 0)))
        yield from self._after(batch)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Emit the sessions that are over, or with updates their last changes, and forget them."""
        if self._by_clock and time_us != END_OF_TIME_US:
            return
        if time_us == END_OF_TIME_US:
            yield from self._emit()
        yield from self._advance(time_us)

    def output_watermark(self, time_us: int) -> int:
        """Hold the watermark back: a session still open may end, and its result be dated, that early."""
        if time_us == END_OF_TIME_US or self._by_clock or self._updating:
            return time_us
        return max(START_OF_TIME_US, time_us - self._windowing.lateness_us - 1)

    def _advance(self, watermark_us: int) -> Iterator[Emission]:
        self._watermark_us = max(self._watermark_us, watermark_us)
        over = self._sessions.over(self._sessions.settled_before_us(self._watermark_us))
        if self._updating:
            yield from self._leave(self._output.changes_of(over))
        else:
            for batch in self._results(over):
                yield MAIN, batch
        self._sessions.end(over)

    def _results(self, over: Slots) -> Iterator[Batch]:
        """Yield the results of sessions that are over."""
        step = self.context.batch_rows
        for start in range(0, len(over), step):
            yield Batch(self._show(over[start : start + step]), ingest_ns=self._ingest_ns)

    def _check_rates(self, context: OperatorContext) -> None:
        """Refuse state with sessions of which rows may be missing, since results here do not say so.

        Raises:
            SchemaError: rows were dropped by their keys that may belong to sessions yet to leave.
        """
        rates = noted_rates(context.restored, self._gap_us)
        first = self._table.array("first")[self._table.live()]
        settled_us = self._sessions.settled_before_us(self._watermark_us)
        if rates.reaches(min([settled_us, *first.tolist()]) - self._gap_us):
            raise SchemaError(
                f"rows of open sessions of {context.name!r} were dropped by their keys, and results say nothing of "
                "that: give its queries their minimum accuracies back until these sessions are over, or begin without "
                f"state, with drop_state={context.name!r}"
            )

    def _remember(self, assigned: SessionAssignment) -> None:
        """Note what the sessions that change have shown until now."""
        limit = len(self._table.array("last"))
        touched = self._output.pending.touch(np.concatenate([assigned.absorbed, assigned.slots]), limit)
        shown = touched[self._table.array("shown")[touched] > 0]
        if len(shown):
            starts_us = self._table.array("shown_first")[shown]
            ends_us = self._table.array("shown_last")[shown] + self._gap_us
            self._output.pending.show(shown, self._rows(shown, starts_us, ends_us))

    def _settle(self, slots: Slots) -> None:
        """Note that sessions have been shown as they are."""
        self._table.array("shown")[slots] = 1
        for name in ("first", "last"):
            self._table.array(f"shown_{name}")[slots] = self._table.array(name)[slots]

    def _alive(self, slots: Slots) -> Mask:
        return np.ones(len(slots), np.bool_)

    def _show(self, slots: Slots) -> pa.RecordBatch:
        return self._rows(slots, *self._sessions.bounds_us(slots))

    def _rows(self, slots: Slots, starts_us: Ints, ends_us: Ints) -> pa.RecordBatch:
        bounds = [time_array(times_us, self._plan.bounds) for times_us in (starts_us, ends_us)]
        keys, results = self._table.key_columns(slots), self._cells.results(slots)
        if self._has_buckets:
            results.append(self._buckets(keys, len(slots)))
        return self._plan.rows([*keys, *bounds], results)

    def _buckets(self, keys: Sequence[pa.Array], rows: int) -> pa.Array:
        """Return the buckets of these keys, of results that are no sample."""
        return no_buckets(rows)

    def _next_over_us(self) -> int | None:
        return self._sessions.next_us()
