"""Reduce against sorting the rows of each key (and window) and folding them in a loop."""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.reduce_schema import plan_reduce
from penstock.model.errors import PlanError, SchemaError
from penstock.model.expressions import col
from penstock.model.job_graph import LATE, MAIN, ReduceSpec
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.model.windows import Count, Emission, Global, Hopping, Session, Tumbling, Window, Windowing
from tests.engine.dataflow.dozing import MANY_CUTS, parts
from tests.engine.operators.aggregates.reduce_support import (
    INPUT,
    KEY,
    Row,
    Uneven,
    batch_of,
    chain,
    expected,
    found,
    operator_of,
    restarting_of,
    rows_of_any_time,
    steps_of,
    windows,
)
from tests.engine.support import Collected, ManualClock, collect


@settings(max_examples=150, deadline=None, derandomize=True)
@given(rows_of_any_time, windows, st.sampled_from([1, 4, 1000]), st.integers(0, 2), MANY_CUTS, st.integers(0, 10**6))
def test_windows_equal_sorting_and_folding(
    rows: list[Row], window: Window, batch_rows: int, lateness_us: int, restarts: list[str], seed: int
) -> None:
    operator = restarting_of(window, restarts, lateness_us=lateness_us, batch_rows=batch_rows)
    collected = collect(operator, steps_of(rows, random.Random(seed)))
    assert found(collected) == expected(rows, window)
    assert not collected.late
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))
    outside = sum(row["at"] % 4 == 0 for row in rows) if isinstance(window, Uneven) else 0
    assert operator.context.counters.filtered == outside
    if not isinstance(window, Global):
        assert all(part.context.state.bytes_used() < 20_000 for part in parts(operator))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows_of_any_time, st.sampled_from([1, 4, 1000]), st.booleans(), MANY_CUTS, st.integers(0, 10**6))
def test_running_rows_are_a_changelog(
    rows: list[Row], batch_rows: int, idle: bool, restarts: list[str], seed: int
) -> None:
    clock = ManualClock()
    operator = restarting_of(None, restarts, batch_rows=batch_rows, clock=clock)
    collected = Collected()
    for step in steps_of(rows, random.Random(seed)):
        clock.advance_us(400_000)
        part = collect(operator, [step], end=False)
        if idle and operator.has_pending():
            part.add(operator.on_timer(clock.monotonic_ns()))
        for batch in part.batches.get(MAIN, []):
            collected.add([(MAIN, Batch(batch))])
    collected.add((MAIN, Batch(batch)) for batch in collect(operator, []).batches.get(MAIN, []))
    shown: Counter[tuple[Any, ...]] = Counter()
    for row in collected.rows():
        tags = None if row["tags"] is None else tuple(row["tags"])
        shown[(row["k"], row["v"], tags)] += row[WEIGHT]
        assert all(weight >= 0 for weight in shown.values())
    assert +shown == expected(rows, Global())


def test_emission_waits_for_its_interval() -> None:
    clock = ManualClock()
    operator = operator_of(None, clock=clock)
    first = {"at": 1, "k": "a", "v": 1, "tags": None}
    assert not collect(operator, [batch_of([first]), 2], end=False).rows()
    assert operator.timer_ns() == 100_000_000
    clock.advance_us(100_000)
    assert len(list(operator.on_timer(clock.monotonic_ns()))) == 1
    assert operator.timer_ns() is None
    clock.advance_us(100_000)
    rows = collect(operator, [batch_of([first | {"at": 2}]), 3], end=False).rows()
    assert [(row["v"], row[WEIGHT]) for row in rows] == [(1, -1), (32, 1)]


def test_rows_for_which_the_function_raises_are_dead_letters() -> None:
    def fussy(one: Row, other: Row) -> Row:
        one["v"] += other["v"]
        if other["v"] == 2:
            raise ValueError("two is too much")
        return one

    rows = [{"at": at, "k": "a", "v": value, "tags": None} for at, value in enumerate((1, 2, 4, 2, 8))]
    operator = operator_of(Hopping(4, 2), fussy)
    collected = collect(operator, [batch_of(rows)])
    assert sorted(row["v"] for row in collected.rows()) == [1, 5, 8, 12]
    rejected: Any = operator.context.dead_letters
    assert [row["v"] for row in rejected.rows] == [2, 2]
    assert all("two is too much" in error for error in rejected.errors)
    assert operator.context.counters.dead_lettered == 2
    assert operator.context.counters.folded == 3


def test_rows_that_the_watermark_has_passed_are_late() -> None:
    operator = operator_of(Tumbling(10), lateness_us=2)
    rows = [{"at": at, "k": "a", "v": at, "tags": None} for at in (7, 8, 9)]
    collected = collect(operator, [10, batch_of(rows)])
    assert [row["v"] for row in collected.rows(LATE)] == [7]
    assert operator.context.counters.late == 1
    assert operator.output_watermark(10) == 7


@pytest.mark.parametrize(
    ("window", "over_us"),
    [(Tumbling(10), 12), (Session(3), 13), (Count(3), END_OF_TIME_US), (Global(), END_OF_TIME_US)],
)
def test_a_watermark_matters_from_the_first_row_or_window_that_it_ends(window: Window, over_us: int) -> None:
    operator = operator_of(window, lateness_us=2)
    assert operator.due_us() is None
    rows = [{"at": at, "k": "a", "v": 1, "tags": None} for at in (7, 4)]
    collect(operator, [batch_of(rows), 4], end=False)
    assert operator.due_us() == 7
    collect(operator, [10], end=False)
    assert operator.due_us() == over_us
    collect(operator, [])
    assert operator.due_us() is None


def test_keys_that_are_expressions_become_columns() -> None:
    operator = operator_of(Tumbling(10), keys=(("k", col("k")), ("odd", col("v") % 2)))
    rows = [{"at": at, "k": None, "v": at, "tags": None} for at in range(4)]
    collected = collect(operator, [batch_of(rows)])
    output = plan_reduce(
        ReduceSpec((("k", col("k")), ("odd", col("v") % 2)), chain, Windowing(Tumbling(10))), INPUT, "r"
    ).output
    assert output.fields.names == ["odd", "window_start", "window_end", "at", "k", "v", "tags"]
    assert output.time == TimeColumn("window_end", -1)
    assert collected.batches[MAIN][0].schema == output.physical
    assert sorted((row["k"], row["odd"], row["v"]) for row in collected.rows()) == [(None, 0, 2), (None, 1, 34)]


def test_without_keys_everything_is_one_group() -> None:
    rows = [{"at": at, "k": None, "v": 1, "tags": None} for at in range(3)]
    assert [row["v"] for row in collect(operator_of(Global(), keys=()), [batch_of(rows)]).rows()] == [993]


@dataclass
class Whole:
    at: Any
    k: str
    v: int
    tags: Any


def test_the_function_may_return_a_dataclass() -> None:
    rows = [{"at": at, "k": "a", "v": 1, "tags": None} for at in range(3)]
    operator = operator_of(Global(), lambda one, other: Whole(**(one | {"v": one["v"] + other["v"]})))
    assert [row["v"] for row in collect(operator, [batch_of(rows)]).rows()] == [3]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (7, "must return a dict"),
        ({"at": None, "k": "a", "v": 1}, "without 'tags'"),
        ({"at": None, "k": "a", "v": 1, "tags": [], "w": 1}, "with 'w'"),
        ({"at": None, "k": "a", "v": "one", "tags": []}, "'v' that is no int64"),
    ],
)
def test_results_that_are_no_row_of_the_input(result: Any, words: str) -> None:
    rows = [{"at": at, "k": "a", "v": 1, "tags": None} for at in range(3)]
    with pytest.raises(SchemaError, match=words):
        collect(operator_of(Global(), lambda one, other: result), [batch_of(rows)])


@pytest.mark.parametrize(
    ("spec", "schema", "words"),
    [
        (ReduceSpec(KEY, chain), StreamSchema(INPUT.fields, INPUT.time, True), "updating"),
        (ReduceSpec(KEY, chain), StreamSchema(INPUT.fields), "needs event time"),
        (ReduceSpec(KEY, chain, None, Emission("final")), INPUT, "never final"),
        (ReduceSpec(KEY, chain, Windowing(Tumbling(5), clock="processing")), INPUT, "event time"),
        (ReduceSpec((("v", col("v") + 1),), chain), INPUT, "rename"),
        (ReduceSpec((("window_end", col("v")),), chain, Windowing(Tumbling(5))), INPUT, "rename"),
        (ReduceSpec((("t", col("tags")),), chain), INPUT, "cannot be a key"),
    ],
)
def test_impossible_reductions(spec: ReduceSpec, schema: StreamSchema, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        plan_reduce(spec, schema, "r")
