"""The inner join within tumbling or hopping windows of event time.

Rows wait unindexed until the watermark closes their windows; then one hash join over all closing windows of both
sides, keyed by (window, keys), finds the pairs.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import LATE, MAIN, Emission, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us, time_array
from penstock.engine.operators.aggregates.pane_windows import PaneWindows
from penstock.engine.operators.joins.join_schema import LATE_RIGHT, join_output, window_bounds_type
from penstock.engine.operators.joins.join_side import TimedSide, join_sides
from penstock.engine.operators.joins.join_windows import shared_windows
from penstock.engine.operators.joins.same_keys import same_keys
from penstock.engine.operators.joins.window_index import WindowIndex
from penstock.engine.operators.row_chunks import ChunkRows, RowChunks
from penstock.engine.operators.timed_operator import TimedOperator
from penstock.model.errors import BugError
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Hopping, Tumbling
from penstock.state.keys.arrays import Ints


class WindowJoin(TimedOperator):
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
        self._sides = join_sides(spec, left, right, name, TimedSide)
        self._exact = self._sides[0].exact
        self._closed = self._windows.open_from(START_OF_TIME_US)

    def open(self, context: OperatorContext) -> None:
        """Open both sides' logs."""
        super().open(context)
        self._closed = self._windows.open_from(self._passed_us)
        self._waiting = [
            RowChunks(context.state, name, side.fields, side.words, side.locate)
            for side, name in zip(self._sides, ("left", "right"), strict=True)
        ]

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Keep the rows whose windows are not all over."""
        side, counters = self._sides[port], self.context.counters
        counters.rows_in += batch.rows.num_rows
        self._ingest_ns = batch.ingest_ns
        rows = batch.rows
        panes, first = self._windows.panes(event_times_us(rows, side.time))
        open_from = self._windows.first_pane(self._closed)
        if first < open_from:
            late = panes < open_from
            counters.late += int(np.count_nonzero(late))
            yield (LATE_RIGHT if port else LATE), batch.with_rows(rows.filter(pa.array(late)))
            rows, panes = rows.filter(pa.array(~late)), panes[~late]
        kept, times = side.read(self.context, rows, [side.time.name])
        counters.folded += kept.num_rows
        if kept.num_rows < rows.num_rows:
            panes, _ = self._windows.panes(event_times_us(times, side.time))
        self._waiting[port].add(kept, panes)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Emit the pairs of the windows this closes, and let go of their rows."""
        self._passed_us = time_us
        first, closed = self._closed, self._windows.open_from(time_us)
        if closed <= first:
            return
        self._closed = closed
        touched = self._windows.first_pane(closed - 1) + self._windows.per_window
        left, right = (waiting.below(touched) for waiting in self._waiting)
        if left and right:
            for sides in shared_windows(self._windows, left, right, first, closed):
                yield from self._join(sides)
        for waiting in self._waiting:
            waiting.drop_below(self._windows.first_pane(closed))

    def output_watermark(self, time_us: int) -> int:
        """Hold the watermark back by the lateness: a window that is still open may be that old."""
        if time_us == END_OF_TIME_US:
            return time_us
        return max(START_OF_TIME_US, time_us - self._windows.lateness_us)

    def due_us(self) -> int | None:
        """Return the watermark at which the first window with a row is over."""
        panes = [pane for waiting in self._waiting if (pane := waiting.first()) is not None]
        if not panes:
            return None
        window = max(self._closed, self._windows.first_window(min(panes)))
        return min(END_OF_TIME_US, self._windows.over_at_us(window))

    def _join(self, sides: tuple[Sequence[ChunkRows], Sequence[ChunkRows]]) -> Iterator[Emission]:
        """Emit the pairs of equal (window, keys): index the smaller side and look the other's rows up."""
        small = int(_count(sides[1]) < _count(sides[0]))
        index = WindowIndex(ChunkRows.concat(sides[small]), self.context.batch_rows)
        pairs: list[tuple[Ints, Ints, Ints]] = []
        count = 0
        for part in sides[1 - small]:
            for positions, matches in index.match(part):
                if count + len(matches) > self.context.batch_rows:
                    yield from self._emit(pairs)
                    pairs, count = [], 0
                ids = (index.rows.ids[matches], part.ids[positions])
                pairs.append((ids[small], ids[1 - small], index.rows.at[matches]))
                count += len(matches)
        yield from self._emit(pairs)

    def _emit(self, pairs: list[tuple[Ints, Ints, Ints]]) -> Iterator[Emission]:
        """Emit pairs of (left id, right id, window), at most ``batch_rows`` of them, as one batch."""
        if not pairs:
            return
        *ids, windows = (np.concatenate(column) for column in zip(*pairs, strict=True))
        if not self._exact:
            keys = (
                side.encode(waiting.take(of, side.keys))
                for side, waiting, of in zip(self._sides, self._waiting, ids, strict=True)
            )
            same = np.flatnonzero(same_keys(*keys))
            ids, windows = [of[same] for of in ids], windows[same]
        if len(windows):
            parts = zip(self._waiting, ids, self._sides, strict=True)
            rows = [waiting.take(of, side.needed) for waiting, of, side in parts]
            yield MAIN, Batch(self._build(rows, windows), ingest_ns=self._ingest_ns)

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


def _count(parts: Sequence[ChunkRows]) -> int:
    return sum(part.ids.size for part in parts)
