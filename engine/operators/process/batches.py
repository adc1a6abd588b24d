"""Calls a vectorised process function: each key's rows up to its next timer, then that timer, many keys at a time."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import chunks
from penstock.engine.core.event_time import time_array
from penstock.engine.operators.process.batch_timers import BatchRowTimers, DueTimers
from penstock.engine.operators.process.process_input import NOT_THE_ROWS, Failure, ProcessInput, TimeProgress
from penstock.engine.operators.process.results import batch_results
from penstock.engine.operators.process.rows import timer_rows
from penstock.engine.operators.process.runner import FunctionRunner, RunnerParts, TimedContext
from penstock.engine.operators.process.timers import Calendar
from penstock.model.process import BatchProcess, BatchTimers, FiredTimers, States
from penstock.model.source_location import user_traceback
from penstock.state.keys.arrays import Ints


class CallContext(TimedContext):
    """The context of a call; see `penstock.model.process.BatchContext`."""

    def __init__(self, calendar: Calendar, progress: TimeProgress, timers: BatchRowTimers, state: States) -> None:
        super().__init__(calendar, progress)
        self.timers: BatchTimers = timers
        self.state = state
        self.keys: pa.RecordBatch
        self.groups: Ints


class BatchRunner(FunctionRunner):
    """Calls a `BatchProcess` in one operator instance."""

    def __init__(self, function: BatchProcess, parts: RunnerParts) -> None:
        """Give the function its state."""
        handles = parts.state.batch_handles()
        super().__init__(function, parts, handles)
        self._function = function
        self._tables = parts.timers
        self._handles = list(handles.values())
        self._by_event = any(handle.ttl_us and handle.ttl_clock == "event" for handle in self._handles)
        self._timers = BatchRowTimers(parts.plan.time is not None)
        self._context = CallContext(Calendar(parts.plan.zone), parts.progress, self._timers, States(handles))

    def run(self, piece: ProcessInput) -> Iterator[pa.RecordBatch]:
        """Call the function for the rows and timers of a piece."""
        due = DueTimers(piece.due_us, piece.due_groups)
        if piece.processing:
            event, clock = DueTimers.none(), due
            while clock:
                yield from self._fire(piece, event, clock, processing=True)
            due = event
        left = np.arange(piece.rows.num_rows)
        while len(left) or due:
            ready = left
            if due and piece.times_us is not None and not piece.by_arrival:
                ready = left[piece.times_us[left] < due.first_us(len(piece.keys))[piece.groups[left]]]
            if len(ready):
                yield from self._call_rows(piece, ready, due)
                left = left[:0] if len(ready) == len(left) else np.setdiff1d(left, ready, assume_unique=True)
            else:
                yield from self._fire(piece, due, DueTimers.none(), processing=False)

    def _call_rows(self, piece: ProcessInput, ready: Ints, due: DueTimers) -> Iterator[pa.RecordBatch]:
        whole = len(ready) == piece.rows.num_rows
        rows = piece.rows if whole else piece.rows.take(pa.array(ready))
        groups, members = piece.groups if whole else piece.groups[ready], np.arange(len(piece.keys))
        if not whole or len(piece.due_us):
            members, groups = np.unique(groups, return_inverse=True)
        first = last = None
        if self._by_event and piece.times_us is not None:
            times_us = piece.times_us[ready]
            if piece.by_arrival:
                times_us = np.maximum(times_us, self._progress.watermark_us)
            first, last = np.empty(len(members), np.int64), np.empty(len(members), np.int64)
            first[groups[::-1]], last[groups] = times_us[::-1], times_us
        context = self._begin(piece, members, first, last)
        context.groups = groups
        rows = rows.select(self._plan.fields.names)

        def fail(text: str) -> Failure:
            return Failure(rows, text, False)

        yield from self._call(piece, members, due, lambda: self._function.process(rows, context), fail)

    def _fire(
        self, piece: ProcessInput, event: DueTimers, clock: DueTimers, *, processing: bool
    ) -> Iterator[pa.RecordBatch]:
        """Fire the first timer of each key that has one."""
        times_us, members = (clock if processing else event).take_first()
        now_us = self._progress.watermark_us if processing else times_us
        context = self._begin(piece, members, now_us, now_us)
        context.groups = np.arange(len(members))
        fired = FiredTimers(time_array(times_us, pa.timestamp("us", self._plan.zone)), processing)

        def fail(text: str) -> Failure:
            return Failure(timer_rows(self._plan, context.keys.columns, times_us), text, True)

        yield from self._call(piece, members, event, lambda: self._function.on_timer(fired, context), fail, clock)

    def _begin(self, piece: ProcessInput, members: Ints, read_us: Any, written_us: Any) -> CallContext:
        whole = len(members) == len(piece.keys)
        keys = piece.keys if whole else piece.keys.take(members)
        columns = piece.key_columns
        if not whole:
            columns = [column.take(pa.array(members)) for column in columns]
        for handle in self._handles:
            event = handle.ttl_clock == "event"
            times = (read_us, written_us) if event else (self._progress.clock_us, self._progress.clock_us)
            handle.begin(keys, *times)
        self._timers.begin(len(members))
        self._context.keys = pa.RecordBatch.from_arrays(columns, list(self._plan.key_names))
        return self._context

    def _call(
        self,
        piece: ProcessInput,
        members: Ints,
        event: DueTimers,
        call: Callable[[], Any],
        fail: Callable[[str], Failure],
        clock: DueTimers | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Make one call, keep what it wrote if it succeeds, and yield what it returned."""
        try:
            result = batch_results(call(), self._plan.output.fields, self._plan.output.time)
        except NOT_THE_ROWS:
            raise
        except Exception as raised:
            piece.failures.append(fail(user_traceback(raised)))
            return
        for handle in self._handles:
            handle.commit()
        for processing, wanted, times_us, positions in self._timers.changes:
            groups = members[positions]
            here = (clock or DueTimers.none()) if processing else event
            soon = np.zeros(len(groups), np.bool_) if processing else times_us <= piece.bound_us
            if wanted:
                here.add(times_us[soon], groups[soon])
            else:
                here.discard(times_us, groups)
            table = self._tables[processing]
            change = table.set if wanted else table.cancel
            change(piece.keys.take(groups[~soon]), times_us[~soon])
        if result is not None:
            yield from chunks(result, self._batch_rows)
