"""Count windows against sorting everything by key and time and cutting it."""

import random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.count_window import CountWindowAggregate
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.model.job_graph import LATE, MAIN, AggregateSpec
from penstock.model.windows import Count, Windowing
from tests.engine.dataflow.dozing import MANY_CUTS
from tests.engine.operators.aggregates.count_window_support import (
    INPUT,
    KEYS,
    batch_of,
    expected,
    found,
    operator_of,
    restarting_of,
    steps_of,
    timed_rows,
)
from tests.engine.support import ManualClock, collect, open_operator


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    timed_rows,
    st.sampled_from(list(KEYS)),
    st.integers(1, 5),
    st.sampled_from([1, 4, 1000]),
    st.integers(0, 2),
    MANY_CUTS,
    st.integers(0, 10**6),
)
def test_equals_sorting_and_cutting(
    rows: list[dict[str, Any]],
    keys: tuple[str, ...],
    size: int,
    batch_rows: int,
    lateness_us: int,
    restarts: list[str],
    seed: int,
) -> None:
    operator = restarting_of(keys, Windowing(Count(size), lateness_us), restarts, batch_rows=batch_rows)
    collected = collect(operator, steps_of(rows, random.Random(seed)))
    assert found(collected) == expected(rows, keys, size)
    assert not collected.late
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))
    assert operator.context.counters.folded == len(rows)


def test_full_windows_leave_with_the_watermark_and_open_ones_at_the_end() -> None:
    operator = operator_of(("k",), Windowing(Count(2)))
    rows = [{"at": at, "k": "a", "j": 0, "v": at} for at in (3, 1, 2)]
    batch = batch_of(rows)
    assert not collect(operator, [batch, 2], end=False).rows()
    assert [row["total"] for row in collect(operator, [3], end=False).rows()] == [3]
    assert operator.output_watermark(3) == 2
    assert [row["total"] for row in collect(operator, []).rows()] == [3]
    assert operator.context.state.bytes_used() < 20_000


def test_rows_that_the_watermark_has_passed_are_late() -> None:
    operator = operator_of(("k",), Windowing(Count(2), lateness_us=2))
    rows = [{"at": at, "k": "a", "j": 0, "v": at} for at in (7, 8, 9)]
    collected = collect(operator, [10, batch_of(rows)])
    assert [row["v"] for row in collected.rows(LATE)] == [7]
    assert [row["total"] for row in collected.rows()] == [17]
    assert operator.context.counters.late == 1


def test_by_the_clock_rows_count_as_they_arrive() -> None:
    clock = ManualClock(wall_us=1_000)
    operator = operator_of((), Windowing(Count(2), clock="processing"), clock=clock)
    rows = [{"at": 10 - at, "k": None, "j": None, "v": at} for at in range(3)]
    batch = batch_of(rows)
    (first,) = collect(operator, [batch], end=False).batches[MAIN]
    clock.advance_us(5)
    (second,) = collect(operator, [batch.slice(0, 1)], end=False).batches[MAIN]
    assert first.column("window_end").cast(pa.int64()).to_pylist() == [1_000]
    assert first.column("total").to_pylist() == [1]
    assert second.column("window_start").cast(pa.int64()).to_pylist() == [1_000]
    assert second.column("window_end").cast(pa.int64()).to_pylist() == [1_005]


def test_the_clock_does_not_go_back_with_a_restart() -> None:
    clock = ManualClock(wall_us=1_000)
    operator = restarting_of((), Windowing(Count(2), clock="processing"), ["", "two", "one"], clock=clock)
    batch = batch_of([{"at": 0, "k": None, "j": None, "v": 1}])
    assert not collect(operator, [batch], end=False).rows()
    clock.set_wall_us(700)
    collect(operator, [batch.slice(0, 0), -5], end=False)
    (window,) = collect(operator, [batch], end=False).batches[MAIN]
    assert window.column("window_end").cast(pa.int64()).to_pylist() == [1_000]


def test_a_watermark_matters_from_the_first_row_that_it_lets_go() -> None:
    operator = operator_of(("k",), Windowing(Count(2), lateness_us=4))
    assert operator.due_us() is None
    rows = [{"at": at, "k": "a", "j": 0, "v": at} for at in (7, 6)]
    collect(operator, [batch_of(rows), 8], end=False)
    assert operator.due_us() == 11
    collect(operator, [11], end=False)
    assert operator.due_us() == 12
    assert collect(operator, [batch_of(rows[:1]), 12], end=False).rows()
    assert operator.due_us() == END_OF_TIME_US
    collect(operator, [])
    assert operator.due_us() is None


def test_rows_that_cannot_be_computed_are_dead_letters() -> None:
    aggregates = (("total", AggregateCall("sum", (col("v") + 1,))),)
    spec = AggregateSpec(KEYS[("k",)], aggregates, Windowing(Count(2)))
    operator = open_operator(CountWindowAggregate(spec, INPUT, "w"))
    rows = [{"at": at, "k": "a", "j": 0, "v": value} for at, value in enumerate((1, 2**63 - 1, 2))]
    collected = collect(operator, [batch_of(rows)])
    assert [row["total"] for row in collected.rows()] == [5]
    assert operator.context.counters.dead_lettered == 1


def test_the_end_may_be_said_twice() -> None:
    operator = operator_of(("k",), Windowing(Count(2)))
    rows = [{"at": 1, "k": "a", "j": 0, "v": 1}]
    list(operator.process(0, Batch(batch_of(rows))))
    assert len(list(operator.on_watermark(END_OF_TIME_US))) == 1
    assert not list(operator.on_watermark(END_OF_TIME_US))
    assert not list(operator.on_end())
