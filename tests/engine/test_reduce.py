"""Reduce against sorting the rows of each key (and window) and folding them in a loop."""

import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.elements import Batch
from penstock.engine.operators.reduce import Reduce, reduce_output
from penstock.model.errors import PlanError, SchemaError
from penstock.model.expressions import Expr, col
from penstock.model.job_graph import LATE, MAIN, ReduceSpec
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.model.windows import (
    Count,
    Emission,
    Global,
    Hopping,
    Session,
    Tumbling,
    Window,
    WindowAssigner,
    Windowing,
)
from tests.engine.support import Collected, ManualClock, collect, open_operator

Row = dict[str, Any]

INPUT = StreamSchema(
    pa.schema([("at", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64()), ("tags", pa.list_(pa.string()))]),
    TimeColumn("at"),
)
KEY = (("k", col("k")),)
MODULUS = 1_000_003


class Uneven(WindowAssigner):
    """Windows of unlike sizes that share their ends; times divisible by four have none."""

    def assign(self, times_us: Any) -> Any:
        rows = np.flatnonzero(times_us % 4 != 0)
        end = (times_us[rows] // 8 + 1) * 8
        long = np.stack([rows, end - 8, end], 1)
        short = np.stack([rows, times_us[rows], end], 1)
        both = np.stack([long, short], 1).reshape(-1, 3)
        return both[:, 0], both[:, 1], both[:, 2]


def chain(one: Row, other: Row) -> Row:
    """Depends on the order of rows."""
    return {
        "at": other["at"],
        "k": "anything",
        "v": (one["v"] * 31 + other["v"]) % MODULUS,
        "tags": [*(one["tags"] or []), *(other["tags"] or [])],
    }


rows_of_any_time = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 24),
            "k": st.one_of(st.none(), st.sampled_from("ab")),
            "v": st.integers(0, 3),
            "tags": st.one_of(st.none(), st.lists(st.sampled_from("xy"), max_size=2)),
        }
    ),
    max_size=40,
)
windows = st.sampled_from([Tumbling(10), Hopping(10, 4, 1), Session(2), Count(3), Global(), Uneven()])


def operator_of(
    window: Window | None,
    function: Callable[[Row, Row], Any] = chain,
    *,
    keys: tuple[tuple[str, Expr], ...] = KEY,
    lateness_us: int = 0,
    **options: Any,
) -> Reduce:
    windowing = None if window is None else Windowing(window, lateness_us)
    return open_operator(Reduce(ReduceSpec(keys, function, windowing), INPUT, "r"), **options)


def steps_of(rows: list[Row], cut: random.Random) -> list[pa.RecordBatch | int]:
    """Batches of random sizes, with watermarks no later row falls behind."""
    steps: list[pa.RecordBatch | int] = []
    at, passed = 0, -1
    while at < len(rows):
        size = cut.randint(1, 8)
        steps.append(batch_of(rows[at : at + size]))
        at += size
        watermark = min((row["at"] for row in rows[at:]), default=24) - cut.randint(0, 2)
        if watermark > passed and cut.random() < 0.7:
            steps.append(watermark)
            passed = watermark
    return steps


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=INPUT.fields)


def total_order(row: Row) -> tuple[Any, ...]:
    return (row["at"], row["v"], row["tags"] is not None, row["tags"] or [])


def folded(rows: list[Row]) -> tuple[int, tuple[str, ...] | None]:
    result = functools.reduce(chain, rows)
    return result["v"], None if result["tags"] is None else tuple(result["tags"])


def bounds_of(rows: list[Row], window: Window) -> list[tuple[int, int, list[Row]]]:
    """Cut the rows of one key, in order, into (start, end, rows)."""
    times = [row["at"] for row in rows]
    if isinstance(window, Count):
        parts = [rows[start : start + window.rows] for start in range(0, len(rows), window.rows)]
        return [(part[0]["at"], part[-1]["at"], part) for part in parts]
    if isinstance(window, Session):
        cuts = [0, *(i for i in range(1, len(rows)) if times[i] > times[i - 1] + window.gap_us), len(rows)]
        parts = [rows[start:stop] for start, stop in itertools.pairwise(cuts)]
        return [(part[0]["at"], part[-1]["at"] + window.gap_us, part) for part in parts]
    if isinstance(window, WindowAssigner):
        owners, starts, ends = window.assign(np.array(times, np.int64))
        pairs = list(zip(owners.tolist(), starts.tolist(), ends.tolist(), strict=True))
    else:
        assert isinstance(window, Tumbling | Hopping)
        hop = window.hop_us if isinstance(window, Hopping) else window.size_us
        spans = [(j * hop + window.offset_us, j * hop + window.offset_us + window.size_us) for j in range(-9, 9)]
        pairs = [(i, *span) for i in range(len(rows)) for span in spans if span[0] <= times[i] < span[1]]
    return [
        (*span, [rows[i] for i, *of in pairs if tuple(of) == span]) for span in sorted({(s, e) for _, s, e in pairs})
    ]


def expected(rows: list[Row], window: Window) -> Counter[tuple[Any, ...]]:
    results: Counter[tuple[Any, ...]] = Counter()
    for key in {row["k"] for row in rows}:
        mine = sorted((row for row in rows if row["k"] == key), key=total_order)
        if isinstance(window, Global):
            results[(key, *folded(mine))] += 1
        else:
            results.update((key, start, end, *folded(part)) for start, end, part in bounds_of(mine, window))
    return results


def found(collected: Collected) -> Counter[tuple[Any, ...]]:
    results: Counter[tuple[Any, ...]] = Counter()
    for batch in collected.batches.get(MAIN, []):
        bounds = [
            batch.column(name).cast(pa.int64()).to_pylist()
            for name in ("window_start", "window_end")
            if name in batch.schema.names
        ]
        tags = [None if item is None else tuple(item) for item in batch.column("tags").to_pylist()]
        results.update(zip(batch.column("k").to_pylist(), *bounds, batch.column("v").to_pylist(), tags, strict=True))
    return results


@settings(max_examples=150, deadline=None, derandomize=True)
@given(rows_of_any_time, windows, st.sampled_from([1, 4, 1000]), st.integers(0, 2), st.integers(0, 10**6))
def test_windows_equal_sorting_and_folding(
    rows: list[Row], window: Window, batch_rows: int, lateness_us: int, seed: int
) -> None:
    operator = operator_of(window, lateness_us=lateness_us, batch_rows=batch_rows)
    collected = collect(operator, steps_of(rows, random.Random(seed)))
    assert found(collected) == expected(rows, window)
    assert not collected.late
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))
    outside = sum(row["at"] % 4 == 0 for row in rows) if isinstance(window, Uneven) else 0
    assert operator.context.counters.filtered == outside
    assert operator.context.state.bytes_used() < 20_000 or isinstance(window, Global)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows_of_any_time, st.sampled_from([1, 4, 1000]), st.booleans(), st.integers(0, 10**6))
def test_running_rows_are_a_changelog(rows: list[Row], batch_rows: int, idle: bool, seed: int) -> None:
    clock = ManualClock()
    operator = operator_of(None, batch_rows=batch_rows, clock=clock)
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
    assert operator.timer_ns() == 1_000_000_000
    clock.advance_us(1_000_000)
    assert len(list(operator.on_timer(clock.monotonic_ns()))) == 1
    assert operator.timer_ns() is None
    clock.advance_us(1_000_000)
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


def test_keys_that_are_expressions_become_columns() -> None:
    operator = operator_of(Tumbling(10), keys=(("k", col("k")), ("odd", col("v") % 2)))
    rows = [{"at": at, "k": None, "v": at, "tags": None} for at in range(4)]
    collected = collect(operator, [batch_of(rows)])
    output = reduce_output(
        ReduceSpec((("k", col("k")), ("odd", col("v") % 2)), chain, Windowing(Tumbling(10))), INPUT, "r"
    )
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
        (ReduceSpec(KEY, chain, Windowing(Tumbling(5), emission=Emission("updates"))), INPUT, "once"),
        (ReduceSpec((("v", col("v") + 1),), chain), INPUT, "rename"),
        (ReduceSpec((("window_end", col("v")),), chain, Windowing(Tumbling(5))), INPUT, "rename"),
        (ReduceSpec((("t", col("tags")),), chain), INPUT, "cannot be a key"),
    ],
)
def test_impossible_reductions(spec: ReduceSpec, schema: StreamSchema, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        reduce_output(spec, schema, "r")
