"""The state of reduced rows: one per key (running), or one per key and window (tumbling, hopping, custom windows).

`reduce` hands in rows in event-time order, a piece at a time, and emits what comes back.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.core.event_time import time_array
from penstock.engine.operators.aggregates.assigned_windows import Assigned, AssignedWindows
from penstock.engine.operators.aggregates.reduce_fold import ROW_COLUMN, Folder, ReducedRows
from penstock.engine.operators.aggregates.reduce_schema import ReducePlan
from penstock.engine.operators.updating_output import UpdatingOutput
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import Positions, Slots, TableSpec
from penstock.state.tables.image import positions_of


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows in order, their times and keys, and the number of each row's key; ``first_rows`` has a row of each key."""

    rows: pa.RecordBatch
    times_us: Ints
    key_columns: list[pa.Array]
    keys: KeyBatch
    groups: Ints
    first_rows: Ints

    def positions(self, rows: Ints) -> Positions:
        """Return where the keys of some of the rows lie."""
        return positions_of(self.keys.hashes[rows])


class ReduceState(ABC):
    """The reduced rows of one operator instance, in slots of `table`; those that change are pending in `output`.

    Nothing is ever pending if results are final.
    """

    def __init__(self, context: OperatorContext, plan: ReducePlan, folder: Folder, spec: TableSpec) -> None:
        """Open the table and the log of reduced rows."""
        self.context = context
        self.plan = plan
        self.folder = folder
        self.table = context.state.table(spec)
        self.reduced = ReducedRows(context.state, self.table, plan.fields)
        self.output = UpdatingOutput(context.batch_rows, self.show, self.reduced.has)

    @abstractmethod
    def fold(self, piece: KeyedRows) -> Iterator[pa.RecordBatch]:
        """Fold rows, which come in order from one call to the next too.

        Yield the results that cannot change again and are in no slot any more; with updates, what changed in them.
        """

    @abstractmethod
    def over(self, passed_us: int) -> Slots:
        """Return the slots whose windows are over once the watermark (less the lateness) is ``passed_us``."""

    @abstractmethod
    def next_us(self) -> int | None:
        """Return the least ``passed_us`` for which `over` has slots, None if there are none."""

    @abstractmethod
    def show(self, slots: Slots) -> pa.RecordBatch:
        """Return the results of slots; all have a row."""

    def forget(self, slots: Slots) -> None:
        """Drop slots, of which nothing is pending."""
        self.reduced.drop(slots)
        self.table.remove(slots)

    def _remember(self, slots: Slots) -> None:
        """Note, with updates, what slots that are about to change have shown until now."""
        if self.plan.output.changelog:
            self.output.remember(slots, len(self.table.array("row")))


class RunningRows(ReduceState):
    """The latest row of every key."""

    def __init__(self, context: OperatorContext, plan: ReducePlan, folder: Folder) -> None:
        """Open the table of keys."""
        super().__init__(context, plan, folder, TableSpec("keys", plan.key_types, ROW_COLUMN))

    def fold(self, piece: KeyedRows) -> Iterator[pa.RecordBatch]:
        """Fold rows; nothing is ever final."""
        slots = self.table.upsert(piece.keys.take(piece.first_rows)).slots
        self._remember(slots)
        entries = np.arange(piece.rows.num_rows)
        rows = self.folder.fold(self.context, piece.rows, entries, piece.groups, self.reduced.read(slots))
        self.reduced.write(slots, rows, piece.positions(piece.first_rows))
        yield from ()

    def over(self, passed_us: int) -> Slots:
        """Return no slot: a key's row may always change."""
        return np.empty(0, np.int64)

    def next_us(self) -> int | None:
        """Return None."""
        return None

    def show(self, slots: Slots) -> pa.RecordBatch:
        """Return the latest rows of slots."""
        return self.plan.result(self.table.key_columns(slots), [], self.reduced.batch(slots))


class WindowedRows(ReduceState):
    """A row for every key and window of time, kept under the window's end."""

    def __init__(self, context: OperatorContext, plan: ReducePlan, folder: Folder, windows: AssignedWindows) -> None:
        """Open the table of windows."""
        # Keys come first in an expanded key: a window of a custom assigner is known by its start as well as its end.
        starts = (pa.int64(),) if windows.keeps_starts else ()
        key_types = (*starts, *plan.key_types)
        super().__init__(context, plan, folder, TableSpec("windows", key_types, ROW_COLUMN, True, len(starts)))
        self._windows = windows
        self._codec = KeyCodec(key_types)

    def fold(self, piece: KeyedRows) -> Iterator[pa.RecordBatch]:
        """Fold rows into all their windows; rows without any are counted as filtered."""
        # Rows come in order, so no window of theirs can be over: none has been closed that ends after them.
        assigned = self._windows.assign(piece.times_us, START_OF_TIME_US)
        if assigned.outside is not None:
            outside = int(np.count_nonzero(assigned.outside))
            self.context.counters.folded -= outside
            self.context.counters.filtered += outside
        entries = np.arange(piece.rows.num_rows) if assigned.rows is None else assigned.rows
        if len(entries):
            slots = self.table.upsert(self._keys(piece, assigned), assigned.ends_us).slots
            distinct, cells = np.unique(slots, return_inverse=True)
            rows_of = np.empty(len(distinct), np.int64)
            rows_of[cells] = entries
            self._remember(distinct)
            rows = self.folder.fold(self.context, piece.rows, entries, cells, self.reduced.read(distinct))
            self.reduced.write(distinct, rows, piece.positions(rows_of))
        yield from ()

    def over(self, passed_us: int) -> Slots:
        """Return the windows that end by then, in the order of their ends."""
        return self.table.slots_below(min(passed_us, END_OF_TIME_US - 1) + 1)

    def next_us(self) -> int | None:
        """Return the earliest end."""
        return self.table.first_prefix()

    def show(self, slots: Slots) -> pa.RecordBatch:
        """Return the reduced rows of windows, with their bounds."""
        keys = self.table.key_columns(slots)
        ends_us = self.table.prefixes(slots)
        starts_us = keys.pop(0).to_numpy() if self._windows.keeps_starts else self._windows.starts_us(ends_us)
        bounds = [time_array(times_us, self.plan.bounds) for times_us in (starts_us, ends_us)]
        return self.plan.result(keys, bounds, self.reduced.batch(slots))

    def _keys(self, piece: KeyedRows, assigned: Assigned) -> KeyBatch:
        if assigned.starts_us is None:
            return piece.keys if assigned.rows is None else piece.keys.take(assigned.rows)
        rows = pa.array(assigned.rows)
        keys = [column.take(rows) for column in piece.key_columns]
        return self._codec.encode([pa.array(assigned.starts_us), *keys])
