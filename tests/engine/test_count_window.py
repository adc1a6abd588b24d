"""Count windows against sorting everything by key and time and cutting it."""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.count_window import CountWindowAggregate
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.job_graph import LATE, MAIN, AggregateSpec
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Count, Emission, Windowing
from tests.engine.support import Collected, ManualClock, collect, open_operator

INPUT = StreamSchema(
    pa.schema([("at", pa.timestamp("us")), ("k", pa.string()), ("j", pa.int64()), ("v", pa.int64())]),
    TimeColumn("at"),
)
AGGREGATES = (
    ("n", AggregateCall("count")),
    ("total", AggregateCall("sum", (col("v"),))),
    ("begins", AggregateCall("first", (col("v"),))),
    ("ends", AggregateCall("last", (col("v"),))),
)
KEYS = {(): (), ("k",): (("k", col("k")),), ("k", "j"): (("k", col("k")), ("j", col("j")))}

timed_rows = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 12),
            "k": st.one_of(st.none(), st.sampled_from("ab")),
            "j": st.one_of(st.none(), st.integers(0, 1)),
            "v": st.integers(-3, 3),
        }
    ),
    max_size=50,
)


def operator_of(keys: tuple[str, ...], windowing: Windowing, **options: Any) -> CountWindowAggregate:
    spec = AggregateSpec(KEYS[keys], AGGREGATES, windowing)
    return open_operator(CountWindowAggregate(spec, INPUT, "w"), **options)


def steps_of(rows: list[dict[str, Any]], cut: random.Random) -> list[pa.RecordBatch | int]:
    """Batches of random sizes, with watermarks no later row falls behind."""
    steps: list[pa.RecordBatch | int] = []
    at = 0
    passed = -1
    while at < len(rows):
        size = cut.randint(1, 8)
        steps.append(pa.RecordBatch.from_pylist(rows[at : at + size], schema=INPUT.fields))
        at += size
        watermark = min((row["at"] for row in rows[at:]), default=12) - cut.randint(0, 2)
        if watermark > passed and cut.random() < 0.7:
            steps.append(watermark)
            passed = watermark
    return steps


def total_order(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["at"], row["k"] is not None, row["k"] or "", row["j"] is not None, row["j"] or 0, row["v"])


def expected(rows: list[dict[str, Any]], keys: tuple[str, ...], size: int) -> Counter[tuple[Any, ...]]:
    windows: Counter[tuple[Any, ...]] = Counter()
    for key in {tuple(row[name] for name in keys) for row in rows}:
        mine = [row for row in rows if tuple(row[name] for name in keys) == key]
        mine.sort(key=total_order)
        for start in range(0, len(mine), size):
            window = mine[start : start + size]
            first_us, last_us = window[0]["at"], window[-1]["at"]
            begins = min(row["v"] for row in window if row["at"] == first_us)
            ends = max(row["v"] for row in window if row["at"] == last_us)
            total = sum(row["v"] for row in window)
            windows[(*key, first_us, last_us, len(window), total, begins, ends)] += 1
    return windows


def found(collected: Collected) -> Counter[tuple[Any, ...]]:
    windows: Counter[tuple[Any, ...]] = Counter()
    for batch in collected.batches.get(MAIN, []):
        for name in ("window_start", "window_end"):
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, name, batch.column(name).cast(pa.int64()))
        windows.update(tuple(row.values()) for row in batch.to_pylist())
    return windows


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    timed_rows,
    st.sampled_from(list(KEYS)),
    st.integers(1, 5),
    st.sampled_from([1, 4, 1000]),
    st.integers(0, 2),
    st.integers(0, 10**6),
)
def test_equals_sorting_and_cutting(
    rows: list[dict[str, Any]], keys: tuple[str, ...], size: int, batch_rows: int, lateness_us: int, seed: int
) -> None:
    operator = operator_of(keys, Windowing(Count(size), lateness_us), batch_rows=batch_rows)
    collected = collect(operator, steps_of(rows, random.Random(seed)))
    assert found(collected) == expected(rows, keys, size)
    assert not collected.late
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))
    assert operator.context.counters.folded == len(rows)


def test_full_windows_leave_with_the_watermark_and_open_ones_at_the_end() -> None:
    operator = operator_of(("k",), Windowing(Count(2)))
    rows = [{"at": at, "k": "a", "j": 0, "v": at} for at in (3, 1, 2)]
    batch = pa.RecordBatch.from_pylist(rows, schema=INPUT.fields)
    assert not collect(operator, [batch, 2], end=False).rows()
    assert [row["total"] for row in collect(operator, [3], end=False).rows()] == [3]
    assert operator.output_watermark(3) == 2
    assert [row["total"] for row in collect(operator, []).rows()] == [3]
    assert operator.context.state.bytes_used() < 20_000


def test_rows_that_the_watermark_has_passed_are_late() -> None:
    operator = operator_of(("k",), Windowing(Count(2), lateness_us=2))
    rows = [{"at": at, "k": "a", "j": 0, "v": at} for at in (7, 8, 9)]
    collected = collect(operator, [10, pa.RecordBatch.from_pylist(rows, schema=INPUT.fields)])
    assert [row["v"] for row in collected.rows(LATE)] == [7]
    assert [row["total"] for row in collected.rows()] == [17]
    assert operator.context.counters.late == 1


def test_by_the_clock_rows_count_as_they_arrive() -> None:
    clock = ManualClock(wall_us=1_000)
    operator = operator_of((), Windowing(Count(2), clock="processing"), clock=clock)
    rows = [{"at": 10 - at, "k": None, "j": None, "v": at} for at in range(3)]
    batch = pa.RecordBatch.from_pylist(rows, schema=INPUT.fields)
    (first,) = collect(operator, [batch], end=False).batches[MAIN]
    clock.advance_us(5)
    (second,) = collect(operator, [batch.slice(0, 1)], end=False).batches[MAIN]
    assert first.column("window_end").cast(pa.int64()).to_pylist() == [1_000]
    assert first.column("total").to_pylist() == [1]
    assert second.column("window_start").cast(pa.int64()).to_pylist() == [1_000]
    assert second.column("window_end").cast(pa.int64()).to_pylist() == [1_005]


def test_rows_that_cannot_be_computed_are_dead_letters() -> None:
    aggregates = (("total", AggregateCall("sum", (col("v") + 1,))),)
    spec = AggregateSpec(KEYS[("k",)], aggregates, Windowing(Count(2)))
    operator = open_operator(CountWindowAggregate(spec, INPUT, "w"))
    rows = [{"at": at, "k": "a", "j": 0, "v": value} for at, value in enumerate((1, 2**63 - 1, 2))]
    collected = collect(operator, [pa.RecordBatch.from_pylist(rows, schema=INPUT.fields)])
    assert [row["total"] for row in collected.rows()] == [5]
    assert operator.context.counters.dead_lettered == 1


def test_updates_are_refused() -> None:
    with pytest.raises(PlanError, match="once, when it is full"):
        operator_of(("k",), Windowing(Count(2), emission=Emission("updates")))


def test_the_end_may_be_said_twice() -> None:
    operator = operator_of(("k",), Windowing(Count(2)))
    rows = [{"at": 1, "k": "a", "j": 0, "v": 1}]
    list(operator.process(0, Batch(pa.RecordBatch.from_pylist(rows, schema=INPUT.fields))))
    assert len(list(operator.on_watermark(END_OF_TIME_US))) == 1
    assert not list(operator.on_watermark(END_OF_TIME_US))
    assert not list(operator.on_end())
