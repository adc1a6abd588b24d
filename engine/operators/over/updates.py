"""Running and row-window aggregates whose results are corrected by rows that come between others.

All rows of a key are kept, and its results are computed anew when they are emitted; what did not change stays.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import Emission, OperatorContext, chunks
from penstock.engine.core.elements import Batch
from penstock.engine.operators.changelog import consolidate, weights_of, with_weights
from penstock.engine.operators.over.frames import Frames
from penstock.engine.operators.over.input import OverInput
from penstock.engine.operators.over.rows import KeptRuns, Runs, in_event_time, in_order
from penstock.engine.operators.over.schema import plan_over
from penstock.engine.operators.updating_operator import UpdatingOperator
from penstock.model.errors import BugError
from penstock.model.keyed_specs import OverSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints
from penstock.state.store import Slots
from penstock.state.tables.grouping import KeyGrouper

_OWNER = pa.field("$owner", pa.int64())


class UpdatingOver(UpdatingOperator):
    """Puts out a changelog of every row with aggregates over its frame, at most once per interval or when idle.

    A retraction that came before its insert is kept and shows nothing. No row is late.
    """

    def __init__(self, spec: OverSpec, schema: StreamSchema, name: str) -> None:
        """Check and compile.

        Raises:
            PlanError: the spec does not fit its input.
        """
        self._plan = plan_over(spec, schema, name)
        self._input = OverInput(spec, self._plan, schema, name)
        self._rows = spec.rows
        self._interval_us = spec.interval_us
        self._append_only = not schema.changelog
        self._fields = StreamSchema(schema.fields, changelog=True).physical

    def open(self, context: OperatorContext) -> None:
        """Open the rows and the changes that have not been emitted."""
        super().open(context)
        locate = context.locate_port(0)
        self._log = context.state.log("changes", self._fields, locate)
        self._pending = len(self._log.live())
        self._kept = KeptRuns(context.state, self._fields, self._plan.key_types, locate)
        self._frames = Frames(context.state, self._plan, self._input)
        self._grouper = KeyGrouper()

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Take changes in; emit if the interval has passed."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        rows, _, seen = self._input.evaluate(self.context, batch.rows)
        if seen is None:
            return
        counters.folded += rows.num_rows
        if self._append_only:
            rows = with_weights(rows, np.ones(rows.num_rows, np.int8))
        self._log.append(rows)
        self._pending += rows.num_rows
        yield from self._after(batch)

    def has_pending(self) -> bool:
        """Return whether anything came since the last emission."""
        return self._pending > 0

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Emit what changed, so that nothing shown is older than the cut, and give back scratch memory."""
        yield from self._emit()
        self._frames.release()

    def _changes(self) -> Iterator[pa.RecordBatch]:
        """Yield what changed, some keys at a time: as many as have about ``batch_rows`` rows."""
        self._pending = 0
        ids = self._log.live()
        changes = self._log.take(ids)
        self._log.remove(ids)
        changes, keys, _ = self._input.evaluate(self.context, changes)
        if keys is None:
            raise BugError("changes that could be evaluated cannot be any more; please report it")
        groups, first_rows = self._grouper.group(keys)
        runs = Runs.of(groups, len(first_rows))
        slots = self._kept.slots(keys.take(first_rows))
        sizes = np.cumsum(self._kept.counts(slots) + runs.sizes)
        ends = np.append(0, np.cumsum(runs.sizes))
        first = 0
        while first < len(slots):
            done = int(sizes[first - 1]) if first else 0
            stop = max(first + 1, int(np.searchsorted(sizes, done + self.context.batch_rows, side="right")))
            mine = slice(ends[first], ends[stop])
            part = changes.take(pa.array(runs.order[mine]))
            yield from chunks(self._change(slots[first:stop], part, runs.owners[mine] - first), self.context.batch_rows)
            first = stop

    def _change(self, slots: Slots, changes: pa.RecordBatch, owners: Ints) -> pa.RecordBatch:
        """Apply changes to the rows of keys, owners[i] being whose row i is; return what changes in the results."""
        old = self._kept.read(slots)
        old_owners = np.repeat(np.arange(len(slots)), self._kept.counts(slots))
        whole = pa.concat_batches([_owned(old, old_owners), _owned(changes, owners)])
        new = consolidate(whole)
        new_owners = new.column(0).to_numpy()
        new = new.select(self._fields.names)
        order = self._order(new, new_owners, len(slots))
        new, new_owners = new.take(pa.array(order)), new_owners[order]
        before, after = self._show(old, old_owners, len(slots), -1), self._show(new, new_owners, len(slots), 1)
        self._kept.write(slots, new, np.bincount(new_owners, minlength=len(slots)))
        return consolidate(pa.concat_batches([before, after]))

    def _order(self, rows: pa.RecordBatch, owners: Ints, count: int) -> Ints:
        keys = self._input.order_keys(rows)
        if keys:
            return in_order(rows, keys, owners)
        return in_event_time(rows, self._input.times_us(rows), owners, count)

    def _show(self, rows: pa.RecordBatch, owners: Ints, count: int, weight: int) -> pa.RecordBatch:
        """Return the results of rows that lie in runs, with this weight."""
        shown = weights_of(rows) > 0
        rows, owners = rows.filter(pa.array(shown)), owners[shown]
        runs = Runs.of(owners, count)
        rows, _, seen = self._input.evaluate(self.context, rows)
        if seen is None:
            raise BugError("rows that could be evaluated cannot be any more; please report it")
        if self._rows is None:
            results = self._frames.running(seen, runs.places, runs.owners, None)
        else:
            results = self._frames.sliding(seen, runs.places, self._rows)
        columns = [*rows.columns[:-1], *results]
        shown_rows = pa.RecordBatch.from_arrays(columns, schema=self._plan.output.fields)
        return with_weights(shown_rows, np.full(rows.num_rows, weight, np.int8))


def _owned(rows: pa.RecordBatch, owners: Ints) -> pa.RecordBatch:
    """Put the number of its key before each row: equal rows have equal keys."""
    schema = rows.schema.insert(0, _OWNER)
    return pa.RecordBatch.from_arrays([pa.array(owners, pa.int64()), *rows.columns], schema=schema)
