"""Running and row-window aggregates of changelogs: what has been emitted, applied, is what the rows left give."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.elements import Batch
from penstock.engine.operators.contract import MAIN
from penstock.engine.operators.over.updates import UpdatingOver
from penstock.model.schema import WEIGHT
from tests.engine.over_support import AGGREGATES, CHANGELOG, KEYS, batch_of, expected, found, over, rows_drawn
from tests.engine.support import Collected, ManualClock, collect

names_drawn = st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=4, unique=True)
sizes = st.one_of(st.none(), st.integers(1, 4))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data(), rows_drawn, st.sampled_from(list(KEYS)), sizes, names_drawn, st.sampled_from([1, 3, 1000]))
def test_a_changelog_in_any_order_ends_in_what_was_not_taken_back(
    data: st.DataObject,
    rows: list[dict[str, Any]],
    keys: tuple[str, ...],
    size: int | None,
    names: list[str],
    batch_rows: int,
) -> None:
    rows = rows[:20]
    gone = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    changes = [(row, 1) for row in rows] + [(row, -1) for row, away in zip(rows, gone, strict=True) if away]
    changes = data.draw(st.permutations(changes))
    operator = over(keys, size, names, CHANGELOG, batch_rows=batch_rows)
    collected = Collected()
    step = data.draw(st.sampled_from([1, 2, 7]))
    for start in range(0, len(changes), step):
        part = changes[start : start + step]
        batch = batch_of([row for row, _ in part], [weight for _, weight in part])
        collected.add(operator.process(0, Batch(batch)))
        assert operator.context.counters.balanced()
        found(collected)
    kept = [row for row, away in zip(rows, gone, strict=True) if not away]
    assert found(collected) == expected(kept, keys, size, names)
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))


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


def test_everything_to_know_is_in_the_state() -> None:
    rows = [row(at, at % 5) for at in (4, 2, 9, 1, 7)]
    first, second = (over(("k",), 2, ["total"], CHANGELOG) for _ in range(2))
    collected = collect(first, [batch_of(rows[:3], [1, 1, 1])], end=False)
    collected.add(first.on_barrier(1))
    second.open(first.context)
    collected.add(second.process(0, Batch(batch_of([*rows[3:], rows[0]], [1, 1, -1]))))
    assert found(collected) == expected(rows[1:], ("k",), 2, ["total"])
