"""Updating aggregates per key, and per window where windows are asked for as updates.

The result is a changelog: what a group showed before is retracted, what it shows now is inserted, at most once per
emission interval.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import ROWS
from penstock.engine.core.contract import LATE, Emission, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.core.event_time import time_array
from penstock.engine.operators.aggregates.aggregate_input import AggregateInput, EvaluatedRows
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.engine.operators.aggregates.assigned_windows import AssignedWindows
from penstock.engine.operators.aggregates.row_checksums import CHECKSUM, CHECKSUM_COLUMN
from penstock.engine.operators.aggregates.updating_aggregates import UpdatingWindows
from penstock.engine.operators.key_lookup import KeyLookup
from penstock.engine.operators.updating_output import UpdatingOutput
from penstock.model.errors import BugError
from penstock.model.job_graph import AggregateSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Count, Global, Session
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.store import Slots, TableSpec


class GroupAggregate(UpdatingWindows):
    """One result per key, or per key and window, that follows its rows."""

    def __init__(self, spec: AggregateSpec, schema: StreamSchema, name: str) -> None:
        """Check and compile.

        Raises:
            PlanError: the aggregate cannot be built over this input.
        """
        self._plan = plan = plan_aggregate(spec, schema, name)
        windowing = spec.windowing
        emission = spec.emission if windowing is None else windowing.emission
        self._interval_us = emission.interval_us
        self._windows: AssignedWindows | None = None
        if windowing is not None and not isinstance(windowing.window, Global):
            if isinstance(windowing.window, Session | Count):
                raise BugError(f"{windowing.window} windows have an operator of their own; please report it")
            self._windows = AssignedWindows(windowing.window, windowing.lateness_us, name)
        self._by_clock = windowing is not None and windowing.clock == "processing"
        self._by_event = not self._by_clock
        leading = (pa.int64(),) if self._windows is not None and self._windows.keeps_starts else ()
        self._input = AggregateInput(spec, schema, name, (*leading, *plan.key_types))
        self._key_types = (*leading, *plan.key_types)
        self._retracting = plan.retracting
        self.minds_watermarks = self._windows is not None

    def open(self, context: OperatorContext) -> None:
        """Open the table of groups."""
        super().open(context)
        columns = self._plan.aggregation.columns()
        if self._retracting:
            columns[CHECKSUM] = CHECKSUM_COLUMN
        prefixed, beside = self._windows is not None, len(self._key_types) - len(self._plan.key_types)
        spec = TableSpec("groups", self._key_types, columns, prefixed, beside, placed_by=context.placed(beside))
        self._table = context.state.table(spec)
        self._cells = self._plan.aggregation.bind(self._table)
        self._lookup = KeyLookup(self._table)
        self._output = UpdatingOutput(context.batch_rows, self._show, self._alive, self._remove_empty)
        if self._by_clock:
            self._set_timer()

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Fold one batch; emit if the interval has passed."""
        self.context.counters.rows_in += batch.rows.num_rows
        if self._by_clock:
            yield from self._advance(self._clock.now_us())
        rows, evaluated = self._input.evaluate(self.context, batch)
        if evaluated is None:
            return
        if self._windows is None:
            self.context.counters.folded += evaluated.count
            self._fold(evaluated, None, self._input.times_us(rows) if self._plan.timed else None)
        else:
            yield from self._fold_windows(self._windows, batch, rows, evaluated)
            if self._by_clock:
                self._set_timer()
        yield from self._after(batch)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Forget the windows that are over, after their last changes; at the end of time emit everything."""
        if time_us == END_OF_TIME_US:
            yield from self._emit()
        if time_us == END_OF_TIME_US or not self._by_clock:
            yield from self._advance(time_us)

    def _fold_windows(
        self, windows: AssignedWindows, batch: Batch, rows: pa.RecordBatch, evaluated: EvaluatedRows
    ) -> Iterator[Emission]:
        """Fold rows into every window of theirs that is not over, and let go of those that have none."""
        counters = self.context.counters
        at_us, times_us = self._times(rows)
        assigned = windows.assign(at_us, windows.over_until_us(self._watermark_us))
        late = 0 if assigned.late is None else int(np.count_nonzero(assigned.late))
        outside = 0 if assigned.outside is None else int(np.count_nonzero(assigned.outside))
        counters.late += late
        counters.filtered += outside
        counters.folded += evaluated.count - late - outside
        if assigned.late is not None:
            yield LATE, batch.with_rows(rows.filter(pa.array(assigned.late)))
        if not len(assigned.ends_us):
            return
        if assigned.rows is not None:
            evaluated = evaluated.take(assigned.rows)
            times_us = None if times_us is None else times_us[assigned.rows]
        starts = () if assigned.starts_us is None else (pa.array(assigned.starts_us),)
        self._fold(evaluated, assigned.ends_us, times_us, *starts)

    def _fold(
        self,
        evaluated: EvaluatedRows,
        ends_us: Ints | None,
        times_us: Ints | None,
        *starts: pa.Array,
    ) -> None:
        located = self._lookup.upsert(evaluated.keys(*starts), ends_us)
        self._cells.reset(located.fresh)
        self._output.remember(located.slots, len(self._table.array(ROWS)))
        evaluated.fold(located.slots, times_us, self._cells)
        if self._retracting:
            evaluated.add_to_checksums(self._table, located.slots, times_us)

    def _advance(self, watermark_us: int) -> Iterator[Emission]:
        """Forget windows that are over, without retracting them."""
        self._watermark_us = max(self._watermark_us, watermark_us)
        if self._windows is None:
            return
        first_us = self._table.first_prefix()
        over_until_us = self._windows.over_until_us(self._watermark_us)
        if first_us is not None and first_us <= over_until_us:
            over = self._table.slots_below(min(over_until_us, END_OF_TIME_US - 1) + 1)
            yield from self._leave(self._output.changes_of(over))
            self._table.remove(over)

    def _next_over_us(self) -> int | None:
        first_us = None if self._windows is None else self._table.first_prefix()
        return None if first_us is None or self._windows is None else self._windows.over_at_us(first_us)

    def _alive(self, slots: Slots) -> Mask:
        alive: Mask = self._cells.row_counts(slots) > 0
        return alive

    def _remove_empty(self, slots: Slots) -> None:
        """Forget groups whose rows have all been taken back."""
        if not self._retracting or self._windows is not None:
            return
        empty = self._cells.row_counts(slots) == 0
        empty &= self._table.array(CHECKSUM)[slots] == 0
        if empty.any():
            self._table.remove(slots[empty])

    def _show(self, slots: Slots) -> pa.RecordBatch:
        """Return what these slots show."""
        columns = self._table.key_columns(slots)
        bounds = self._plan.bounds
        if self._windows is not None and bounds is not None:
            ends_us = self._table.prefixes(slots)
            keeps_starts = self._windows.keeps_starts
            starts_us = columns.pop(0).to_numpy() if keeps_starts else self._windows.starts_us(ends_us)
            columns += [time_array(starts_us, bounds), time_array(ends_us, bounds)]
        return self._plan.rows(columns, self._cells.results(slots))
