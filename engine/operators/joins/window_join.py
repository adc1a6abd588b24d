"""The inner join within tumbling or hopping windows of event time.

Rows wait unindexed until the watermark closes their windows; then one hash join over all closing windows of both
sides, keyed by (window, keys), finds the pairs.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.contract import LATE, MAIN, Emission, Notes, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us, time_array
from penstock.engine.operators.aggregates.pane_windows import PaneWindows
from penstock.engine.operators.joins.join_schema import LATE_RIGHT, join_output, window_bounds_type
from penstock.engine.operators.joins.join_side import TimedSide, join_sides
from penstock.engine.operators.joins.join_windows import shared_windows
from penstock.engine.operators.joins.pair_sample import PairSample
from penstock.engine.operators.joins.same_keys import same_keys
from penstock.engine.operators.joins.window_index import WindowIndex
from penstock.engine.operators.key_sampler import no_buckets
from penstock.engine.operators.row_chunks import ChunkRows, RowChunks
from penstock.engine.operators.timed_operator import TimedOperator
from penstock.model.errors import BugError
from penstock.model.join_specs import JoinSpec
from penstock.model.keep_rates import STEPS
from penstock.model.result_columns import BUCKET
from penstock.model.schema import StreamSchema
from penstock.model.windows import Hopping, Tumbling
from penstock.state.keys.arrays import Ints


class WindowJoin(TimedOperator):
    """Joins rows with equal keys that share a window; the pairs of a window leave once, when it is over.

    Rows are counted as folded, those with a null key as filtered. Rows whose windows are all over leave through
    ``late`` (left) and ``late_right``, as they came. Of a sample of keys the pairs of a window leave at the least rate
    of its rows, all those of a key or none.
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
        self._sample = PairSample(spec, left, right, name, self._windows.size_us)
        self._closed = self._windows.open_from(START_OF_TIME_US)

    def open(self, context: OperatorContext) -> None:
        """Open both sides' logs."""
        super().open(context)
        self._closed = self._windows.open_from(self._passed_us)
        self._sample.open(context, self._starts_us(self._closed))
        self._waiting = [
            RowChunks(context.state, name, side.fields, side.words, side.locate)
            for side, name in zip(self._sides, ("left", "right"), strict=True)
        ]

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Keep the rows whose windows are not all over."""
        side, counters = self._sides[port], self.context.counters
        batch = self._sample.kept(port, batch)
        if not batch.rows.num_rows:
            return
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
        self._sample.forget(self._starts_us(closed))

    def notes(self) -> Notes:
        """Return the watermark, and the rates of what waits."""
        return {**super().notes(), **self._sample.notes()}

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
        if not len(windows):
            return
        if not self._sample:
            yield MAIN, self._pairs(ids, windows, STEPS, no_buckets(len(windows)))
            return
        for places, limit, buckets in self._sample.parts(self._limits(windows), self._hashes(ids[0])):
            chosen = slice(None) if places is None else places
            yield MAIN, self._pairs([of[chosen] for of in ids], windows[chosen], limit, buckets)

    def _limits(self, windows: Ints) -> Ints:
        """Return the least rate of the rows of each window, in steps."""
        distinct, places = np.unique(windows, return_inverse=True)
        ends_us = self._windows.ends_of(distinct)
        left, right = (self._sample.least(port, ends_us - self._windows.size_us, ends_us - 1) for port in (0, 1))
        return np.minimum(left, right)[places]

    def _hashes(self, left: Ints) -> NDArray[np.uint64]:
        side = self._sides[0]
        return side.hashes(self._waiting[0].take(left, list(dict.fromkeys(side.keys))))

    def _pairs(self, ids: list[Ints], windows: Ints, limit: int, buckets: pa.Array) -> Batch:
        parts = zip(self._waiting, ids, self._sides, strict=True)
        rows = [waiting.take(of, side.needed) for waiting, of, side in parts]
        return Batch(self._build(rows, windows, buckets), limit / STEPS, self._ingest_ns)

    def _starts_us(self, window: int) -> int:
        """Return when a window begins, within the bounds of time."""
        return max(START_OF_TIME_US, self._windows.ends_us(window) - self._windows.size_us)

    def _build(self, rows: list[pa.RecordBatch], windows: Ints, buckets: pa.Array) -> pa.RecordBatch:
        ends_us = self._windows.ends_of(windows)
        columns = []
        for _, side, column in self._columns:
            if column == BUCKET:
                columns.append(buckets)
            elif side >= 0:
                columns.append(rows[side].column(column))
            else:
                bounds_us = ends_us if column == "window_end" else ends_us - self._windows.size_us
                columns.append(time_array(bounds_us, self._bounds_type))
        return pa.RecordBatch.from_arrays(columns, schema=self._output.fields)


def _count(parts: Sequence[ChunkRows]) -> int:
    return sum(part.ids.size for part in parts)
