"""Windows of a reduce of which one per key is open: count, session and global windows."""

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import OperatorContext, chunks
from penstock.engine.core.elements import END_OF_TIME_US
from penstock.engine.core.event_time import time_array
from penstock.engine.kernels.order import number_rows, number_sessions
from penstock.engine.operators.aggregates.reduce_fold import ROW_COLUMN, Folder
from penstock.engine.operators.aggregates.reduce_schema import ReducePlan
from penstock.engine.operators.aggregates.reduce_state import KeyedRows, ReduceState
from penstock.engine.operators.changelog import changes_between
from penstock.engine.operators.pending_changes import Changes
from penstock.model.windows import Count, Session
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.store import INTEGER, Positions, Slots, TableSpec


class RunRows(ReduceState):
    """The reduced row of each key's open window.

    A *run* is a window that rows of a piece fall into, numbered from 0 within its key; run 0 goes on with the window
    that was open before. All but a key's last run are over; with updates, run 0 may have been shown already.
    """

    def __init__(self, context: OperatorContext, plan: ReducePlan, folder: Folder) -> None:
        """Open the table of keys that have an open window."""
        columns = {**ROW_COLUMN, "first_us": INTEGER, "last_us": INTEGER, "rows": INTEGER}
        super().__init__(context, plan, folder, TableSpec("keys", plan.key_types, columns))

    @abstractmethod
    def number(self, piece: KeyedRows, slots: Slots) -> Ints:
        """Return each row's run; slots[g] is where the open window of group g is kept, if ``rows`` there is above 0."""

    def is_full(self, rows: Ints) -> Mask:
        """Return which windows of so many rows take no more."""
        return np.zeros(len(rows), np.bool_)

    def over(self, passed_us: int) -> Slots:
        """Return the open windows that are over at the watermark ``passed_us``."""
        return self.table.live() if passed_us == END_OF_TIME_US else np.empty(0, np.int64)

    def next_us(self) -> int | None:
        """Return when the first open window is over: the end of time."""
        return END_OF_TIME_US if self.table.statistics().rows else None

    def bounds_us(self, first_us: Ints, last_us: Ints) -> tuple[Ints, Ints]:
        """Return window_start and window_end from the times of the first and last row."""
        return first_us, last_us

    def fold(self, piece: KeyedRows) -> Iterator[pa.RecordBatch]:
        """Fold rows; yield the windows that are full or followed by another, or with updates what changed in them."""
        slots = self.table.upsert(piece.keys.take(piece.first_rows)).slots
        self._remember(slots)
        runs = self.number(piece, slots)
        last_run = np.zeros(len(slots), np.int64)
        last_run[piece.groups] = runs
        base = np.append(0, np.cumsum(last_run + 1))
        cells, count = base[piece.groups] + runs, int(base[-1])
        owners = np.repeat(np.arange(len(slots)), last_run + 1)
        first_us, last_us = np.empty(count, np.int64), np.empty(count, np.int64)
        begun = self.table.array("rows")[slots] > 0
        open_cells, open_slots = base[:-1][begun], slots[begun]
        last_us[open_cells] = self.table.array("last_us")[open_slots]
        # Times ascend, and of several values for one cell the last stays: written backwards, it is the first.
        last_us[cells] = piece.times_us
        first_us[cells[::-1]] = piece.times_us[::-1]
        first_us[open_cells] = self.table.array("first_us")[open_slots]
        rows = np.bincount(cells, minlength=count)
        rows[base[:-1]] += self.table.array("rows")[slots]
        reduced: list[dict[str, object] | None] = [None] * count
        for cell, row in zip(base[:-1].tolist(), self.reduced.read(slots), strict=True):
            reduced[cell] = row
        folded = self.folder.fold(self.context, piece.rows, np.arange(len(cells)), cells, reduced)
        is_last = np.zeros(count, np.bool_)
        is_last[base[1:] - 1] = True
        done = ~is_last | self.is_full(rows)
        results = self._result(slots[owners[done]], first_us[done], last_us[done], folded.filter(pa.array(done)))
        is_over = done[base[1:] - 1]
        if not self.plan.output.changelog:
            parts = chunks(results, self.context.batch_rows)
        else:
            left = done[base[:-1]]
            parts = self._changes(slots[left], (np.cumsum(done) - 1)[base[:-1]][left], results)
            # What is open now in these slots is another window, which has shown nothing yet.
            self.output.pending.touch(slots[left & ~is_over], len(self.table.array("row")))
        self._keep(slots, piece.positions(piece.first_rows), base[1:] - 1, is_over, first_us, last_us, rows, folded)
        yield from parts

    def show(self, slots: Slots) -> pa.RecordBatch:
        """Return the reduced rows of open windows, with their bounds."""
        first_us, last_us = (self.table.array(name)[slots] for name in ("first_us", "last_us"))
        return self._result(slots, first_us, last_us, self.reduced.batch(slots))

    def _changes(self, slots: Slots, places: Ints, results: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the changelog to results from what is pending of slots; slots[i] has been left by row places[i]."""
        changes = self.output.pending.take_only(slots)
        shown_at, shown = changes.shown_at, changes.shown
        if shown is not None:
            place_of = np.zeros(len(self.table.array("row")), np.int64)
            place_of[slots] = places
            shown_at = place_of[changes.touched[shown_at]]
            order = np.argsort(shown_at)
            shown_at, shown = shown_at[order], shown.take(pa.array(order))
        count = results.num_rows
        moved = Changes(np.arange(count), shown_at, shown)
        alive = np.ones(count, np.bool_)
        return changes_between(moved, alive, lambda rows: results.take(pa.array(rows)), self.context.batch_rows)

    def _keep(
        self,
        slots: Slots,
        positions: Positions,
        last_cells: Ints,
        over: Mask,
        first_us: Ints,
        last_us: Ints,
        rows: Ints,
        folded: pa.RecordBatch,
    ) -> None:
        """Put each key's last run into the table, or forget the key if that run is over."""
        self.forget(slots[over])
        kept, cells = slots[~over], last_cells[~over]
        for name, values in (("first_us", first_us), ("last_us", last_us), ("rows", rows)):
            self.table.array(name)[kept] = values[cells]
        self.reduced.write(kept, folded.take(pa.array(cells)), positions[~over])

    def _result(self, slots: Slots, first_us: Ints, last_us: Ints, rows: pa.RecordBatch) -> pa.RecordBatch:
        bounds = []
        if self.plan.bounds is not None:
            bounds = [time_array(times_us, self.plan.bounds) for times_us in self.bounds_us(first_us, last_us)]
        return self.plan.result(self.table.key_columns(slots), bounds, rows)


class GlobalRows(RunRows):
    """One window over everything."""

    def number(self, piece: KeyedRows, slots: Slots) -> Ints:
        """Put every row into the one window."""
        return np.zeros(len(piece.groups), np.int64)


class CountRows(RunRows):
    """Windows of a number of rows; the bounds are the times of the first and the last."""

    def __init__(self, context: OperatorContext, plan: ReducePlan, folder: Folder, window: Count) -> None:
        """Take the window."""
        super().__init__(context, plan, folder)
        self._size = window.rows

    def number(self, piece: KeyedRows, slots: Slots) -> Ints:
        """Begin a window after every ``size`` rows."""
        seen = self.table.array("rows")[slots]
        return number_rows(read_only(piece.groups), seen) // self._size

    def is_full(self, rows: Ints) -> Mask:
        """Return which windows have all their rows."""
        full: Mask = rows == self._size
        return full


class ReducedSessionRows(RunRows):
    """Windows that end after a gap; a row exactly one gap after the last still joins."""

    def __init__(self, context: OperatorContext, plan: ReducePlan, folder: Folder, window: Session) -> None:
        """Take the window."""
        super().__init__(context, plan, folder)
        self._gap_us = window.gap_us

    def number(self, piece: KeyedRows, slots: Slots) -> Ints:
        """Begin a session after every gap."""
        lasts_us = self.table.array("last_us")[slots]
        open_ = (self.table.array("rows")[slots] > 0).astype(np.int64)
        return number_sessions(read_only(piece.times_us), read_only(piece.groups), self._gap_us, lasts_us, open_)

    def over(self, passed_us: int) -> Slots:
        """Return the sessions that no row at or after the watermark can join."""
        live = self.table.live()
        return live[self.table.array("last_us")[live] < passed_us - self._gap_us]

    def next_us(self) -> int | None:
        """Return when the first session is over."""
        lasts_us = self.table.array("last_us")[self.table.live()]
        return int(lasts_us.min()) + self._gap_us + 1 if lasts_us.size else None

    def bounds_us(self, first_us: Ints, last_us: Ints) -> tuple[Ints, Ints]:
        """End a session one gap after its last row."""
        return first_us, last_us + self._gap_us
