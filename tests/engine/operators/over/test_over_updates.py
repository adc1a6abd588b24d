"""Running and row-window aggregates of changelogs: what has been emitted, applied, is what the rows left give."""

import random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import MAIN
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.over.updates import UpdatingOver
from penstock.model.schema import WEIGHT
from tests.engine.operators.over.over_support import (
    AGGREGATES,
    CHANGELOG,
    KEYS,
    batch_of,
    expected,
    found,
    over,
    rows_drawn,
)
from tests.engine.restarts import CUTS
from tests.engine.support import Collected, ManualClock, collect

names_drawn = st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=4, unique=True)
sizes = st.one_of(st.none(), st.integers(1, 4))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data(), rows_drawn, st.sampled_from(list(KEYS)), sizes, names_drawn, st.sampled_from([1, 3, 1000]), CUTS)
def test_a_changelog_in_any_order_ends_in_what_was_not_taken_back(
    data: st.DataObject,
    rows: list[dict[str, Any]],
    keys: tuple[str, ...],
    size: int | None,
    names: list[str],
    batch_rows: int,
    cuts: list[str],
) -> None:
    rows = rows[:20]
    gone = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    changes = [(row, 1) for row in rows] + [(row, -1) for row, away in zip(rows, gone, strict=True) if away]
    changes = data.draw(st.permutations(changes))
    interval_us = data.draw(st.sampled_from([0, 1]))
    operator = over(keys, size, names, CHANGELOG, cuts=cuts, batch_rows=batch_rows, interval_us=interval_us)
    collected = Collected()
    step = data.draw(st.sampled_from([1, 2, 7]))
    for start in range(0, len(changes), step):
        part = changes[start : start + step]
        batch = batch_of([row for row, _ in part], [weight for _, weight in part])
        collected.add(operator.process(0, Batch(batch)))
        assert operator.context.counters.balanced()
        found(collected)
    collected.add(operator.on_end())
    kept = [row for row, away in zip(rows, gone, strict=True) if not away]
    assert found(collected) == expected(kept, keys, size, names)
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))


def test_longer_runs_with_restarts() -> None:
    cut = random.Random(5)
    rows = [row(cut.randint(0, 99), cut.randint(-9, 9)) | {"k": cut.choice([None, "a", "b"])} for _ in range(200)]
    changes = [(one, 1) for one in rows] + [(one, -1) for one in rows[:100]]
    cut.shuffle(changes)
    names = ["total", "least", "kinds"]
    operator = over(("k",), 3, names, CHANGELOG, cuts=["", "two", "", "one", "restart"] * 9, interval_us=1)
    parts = [changes[start : start + 10] for start in range(0, len(changes), 10)]
    collected = collect(operator, [batch_of([one for one, _ in part], [sign for _, sign in part]) for part in parts])
    assert found(collected) == expected(rows[100:], ("k",), 3, names)


def row(at: int, v: int) -> dict[str, Any]:
    return {"at": at, "k": "a", "v": v, "x": None, "s": None}


def shown(batches: list[pa.RecordBatch]) -> list[tuple[int, int, int]]:
    return [(one["v"], one["total"], one[WEIGHT]) for batch in batches for one in batch.to_pylist()]


def test_a_row_between_others_corrects_those_whose_frames_it_enters() -> None:
    operator = over(("k",), 2, ["total"], CHANGELOG)
    first = Collected()
    first.add(operator.process(0, Batch(batch_of([row(1, 1), row(3, 3), row(4, 4)], [1, 1, 1]))))
    assert shown(first.batches[MAIN]) == [(1, 1, 1), (3, 4, 1), (4, 7, 1)]
    second = Collected()
    second.add(operator.process(0, Batch(batch_of([row(2, 2)], [1]))))
    assert shown(second.batches[MAIN]) == [(3, 4, -1), (2, 3, 1), (3, 5, 1)]


def test_a_retraction_before_its_insert_shows_nothing() -> None:
    operator = over(("k",), None, ["total"], CHANGELOG)
    assert not collect(operator, [batch_of([row(1, 5)], [-1])], end=False).rows()
    assert not collect(operator, [batch_of([row(1, 5)], [1])]).rows()
    assert isinstance(operator, UpdatingOver)
    assert operator._kept._table.statistics().rows == 0


def test_changes_leave_with_the_interval_when_idle_and_at_a_barrier() -> None:
    clock = ManualClock()
    operator = over(("k",), None, ["total"], CHANGELOG, clock=clock, interval_us=100)
    assert not list(operator.process(0, Batch(batch_of([row(1, 1)], [1]))))
    assert operator.timer_ns() == 100_000
    assert operator.has_pending()
    assert len(list(operator.on_timer(0))) == 1
    assert not operator.has_pending()
    clock.advance_us(100)
    assert len(list(operator.process(0, Batch(batch_of([row(2, 1)], [1]))))) == 1
    assert not list(operator.process(0, Batch(batch_of([row(2, 1)], [-1]))))
    assert len(list(operator.on_barrier(1))) == 1
    assert not list(operator.on_end())


def test_only_the_end_of_time_matters_as_long_as_changes_wait() -> None:
    operator = over(("k",), None, ["total"], CHANGELOG, interval_us=100)
    assert operator.due_us() is None
    assert not list(operator.process(0, Batch(batch_of([row(1, 1)], [1]))))
    assert operator.due_us() == END_OF_TIME_US
    assert len(list(operator.on_barrier(1))) == 1
    assert operator.due_us() is None
