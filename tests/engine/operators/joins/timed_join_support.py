"""Two inputs with event time in a test's hands: rows that keep to a delay, cut and interleaved at random."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.core.contract import Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.operators.joins.join_schema import LATE_RIGHT
from penstock.model.job_graph import MAIN
from penstock.model.schema import StreamSchema, TimeColumn
from tests.engine.restarts import Restarting, locate_by
from tests.engine.support import Collected

TIME = pa.timestamp("us")
LEFT = StreamSchema(
    pa.schema(
        [("at", TIME), ("id", pa.int64()), ("a", pa.int64()), ("s", pa.string()), ("until", pa.timestamp("us", "UTC"))]
    ),
    TimeColumn("at"),
)
RIGHT = StreamSchema(
    pa.schema([("s", pa.string()), ("a", pa.int16()), ("id", pa.int64()), ("at", TIME)]), TimeColumn("at")
)

Row = tuple[int, int | None, str | None, int | None]
"""Time, number, text, until."""

Pair = tuple[int | None, int | None]
"""The ids of a left and a right row."""

row = st.tuples(
    st.integers(-30, 40),
    st.sampled_from([0, 0, 1, 1, 2, None]),
    st.sampled_from(["", "a", "a", "ab", None]),
    st.one_of(st.none(), st.integers(-40, 60)),
)
rows = st.lists(row, max_size=4) | st.lists(row, min_size=12, max_size=24)

CUTS = st.lists(st.sampled_from(["", "", "", "restart", "two", "one"]), min_size=8, max_size=24)
"""What is done before each step; more often than `restarts.CUTS`, for there are more steps."""


class Punctual(Operator):
    """An operator that keeps to its word: up to `due_us` a watermark brings nothing out and removes nothing."""

    def __init__(self, inner: Operator) -> None:
        self.inner = inner

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self.inner.open(context)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        return self.inner.process(port, batch)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        due_us, held = self.inner.due_us(), self.context.state.bytes_used()
        idle_us = time_us if due_us is None else min(time_us, due_us - 1)
        passed_us = self.inner.notes()["watermark_us"]
        assert isinstance(passed_us, int)
        if idle_us > passed_us:
            assert not list(self.inner.on_watermark(idle_us)), (idle_us, due_us)
            assert self.context.state.bytes_used() == held
        if idle_us < time_us:
            yield from self.inner.on_watermark(time_us)
        next_us = self.inner.due_us()
        assert next_us is None or next_us > time_us

    def output_watermark(self, time_us: int) -> int:
        return self.inner.output_watermark(time_us)

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        return self.inner.on_barrier(epoch)

    def notes(self) -> Notes:
        return self.inner.notes()


def restarting(make: Callable[[], Operator], keys: str, cuts: Iterable[str]) -> Restarting:
    """Return a join on these keys that is `Punctual` and restarts now and then."""
    columns = {"number": "a", "text": "s", "both": "sa"}[keys]
    return Restarting(lambda: Punctual(make()), cuts, (locate_by(*columns),) * 2)


def instances(join: Restarting) -> list[Any]:
    """Return the operators that run now."""
    return [operator.inner for operator in join._inner if isinstance(operator, Punctual)]


def batch_of(side: int, numbered: Sequence[tuple[int, Row]]) -> pa.RecordBatch:
    """Return rows, numbered by their id, as one side's batch."""
    columns: dict[str, list[Any]] = {
        "id": [number for number, _ in numbered],
        "at": [row[0] for _, row in numbered],
        "a": [row[1] for _, row in numbered],
        "s": [row[2] for _, row in numbered],
        "until": [row[3] for _, row in numbered],
    }
    fields = (LEFT, RIGHT)[side].fields
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in fields], schema=fields)


def run(join: Operator, sides: Sequence[Sequence[Row]], cut: random.Random, on_time: bool = True) -> Collected:
    """Feed both sides to the end in random batches with random watermarks; check what holds at every moment.

    ``on_time``: no row is late, and a batch may know how far the other side has come. No output row is older than the
    watermark that has gone out, if it has event time.
    """
    collected = Collected()
    waiting = [list(enumerate(side)) for side in sides]
    watermark, passed, late = -100, -(1 << 63), 0

    def take(emissions: Any) -> None:
        before = len(collected.batches.get(MAIN, []))
        collected.add(emissions)
        for batch in collected.batches.get(MAIN, [])[before:]:
            assert 0 < batch.num_rows <= join.context.batch_rows
            times = batch.column("time").cast(pa.int64()).to_pylist() if "time" in batch.schema.names else []
            assert all(time >= passed for time in times), (times, passed)

    while any(waiting):
        side = cut.choice([side for side in (0, 1) if waiting[side]])
        size = cut.randint(1, 6)
        taken, waiting[side] = waiting[side][:size], waiting[side][size:]
        opposite_us = START_OF_TIME_US
        if on_time and cut.random() < 0.7:
            opposite_us = min((row[0] - cut.randint(0, 3) for _, row in waiting[1 - side]), default=END_OF_TIME_US)
        take(join.process(side, Batch(batch_of(side, taken), opposite_us=opposite_us)))
        late += sum(row[0] < watermark for _, row in taken)
        assert join.context.counters.late == late
        assert join.context.counters.balanced(), join.context.counters
        left = [row[0] for rest in waiting for _, row in rest]
        if left and cut.random() < 0.6:
            time = min(left) - cut.randint(0, 3) if on_time else cut.choice(left)
            if time > watermark:
                watermark = time
                take(join.on_watermark(time))
                passed = max(passed, join.output_watermark(time))
    for _ in range(2):
        take(join.on_watermark(END_OF_TIME_US))
    take(join.on_end())
    assert join.output_watermark(END_OF_TIME_US) == END_OF_TIME_US
    counters = join.context.counters
    assert counters.late == len(collected.late) + len(collected.rows(LATE_RIGHT))
    assert counters.rows_in == sum(map(len, sides))
    return collected


def pairs_of(collected: Collected) -> Counter[Pair]:
    """Return the (left id, right id) pairs that came out."""
    return Counter((row["l"], row["r"]) for row in collected.rows())


def sorted_by_delay(side: Sequence[Row], cut: random.Random, delay: int) -> list[Row]:
    """Return rows in order of time, but for up to ``delay``."""
    return sorted(side, key=lambda row: row[0] + cut.randint(0, delay))


def key_of(keys: str, row: Row) -> tuple[Any, ...]:
    """Return a row's key."""
    return {"number": row[1:2], "text": row[2:3], "both": row[1:3]}[keys]
