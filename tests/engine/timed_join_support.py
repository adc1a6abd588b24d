"""Two inputs with event time in a test's hands: rows that keep to a delay, cut and interleaved at random."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.contract import Operator
from penstock.engine.operators.joins.join_schema import LATE_RIGHT
from penstock.model.job_graph import MAIN
from penstock.model.schema import StreamSchema, TimeColumn
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

rows = st.lists(
    st.tuples(
        st.integers(-30, 40),
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.sampled_from(["", "a", "ab"])),
        st.one_of(st.none(), st.integers(-40, 60)),
    ),
    max_size=30,
)


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

    ``on_time``: no row is late. No output row is older than the watermark that has gone out, if it has event time.
    """
    collected = Collected()
    waiting = [list(enumerate(side)) for side in sides]
    watermark, passed = -100, -(1 << 63)

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
        take(join.process(side, Batch(batch_of(side, taken))))
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
