"""What the tests of aggregates share: a stream, ways to cut it, and results worked out row by row in Python."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.core.contract import Operator
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import Expr, col
from penstock.model.job_graph import AggregateSpec
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.model.windows import Emission, Global, Hopping, Tumbling, Window, WindowAssigner, Windowing
from tests.engine.support import Collected, ManualClock

FIELDS = pa.schema([("k", pa.int64()), ("s", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us"))])
STREAM = StreamSchema(FIELDS, TimeColumn("t"))
CHANGELOG = StreamSchema(FIELDS, TimeColumn("t"), changelog=True)

AGGREGATES: dict[str, AggregateCall] = {
    "n": AggregateCall("count"),
    "total": AggregateCall("sum", (col("v"),)),
    "top": AggregateCall("max", (col("v"),)),
    "high": AggregateCall("count").filter(col("v") > 2),
}


@dataclass(frozen=True)
class Row:
    """One row of the stream; ``t`` in microseconds."""

    k: int | None
    s: str | None
    v: int | None
    t: int


def to_batch(rows: Sequence[Row], weights: Sequence[int] | None = None, unit: str = "us") -> pa.RecordBatch:
    """Return rows as a batch of `STREAM`, or of `CHANGELOG` with weights; times must be whole units."""
    scale = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(unit)
    times = [row.t * 1_000 if scale is None else row.t // scale for row in rows]
    columns = [
        pa.array([row.k for row in rows], pa.int64()),
        pa.array([row.s for row in rows], pa.string()),
        pa.array([row.v for row in rows], pa.int64()),
        pa.array(times, pa.int64()).cast(pa.timestamp(unit)),
    ]
    names = list(FIELDS.names)
    if weights is not None:
        columns.append(pa.array(weights, pa.int8()))
        names.append(WEIGHT)
    return pa.RecordBatch.from_arrays(columns, names)


def aggregate_spec(
    keys: Sequence[str] = ("k",),
    window: Window | None = None,
    *,
    mode: str = "final",
    lateness_us: int = 0,
    clock: str = "event",
    interval_us: int = 1_000_000,
    aggregates: dict[str, AggregateCall] | None = None,
) -> AggregateSpec:
    """Return the spec of `AGGREGATES` by these columns."""
    expressions: list[tuple[str, Expr]] = [(key, col(key)) for key in keys]
    windowing = None
    if window is not None:
        windowing = Windowing(window, lateness_us, clock, Emission(mode, interval_us))
    calls = tuple((AGGREGATES if aggregates is None else aggregates).items())
    return AggregateSpec(tuple(expressions), calls, windowing, Emission("updates", interval_us))


def aggregated(rows: Iterable[Row]) -> tuple[Any, ...]:
    """Return what `AGGREGATES` give for these rows."""
    rows = list(rows)
    values = [row.v for row in rows if row.v is not None]
    return (
        len(rows),
        sum(values) if values else None,
        max(values) if values else None,
        sum(value > 2 for value in values),
    )


def key_of(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    """Return a row's key."""
    return tuple(getattr(row, key) for key in keys)


class SevenAndTwenty(WindowAssigner):
    """Windows of 20 for every row, of 5 besides unless the time is a multiple of 7; none for times ending in 3."""

    def assign(self, times_us: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        pairs = [
            (row, start, end) for row, time in enumerate(times_us.tolist()) for start, end in seven_and_twenty(time)
        ]
        columns = np.array(pairs, np.int64).reshape(-1, 3)
        return columns[:, 0], columns[:, 1], columns[:, 2]


def seven_and_twenty(time: int) -> list[tuple[int, int]]:
    """Return the windows that `SevenAndTwenty` gives one time."""
    if time % 10 == 3:
        return []
    windows = [(time // 20 * 20, time // 20 * 20 + 20)]
    if time % 7:
        windows.append((time // 5 * 5, time // 5 * 5 + 5))
    return windows


def windows_of(window: Window, time: int) -> list[tuple[int, int]]:
    """Return the windows [start, end) that contain a time, found by trying."""
    if isinstance(window, Tumbling):
        window = Hopping(window.size_us, window.size_us, window.offset_us)
    if isinstance(window, Hopping):
        starts = range(time - window.size_us, time + 1)
        aligned = [start for start in starts if (start - window.offset_us) % window.hop_us == 0]
        return [(start, start + window.size_us) for start in aligned if start <= time < start + window.size_us]
    if isinstance(window, Global):
        return [(0, 0)]
    return seven_and_twenty(time)


@dataclass
class WindowModel:
    """Windows row by row: the rows of every window, and the rows that were late or had no window at all."""

    window: Window
    keys: Sequence[str]
    lateness_us: int = 0

    def __post_init__(self) -> None:
        self.groups: dict[tuple[Any, ...], list[Row]] = {}
        self.late: list[Row] = []
        self.outside = 0

    def run(self, steps: Iterable[Sequence[Row] | int]) -> "WindowModel":
        """Take rows and watermarks in order."""
        watermark = -(2**70)
        for step in steps:
            if isinstance(step, int):
                watermark = max(watermark, step)
                continue
            for row in step:
                windows = windows_of(self.window, row.t)
                over_until = -(2**70) if isinstance(self.window, Global) else watermark - self.lateness_us
                open_ = [item for item in windows if item[1] > over_until]
                for bounds in open_:
                    self.groups.setdefault((*key_of(row, self.keys), *bounds), []).append(row)
                if not windows:
                    self.outside += 1
                elif not open_:
                    self.late.append(row)
        return self

    def results(self) -> Counter[tuple[Any, ...]]:
        """Return a row for every window and key: key, start, end, aggregates (no bounds for the global window)."""
        bounds = 2 if isinstance(self.window, Global) else 0
        return Counter(
            (group[: len(group) - bounds] if bounds else group) + aggregated(rows)
            for group, rows in self.groups.items()
        )


def as_rows(batches: Iterable[pa.RecordBatch], weighted: bool = False) -> Counter[tuple[Any, ...]]:
    """Return result rows as tuples with times in microseconds; of a changelog, what is left once all is applied."""
    counted: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        columns = [_plain(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            if weighted:
                counted[row[:-1]] += row[-1]
            else:
                counted[row] += 1
    assert all(count >= 0 for count in counted.values()), counted
    return Counter({row: count for row, count in counted.items() if count})


def _plain(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        scale = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(column.type.unit)
        raw = column.cast(pa.int64()).to_pylist()
        return [value // 1_000 if scale is None else value * scale for value in raw]
    values: list[Any] = column.to_pylist()
    return values


def rows_to_tuples(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return rows of the stream, as `Collected` gives them, without their times."""
    return sorted(((row["k"], row["s"], row["v"]) for row in rows), key=repr)


DELAYS = st.lists(st.sampled_from([0, 1, 4, 11, 30]), max_size=30)
"""Microseconds that pass before each batch."""


def arrivals(
    operator: Operator, rows: Sequence[Row], clock: ManualClock, delays_us: Sequence[int]
) -> Iterator[tuple[list[Row], Collected]]:
    """Give an operator rows at the times of a clock, and call its timers whenever they are due.

    Yield after every batch its rows, their times those of their arrival, and all that has come out; then the same after
    a long time without rows, and at the end of time.
    """
    collected = Collected()
    pauses = iter([*delays_us, *[1] * len(rows), 1_000])
    for start in range(0, len(rows) + 3, 3):
        left_us = next(pauses) if start < len(rows) else 1_000
        while (due_ns := operator.timer_ns()) is not None and due_ns <= clock.monotonic_ns() + left_us * 1_000:
            step_us = max(0, due_ns - clock.monotonic_ns()) // 1_000
            clock.advance_us(step_us)
            left_us -= step_us
            collected.add(operator.on_timer(clock.monotonic_ns()))
        clock.advance_us(left_us)
        arrived = [replace(row, t=clock.wall_us()) for row in rows[start : start + 3]]
        if arrived:
            collected.add(operator.process(0, Batch(to_batch(arrived))))
        # Of no concern to windows of processing time; whatever `operator` does before a step, timers come after it.
        collected.add(operator.on_watermark(start))
        assert operator.context.counters.balanced()
        yield arrived, collected
    collected.add(operator.on_watermark(END_OF_TIME_US))
    collected.add(operator.on_end())
    yield [], collected


KEYS = st.sampled_from([(), ("k",), ("s",), ("k", "s")])


@st.composite
def streams(
    draw: st.DrawFn, *, delay: int = 12, steps: tuple[int, int] = (0, 4), unit_us: int = 1, most: int = 60
) -> list[Row]:
    """Draw rows whose times run ahead of each other by no more than ``delay``; now and then time jumps."""
    count = draw(st.integers(0, most))
    rows = []
    front = draw(st.integers(-50, 50))
    for _ in range(count):
        front += draw(st.one_of(st.integers(*steps), st.sampled_from([0, 0, 37, 100])))
        rows.append(
            Row(
                draw(st.sampled_from([1, 2, 3, None])),
                draw(st.sampled_from(["", "a", "long enough to be no inline string", None])),
                draw(st.sampled_from([-5, 0, 1, 3, 9, None])),
                (front - draw(st.integers(0, delay))) * unit_us,
            )
        )
    return rows


@st.composite
def cuts(draw: st.DrawFn, rows: list[Row], watermark: Callable[[list[Row]], int] | None) -> list[list[Row] | int]:
    """Cut rows into batches, with watermarks here and there: what ``watermark`` gives for the rows so far, or less."""
    steps: list[list[Row] | int] = []
    start = 0
    while start < len(rows):
        size = draw(st.sampled_from([1, 1, 2, 3, 7, 60]))
        steps.append(rows[start : start + size])
        start += size
        if watermark is not None and draw(st.booleans()):
            steps.append(watermark(rows[:start]) - draw(st.sampled_from([0, 0, 1, 5])))
    return steps
