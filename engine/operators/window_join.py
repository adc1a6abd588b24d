"""The inner join within tumbling or hopping windows of event time (engine.md 2).

Rows wait unindexed until the watermark closes their windows; then one hash join over all closing windows of both
sides, keyed by (window, keys), finds the pairs.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.kernels.join import expand_chains, find_rows, index_rows
from penstock.engine.operators.contract import LATE, MAIN, Emission, Operator, OperatorContext
from penstock.engine.operators.event_time import event_times_us, time_array
from penstock.engine.operators.join_schema import (
    LATE_RIGHT,
    join_output,
    key_types,
    side_columns,
    window_bounds_type,
)
from penstock.engine.operators.join_side import JoinSide
from penstock.engine.operators.join_windows import WindowRows, shared_windows
from penstock.engine.operators.pane_windows import PaneWindows
from penstock.engine.operators.row_chunks import RowChunks, Waiting
from penstock.model.errors import BugError
from penstock.model.job_graph import JoinSpec
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Hopping, Tumbling
from penstock.state.arrays import read_only
from penstock.state.keys import KeyBatch

Ints = NDArray[np.int64]


class WindowJoin(Operator):
    """Joins rows with equal keys that share a window; the pairs of a window leave once, when it is over.

    Rows are counted as folded, those with a null key as filtered. Rows whose windows are all over leave through
    ``late`` (left) and ``late_right``, as they came.
    """

    def __init__(self, spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs and compile the keys.

        Raises:
            PlanError: see `join_output`.
        """
        windowing = spec.windowing
        if windowing is None or not isinstance(windowing.window, Tumbling | Hopping):
            raise BugError(f"join {name!r} is not within a tumbling or hopping window")
        self._output = join_output(spec, left, right, name)
        self._columns = spec.output
        self._windows = PaneWindows.of(windowing.window, windowing.lateness_us)
        self._bounds_type = window_bounds_type(windowing, left, right, name)
        types = key_types(spec, left, right, name)
        self._sides = (
            _Side(JoinSide(left, side_columns(spec, 0), spec.left_keys, types, name), left, side_columns(spec, 0)),
            _Side(JoinSide(right, side_columns(spec, 1), spec.right_keys, types, name), right, side_columns(spec, 1)),
        )
        self._closed = self._windows.open_from(START_OF_TIME_US)
        self._ingest_ns = 0

    def open(self, context: OperatorContext) -> None:
        """Open both sides' logs."""
        super().open(context)
        for side, name in zip(self._sides, ("left", "right"), strict=True):
            side.waiting = RowChunks(context.state, name, side.join.fields)
        self._left_out = np.empty(context.batch_rows, np.int64)
        self._right_out = np.empty(context.batch_rows, np.int64)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Keep the rows whose windows are not all over."""
        side, counters = self._sides[port], self.context.counters
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        rows, late = side.split_late(batch.rows, self._windows, self._closed)
        if late is not None:
            counters.late += late.num_rows
            yield (LATE_RIGHT if port else LATE), batch.with_rows(late)
        if rows.num_rows:
            kept, times = side.join.read(self.context, rows, [side.time.name])
            counters.folded += kept.num_rows
            panes, _ = self._windows.panes(event_times_us(times, side.time))
            side.waiting.add(kept, panes)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Emit the pairs of the windows this closes, and let go of their rows."""
        first, closed = self._closed, self._windows.open_from(time_us)
        if closed <= first:
            return
        self._closed = closed
        touched = self._windows.first_pane(closed - 1) + self._windows.per_window
        left, right = (side.waiting.below(touched) for side in self._sides)
        if left.ids.size and right.ids.size:
            for left_rows, right_rows in shared_windows(self._windows, left.at, right.at, first, closed):
                yield from self._join(left, left_rows, right, right_rows)
        for side in self._sides:
            side.waiting.drop_below(self._windows.first_pane(closed))

    def output_watermark(self, time_us: int) -> int:
        """Hold the watermark back by the lateness: a window that is still open may be that old."""
        if time_us == END_OF_TIME_US:
            return time_us
        return max(START_OF_TIME_US, time_us - self._windows.lateness_us)

    def _join(
        self, left: Waiting, left_rows: WindowRows, right: Waiting, right_rows: WindowRows
    ) -> Iterator[Emission]:
        ids = (left.ids[left_rows.positions], right.ids[right_rows.positions])
        windows = (left_rows.windows, right_rows.windows)
        keys = [side.join.encode(side.waiting.take(of, side.join.keys)) for side, of in zip(self._sides, ids, strict=True)]
        for positions in self._pairs(windows, keys):
            if not positions[0].size:
                continue
            rows = [
                side.waiting.take(of[position], side.columns)
                for side, of, position in zip(self._sides, ids, positions, strict=True)
            ]
            yield MAIN, Batch(self._build(rows, windows[0][positions[0]]), ingest_ns=self._ingest_ns)

    def _pairs(self, windows: tuple[Ints, Ints], keys: list[KeyBatch]) -> Iterator[tuple[Ints, Ints]]:
        """Yield the positions of equal (window, keys) on both sides, at most ``batch_rows`` pairs at a time."""
        words = [_comparable(batch) for batch in keys]
        build = 0 if len(keys[0]) <= len(keys[1]) else 1
        probe = 1 - build
        of_build = read_only(windows[build]), words[build]
        table = np.full(1 << (2 * len(keys[build])).bit_length(), -1, np.int64)
        older = np.empty(len(keys[build]), np.int64)
        index_rows(*of_build, table, older)
        heads = read_only(find_rows(read_only(windows[probe]), words[probe], read_only(table), *of_build))
        outs = (self._left_out, self._right_out)
        row = at = -1
        filled = self.context.batch_rows
        while filled == self.context.batch_rows:
            filled, row, at = expand_chains(heads, read_only(older), row, at, outs[probe], outs[build])
            left, right = outs[0][:filled], outs[1][:filled]
            if not _is_exact(keys[0]):
                same = _same_keys(keys[0].take(left), keys[1].take(right))
                left, right = left[same], right[same]
            yield left, right

    def _build(self, rows: list[pa.RecordBatch], windows: Ints) -> pa.RecordBatch:
        ends_us = self._windows.ends_of(windows)
        columns = []
        for _, side, column in self._columns:
            if side >= 0:
                columns.append(rows[side].column(column))
            else:
                bounds_us = ends_us if column == "window_end" else ends_us - self._windows.size_us
                columns.append(time_array(bounds_us, self._bounds_type))
        return pa.RecordBatch.from_arrays(columns, schema=self._output.fields)


class _Side:
    """One input: its keys, its event time, what the output needs of it, and its rows that wait."""

    waiting: RowChunks

    def __init__(self, join: JoinSide, schema: StreamSchema, columns: list[str]) -> None:
        if schema.time is None:
            raise BugError("a window join's input has no event time")
        self.join = join
        self.time: TimeColumn = schema.time
        self.columns = columns

    def split_late(
        self, rows: pa.RecordBatch, windows: PaneWindows, closed: int
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """Return the rows that have an open window, and those that have none."""
        panes, first = windows.panes(event_times_us(rows, self.time))
        open_from = windows.first_pane(closed)
        if first >= open_from:
            return rows, None
        late = panes < open_from
        return rows.filter(pa.array(~late)), rows.filter(pa.array(late))


def _is_exact(keys: KeyBatch) -> bool:
    """Whether one word is the whole key, so that equal words are equal keys."""
    return keys.data is None and keys.words.shape[1] == 1


def _comparable(keys: KeyBatch) -> Ints:
    return read_only(keys.words[:, 0] if _is_exact(keys) else keys.hashes.view(np.int64))


def _same_keys(one: KeyBatch, other: KeyBatch) -> NDArray[np.bool_]:
    """Return where two batches of keys of equal hashes are equal."""
    same: NDArray[np.bool_] = (one.words == other.words).all(axis=1)
    if one.offsets is None or other.offsets is None:
        return same
    same &= np.diff(one.offsets) == np.diff(other.offsets)
    candidates = np.flatnonzero(same)
    one, other = one.take(candidates), other.take(candidates)
    if one.data is None or one.offsets is None:
        raise BugError("keys lost their bytes")
    unequal = np.flatnonzero(one.data != other.data)
    same[candidates[np.searchsorted(one.offsets, unequal, side="right") - 1]] = False
    return same
