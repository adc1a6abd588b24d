"""The window join against nested loops, for any interleaving of its inputs and any watermarks they allow."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import Operator
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.joins import join_windows
from penstock.engine.operators.joins.join_schema import LATE_RIGHT, join_output
from penstock.engine.operators.joins.window_join import WindowJoin
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.job_graph import LATE, MAIN
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Count, Emission, Hopping, Session, Tumbling, Windowing
from tests.engine.operators.joins.timed_join_support import CUTS, instances, restarting
from tests.engine.support import Collected, open_operator

TIME = pa.timestamp("us")
LEFT = StreamSchema(
    pa.schema([("at", TIME), ("id", pa.int64()), ("a", pa.int64()), ("s", pa.string())]), TimeColumn("at")
)
RIGHT = StreamSchema(
    pa.schema([("s", pa.string()), ("a", pa.int16()), ("id", pa.int64()), ("at", TIME)]), TimeColumn("at")
)
OUTPUT = (
    ("window_end", -1, "window_end"),
    ("l", 0, "id"),
    ("r", 1, "id"),
    ("window_start", -1, "window_start"),
)
KEYS = {
    "number": (col("a"),),
    "text": (col("s"),),
    "both": (col("s"), col("a")),
}

Row = tuple[int, int, int | None, str | None]
"""Side, time, number, text."""

row = st.tuples(
    st.integers(0, 1),
    st.integers(-30, 40),
    st.sampled_from([0, 0, 1, 1, 2, None]),
    st.sampled_from(["", "a", "a", "ab", None]),
)
rows_of_any_time = st.lists(row, max_size=4) | st.lists(row, min_size=15, max_size=40)
windows = st.sampled_from(
    [Tumbling(10), Tumbling(7, 3), Hopping(10, 5), Hopping(10, 4, 1), Hopping(12, 1), Hopping(9, 9)]
)


def spec_of(keys: str, windowing: Windowing) -> JoinSpec:
    return JoinSpec(KEYS[keys], KEYS[keys], OUTPUT, windowing)


def batch_of(rows: list[tuple[int, Row]], side: int) -> pa.RecordBatch:
    dicts = [{"at": row[1], "id": index, "a": row[2], "s": row[3]} for index, row in rows]
    fields = (LEFT, RIGHT)[side].fields
    return pa.RecordBatch.from_arrays(
        [pa.array([row[name] for row in dicts], fields.field(name).type) for name in fields.names],
        schema=fields,
    )


def run(join: Operator, rows: list[Row], cut: random.Random) -> Collected:
    """Feed both sides in batches of random sizes and interleaving, with watermarks no row falls behind."""
    collected = Collected()
    sides: list[list[tuple[int, Row]]] = [[], []]
    for index, row in enumerate(rows):
        sides[row[0]].append((index, row))
    delay = cut.choice([0, 4, 100])
    for numbered in sides:
        numbered.sort(key=lambda item: item[1][1] + cut.randint(0, delay))
    watermark = -(1 << 62)
    while any(sides):
        side = cut.choice([side for side in (0, 1) if sides[side]])
        size = cut.randint(1, 6)
        taken, sides[side] = sides[side][:size], sides[side][size:]
        collected.add(join.process(side, Batch(batch_of(taken, side))))
        assert join.context.counters.balanced()
        left = [row[1] for rest in sides for _, row in rest]
        if left and cut.random() < 0.5:
            time = min(left) - cut.randint(0, 3)
            if time > watermark:
                watermark = time
                collected.add(join.on_watermark(time))
                join.output_watermark(time)
    collected.add(join.on_watermark(END_OF_TIME_US))
    collected.add(join.on_watermark(END_OF_TIME_US))
    collected.add(join.on_end())
    assert all(part.num_rows <= join.context.batch_rows for part in collected.batches.get(MAIN, []))
    return collected


def windows_of(time: int, window: Tumbling | Hopping) -> set[int]:
    """The ends of the windows that contain a time."""
    hop = window.hop_us if isinstance(window, Hopping) else window.size_us
    starts = [j * hop + window.offset_us for j in range(-100, 101)]
    return {start + window.size_us for start in starts if start <= time < start + window.size_us}


def pairs_of(rows: list[Row], keys: str, window: Tumbling | Hopping) -> Counter[tuple[int, int, int]]:
    def key(row: Row) -> tuple[Any, ...]:
        return {"number": row[2:3], "text": row[3:], "both": row[2:]}[keys]

    return Counter(
        (end, i, j)
        for i, one in enumerate(rows)
        for j, other in enumerate(rows)
        if one[0] == 0 and other[0] == 1 and key(one) == key(other) and None not in key(one)
        for end in windows_of(one[1], window) & windows_of(other[1], window)
    )


def found(collected: Collected, window: Tumbling | Hopping) -> Counter[tuple[int, int, int]]:
    pairs: Counter[tuple[int, int, int]] = Counter()
    for batch in collected.batches.get(MAIN, []):
        ends = batch.column("window_end").cast(pa.int64()).to_pylist()
        starts = batch.column("window_start").cast(pa.int64()).to_pylist()
        assert [end - window.size_us for end in ends] == starts
        pairs.update(zip(ends, batch["l"].to_pylist(), batch["r"].to_pylist(), strict=True))
    return pairs


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    rows_of_any_time,
    windows,
    st.sampled_from(["number", "text", "both"]),
    st.integers(0, 2),
    st.sampled_from([1, 4, 1000]),
    st.integers(0, 10**6),
    CUTS,
)
def test_equals_nested_loops(
    rows: list[Row], window: Any, keys: str, lateness_us: int, batch_rows: int, seed: int, cuts: list[str]
) -> None:
    spec = spec_of(keys, Windowing(window, lateness_us))
    join = open_operator(restarting(lambda: WindowJoin(spec, LEFT, RIGHT, "j"), keys, cuts), batch_rows=batch_rows)
    collected = run(join, rows, random.Random(seed))
    assert found(collected, window) == pairs_of(rows, keys, window)
    assert not collected.late
    for instance in instances(join):
        assert instance.context.state.bytes_used() < 10_000
        assert instance.due_us() is None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows_of_any_time, windows, st.integers(0, 10**6))
def test_windows_in_small_groups(rows: list[Row], window: Any, seed: int) -> None:
    saved, join_windows.GROUP_ROWS = join_windows.GROUP_ROWS, 5
    try:
        join = open_operator(WindowJoin(spec_of("number", Windowing(window)), LEFT, RIGHT, "j"))
        assert found(run(join, rows, random.Random(seed)), window) == pairs_of(rows, "number", window)
    finally:
        join_windows.GROUP_ROWS = saved


def test_rows_of_windows_that_are_over_are_late_on_their_side() -> None:
    join = open_operator(WindowJoin(spec_of("number", Windowing(Tumbling(10), 5)), LEFT, RIGHT, "j"))
    collected = Collected()
    collected.add(join.on_watermark(14))
    assert join.output_watermark(14) == 9
    rows: list[Row] = [(0, 9, 1, None), (1, 9, 1, None)]
    collected.add(join.process(0, Batch(batch_of([(0, rows[0])], 0))))
    collected.add(join.on_watermark(15))
    collected.add(join.process(1, Batch(batch_of([(1, rows[1])], 1))))
    collected.add(join.process(0, Batch(batch_of([(2, rows[0]), (3, (0, 10, 1, None))], 0))))
    assert [row["id"] for row in collected.rows(LATE_RIGHT)] == [1]
    assert [row["id"] for row in collected.rows(LATE)] == [2]
    assert collected.batches[LATE][0].schema == LEFT.fields
    counters = join.context.counters
    assert (counters.late, counters.folded, counters.rows_in) == (2, 2, 4)
    assert counters.balanced()


def test_pairs_leave_as_soon_as_their_window_is_over() -> None:
    join = open_operator(WindowJoin(spec_of("number", Windowing(Hopping(10, 5))), LEFT, RIGHT, "j"))
    collected = Collected()
    collected.add(join.process(0, Batch(batch_of([(0, (0, 7, 1, None))], 0))))
    collected.add(join.process(1, Batch(batch_of([(1, (1, 8, 1, None))], 1))))
    collected.add(join.on_watermark(9))
    assert not collected.rows()
    collected.add(join.on_watermark(10))
    assert len(collected.rows()) == 1
    collected.add(join.on_watermark(100))
    assert len(collected.rows()) == 2


def test_hot_key_comes_in_bounded_batches_one_at_a_time() -> None:
    join = open_operator(WindowJoin(spec_of("text", Windowing(Tumbling(1000))), LEFT, RIGHT, "j"), batch_rows=50)
    left: list[tuple[int, Row]] = [(i, (0, i, 1, "k")) for i in range(120)]
    list(join.process(0, Batch(batch_of(left, 0))))
    list(join.process(1, Batch(batch_of(left, 1))))
    emissions = iter(join.on_watermark(1000))
    assert next(emissions)[1].rows.num_rows == 50
    sizes = [batch.rows.num_rows for _, batch in emissions]
    assert sum(sizes) == 120 * 120 - 50
    assert max(sizes) <= 50


def test_equal_hashes_are_not_equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    join = open_operator(WindowJoin(spec_of("both", Windowing(Tumbling(1000))), LEFT, RIGHT, "j"))
    rows: list[Row] = [(side, 5, number, text) for side in (0, 1) for number in (1, 2) for text in ("", "a", "b", "bc")]
    for side in join._sides:
        encode = side.codec.encode

        def collide(columns: Any, rows: int | None = None, encode: Any = encode) -> Any:
            keys = encode(columns, rows)
            return type(keys)(keys.words, keys.nulls, keys.data, keys.offsets, np.zeros_like(keys.hashes))

        monkeypatch.setattr(side.codec, "encode", collide)
    collected = run(join, rows, random.Random(0))
    assert found(collected, Tumbling(1000)) == pairs_of(rows, "both", Tumbling(1000))


def test_state_survives_in_the_store() -> None:
    spec = spec_of("number", Windowing(Hopping(10, 5)))
    first = open_operator(WindowJoin(spec, LEFT, RIGHT, "j"))
    list(first.process(0, Batch(batch_of([(0, (0, 7, 1, None)), (1, (0, 30, 1, None))], 0))))
    again = WindowJoin(spec, LEFT, RIGHT, "j")
    again.open(first.context)
    collected = Collected()
    collected.add(again.process(1, Batch(batch_of([(2, (1, 8, 1, None))], 1))))
    collected.add(again.on_watermark(20))
    assert [row["l"] for row in collected.rows()] == [0, 0]


def test_schema() -> None:
    output = join_output(spec_of("number", Windowing(Tumbling(10))), LEFT, RIGHT, "j")
    assert output.time == TimeColumn("window_end", -1)
    assert output.fields.field("window_end").type == pa.timestamp("us")
    millis = StreamSchema(
        pa.schema([("at", pa.timestamp("ms", "UTC")), ("id", pa.int64()), ("a", pa.int64())]), TimeColumn("at")
    )
    spec = JoinSpec(
        KEYS["number"], KEYS["number"], (("e", -1, "window_end"), ("at", 0, "at")), Windowing(Tumbling(10_000))
    )
    output = join_output(spec, millis, RIGHT, "j")
    assert output.time == TimeColumn("e", -1)
    assert output.fields.field("e").type == pa.timestamp("ms", "UTC")
    spec = JoinSpec(KEYS["number"], KEYS["number"], (("at", 0, "at"),), Windowing(Tumbling(10_000)))
    assert join_output(spec, millis, RIGHT, "j").time is None


@pytest.mark.parametrize(
    ("windowing", "right", "words"),
    [
        (Windowing(Session(5)), RIGHT, "session"),
        (Windowing(Count(5)), RIGHT, "count"),
        (Windowing(Tumbling(5), clock="processing"), RIGHT, "event time"),
        (Windowing(Tumbling(5), emission=Emission("updates")), RIGHT, "once"),
        (Windowing(Tumbling(5)), StreamSchema(RIGHT.fields), "needs event time"),
        (Windowing(Tumbling(5)), StreamSchema(RIGHT.fields, RIGHT.time, True), "updating"),
    ],
)
def test_impossible_joins(windowing: Windowing, right: StreamSchema, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        join_output(spec_of("number", windowing), LEFT, right, "j")


def test_times_far_apart() -> None:
    rows: list[Row] = [(side, 10**15 * era, 1, None) for side in (0, 1) for era in (-2, 0, 2)]
    join = open_operator(WindowJoin(spec_of("number", Windowing(Hopping(60_000_000, 1_000_000))), LEFT, RIGHT, "j"))
    assert sum(found(run(join, rows, random.Random(1)), Hopping(60_000_000, 1_000_000)).values()) == 180
