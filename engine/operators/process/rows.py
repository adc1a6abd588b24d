"""Calls a row-wise process function: rows and timers of a piece in their order, each call undone if it fails."""

import datetime
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop
from itertools import chain, repeat
from typing import Any

import pyarrow as pa

from penstock.engine.core.contract import SLICE_NS, chunks
from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.core.event_time import time_array
from penstock.engine.operators.functions.python_rows import python_values
from penstock.engine.operators.process.handles import Cursor, StateHandle
from penstock.engine.operators.process.process_input import NOT_THE_ROWS, Failure, ProcessInput, TimeProgress
from penstock.engine.operators.process.results import ResultRows
from penstock.engine.operators.process.runner import FunctionRunner, RunnerParts, TimedContext
from penstock.engine.operators.process.schema import ProcessPlan
from penstock.engine.operators.process.timers import Calendar, RowTimers
from penstock.model.process import Process, States, Timer, Timers
from penstock.model.source_location import user_traceback

TIMER_COLUMN = "timer"
"""The column of a timer's dead letter that holds its time."""

_LOOK_ROWS = 4
"""It is seen after every so many rows whether they have taken long."""


class RowContext(TimedContext):
    """The context of a call; see `penstock.model.process.Context`."""

    __slots__ = ("_columns", "_cursor", "_keys", "state", "timers")

    def __init__(
        self, cursor: Cursor, calendar: Calendar, progress: TimeProgress, timers: RowTimers, state: States
    ) -> None:
        super().__init__(calendar, progress)
        self._cursor = cursor
        self.timers: Timers = timers
        self.state = state
        self.begin([])

    def begin(self, key_columns: list[pa.Array]) -> None:
        """Start a piece with these distinct keys."""
        self._columns = key_columns
        self._keys: Sequence[Any] | None = None

    @property
    def key(self) -> Any:
        """The key, or a tuple of several."""
        keys = self._keys
        if keys is None:
            keys = self._keys = shown_keys(self._columns)
        return keys[self._cursor.at]

    @property
    def time(self) -> datetime.datetime | None:
        """The event time of the row or timer."""
        time_us = self._cursor.time_us
        return None if time_us is None else self._calendar.datetime_of(time_us)


class RowRunner(FunctionRunner):
    """Calls a `Process` in one operator instance."""

    def __init__(self, function: Process, parts: RunnerParts) -> None:
        """Give the function its state."""
        self._cursor = Cursor()
        handles = parts.state.row_handles(self._cursor)
        super().__init__(function, parts, handles)
        self._process = function.process
        self._on_timer = function.on_timer
        self._event_timers, self._clock_timers = parts.timers
        self._calendar = Calendar(parts.plan.zone)
        self._timers = RowTimers(self._cursor, self._calendar, parts.plan.time is not None)
        self._handles: list[StateHandle] = list(handles.values())
        self._context = RowContext(self._cursor, self._calendar, parts.progress, self._timers, States(handles))
        self._results = ResultRows(parts.plan.output.fields, parts.plan.output.time)

    def run(self, piece: ProcessInput) -> Iterator[pa.RecordBatch]:
        """Call the function for the rows and timers of a piece."""
        self._begin(piece)
        if piece.processing:
            for time_us, at in zip(piece.due_us.tolist(), piece.due_groups.tolist(), strict=True):
                self._fire_by_clock(piece, time_us, at)
        else:
            yield from self._call_rows(piece)
        yield from self._fire(piece, piece.bound_us)
        if self._results.values:
            yield from self._cut()
        self._end(piece)

    def _begin(self, piece: ProcessInput) -> None:
        cursor, timers = self._cursor, self._timers
        cursor.now_us, cursor.clock_us = self._progress.watermark_us, self._progress.clock_us
        if not piece.by_arrival and not piece.processing:
            cursor.now_us = START_OF_TIME_US
        timers.begin(piece.bound_us, self._progress.clock_us)
        if not piece.processing and len(piece.due_us):
            timers.heap = list(zip(piece.due_us.tolist(), piece.due_groups.tolist(), strict=True))
            heapify(timers.heap)
            timers.event = dict.fromkeys(timers.heap, True)
        self._context.begin(piece.key_columns)
        for handle in self._handles:
            handle.begin(piece.keys)

    def _end(self, piece: ProcessInput) -> None:
        for handle in self._handles:
            handle.end()
        if self._timers.event:
            self._event_timers.apply(piece.keys, self._timers.event, piece.bound_us)
        if self._timers.clock:
            self._clock_timers.apply(piece.keys, self._timers.clock)

    def _call_rows(self, piece: ProcessInput) -> Iterator[pa.RecordBatch]:
        process, context, cursor, journal = self._process, self._context, self._cursor, self._cursor.journal
        add, add_row, produced = self._results.add, self._results.add_row, self._results.values
        heap, least_us = self._timers.heap, self._progress.watermark_us
        count, by_arrival, most = piece.rows.num_rows, piece.by_arrival, self._batch_rows * self._results.width
        times: Sequence[int | None] = [None] * count if piece.times_us is None else piece.times_us.tolist()
        rows = _python_rows(piece.rows, self._plan.fields.names)
        until_ns = self._now_ns() + SLICE_NS
        for index, (row, at, time_us) in enumerate(zip(rows, piece.groups.tolist(), times, strict=True)):
            if time_us is None or by_arrival:
                now_us = least_us if time_us is None else max(time_us, least_us)
                limit_us = piece.bound_us
            else:
                now_us = limit_us = time_us
            if heap and heap[0][0] <= limit_us:
                yield from self._fire(piece, limit_us)
            mark = len(produced)
            if mark >= most:
                yield from self._cut()
                mark = len(produced)
            if not index % _LOOK_ROWS and self._now_ns() >= until_ns:
                # Even if there is nothing: the loop may go on in between.
                yield self._results.take()
                mark, until_ns = 0, self._now_ns() + SLICE_NS
            cursor.at = at
            cursor.time_us = time_us
            cursor.now_us = now_us
            try:
                if type(row) is not dict:
                    raise row
                result = process(row, context)
                if type(result) is dict:
                    add_row(result)
                elif result is not None:
                    add(result)
            except NOT_THE_ROWS:
                raise
            except Exception as raised:
                cursor.undo()
                del produced[mark:]
                piece.failures.append(Failure(piece.rows.slice(index, 1), user_traceback(raised), False))
            else:
                if journal:
                    journal.clear()

    def _fire(self, piece: ProcessInput, limit_us: int) -> Iterator[pa.RecordBatch]:
        """Fire the event-time timers up to and with a time, in order."""
        heap, armed, cursor = self._timers.heap, self._timers.event, self._cursor
        while heap and heap[0][0] <= limit_us:
            key = heappop(heap)
            if not armed.get(key):
                continue
            armed[key] = False
            time_us, cursor.at = key
            cursor.time_us = time_us
            # A timer set for a time that has passed does not take the time to live back.
            cursor.now_us = max(time_us, cursor.now_us)
            self._call_timer(piece, Timer(self._calendar.datetime_of(time_us)), time_us)
            if len(self._results.values) >= self._batch_rows * self._results.width:
                yield from self._cut()

    def _fire_by_clock(self, piece: ProcessInput, time_us: int, at: int) -> None:
        if self._timers.clock.get((time_us, at)) is False:
            return
        self._cursor.at = at
        self._cursor.time_us = None
        self._call_timer(piece, Timer(self._calendar.datetime_of(time_us), True), time_us)

    def _call_timer(self, piece: ProcessInput, timer: Timer, time_us: int) -> None:
        produced = self._results.values
        mark = len(produced)
        try:
            self._results.add(self._on_timer(timer, self._context))
        except NOT_THE_ROWS:
            raise
        except Exception as raised:
            self._cursor.undo()
            del produced[mark:]
            row = timer_rows(self._plan, [column.slice(self._cursor.at, 1) for column in piece.key_columns], [time_us])
            piece.failures.append(Failure(row, user_traceback(raised), True))
        else:
            self._cursor.journal.clear()

    def _cut(self) -> Iterator[pa.RecordBatch]:
        return chunks(self._results.take(), self._batch_rows)


def timer_rows(plan: ProcessPlan, key_columns: list[pa.Array], times_us: Any) -> pa.RecordBatch:
    """Return timers as the rows that become their dead letters: the keys and the time."""
    times = time_array(pa.array(times_us, pa.int64()).to_numpy(), pa.timestamp("us", plan.zone))
    columns = dict(zip(plan.key_names, key_columns, strict=True))
    return pa.RecordBatch.from_pydict({**columns, TIMER_COLUMN: times})


def shown_keys(columns: list[pa.Array]) -> list[Any]:
    """Return keys as users see them: the value of one column, or a tuple of several."""
    if len(columns) == 1:
        return python_values(columns[0])
    return list(zip(*[python_values(column) for column in columns], strict=True))


def _python_rows(rows: pa.RecordBatch, names: list[str]) -> Iterator[Any]:
    """Yield the rows as dicts, and the error in place of a row that holds something Python has no value for.

    Each dict is made when it is its turn: so many at once would keep the garbage collector busy.
    """
    if not names:
        return ({} for _ in range(rows.num_rows))
    try:
        columns = [python_values(rows.column(name)) for name in names]
    except (ValueError, OverflowError) as error:
        if rows.num_rows == 1:
            return iter([error])
        half = rows.num_rows // 2
        return chain(_python_rows(rows.slice(0, half), names), _python_rows(rows.slice(half), names))
    return map(dict, map(zip, repeat(names), zip(*columns, strict=True)))
