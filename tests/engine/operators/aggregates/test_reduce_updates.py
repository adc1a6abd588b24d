"""Windows of a reduce as a changelog: at every emission what the rows folded so far give, at the end the final rows."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.operators.aggregates.reduce_schema import plan_reduce
from penstock.model.expressions import col
from penstock.model.job_graph import LATE, MAIN, ReduceSpec
from penstock.model.schema import WEIGHT
from penstock.model.windows import Count, Emission, Global, Session, Tumbling, Window, Windowing
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
    windows,
)
from tests.engine.released_rows import ReleasedRows, emission_points, ragged_steps
from tests.engine.support import Collected, ManualClock, collect

UPDATES = Emission("updates", 0)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    rows_of_any_time,
    windows,
    st.sampled_from([1, 2, 4, 1000]),
    st.integers(0, 2),
    st.sampled_from([0, 1_000_000]),
    st.booleans(),
    MANY_CUTS,
    st.integers(0, 10**6),
)
def test_updates_are_what_the_rows_so_far_give(
    rows: list[Row],
    window: Window,
    batch_rows: int,
    lateness_us: int,
    interval_us: int,
    keyed: bool,
    restarts: list[str],
    seed: int,
) -> None:
    cut = random.Random(seed)
    rows = rows if keyed else [row | {"k": "anything"} for row in rows]
    keys = KEY if keyed else ()
    steps = ragged_steps(rows, cut)
    clock, model = ManualClock(), ReleasedRows(lateness_us)
    emission = Emission("updates", interval_us)
    options: dict[str, Any] = {"keys": keys, "lateness_us": lateness_us, "batch_rows": batch_rows}
    operator = restarting_of(window, restarts, emission=emission, clock=clock, **options)

    def check(collected: Collected) -> None:
        assert found(collected) == expected(model.released, window)
        assert len(collected.late) == len(model.late)

    collected = emission_points(operator, steps, batch_of, model, clock, cut, check)
    final = operator_of(window, **options)
    once = collect(final, [step if isinstance(step, int) else batch_of(step) for step in steps])
    assert found(collected) == found(once)
    assert sorted(map(repr, collected.late)) == sorted(map(repr, once.late))
    assert operator.context.counters == final.context.counters
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))
    for part in parts(operator):
        assert not len(part._state.table.live())
        assert not len(part._waiting)
        assert not len(part.context.state.log("reduced", INPUT.fields).live())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows_of_any_time, windows, st.integers(0, 10**6))
def test_after_every_watermark_nothing_waits_if_the_interval_is_zero(
    rows: list[Row], window: Window, seed: int
) -> None:
    operator = operator_of(window, emission=UPDATES)
    model, collected = ReleasedRows(), Collected()
    for step in ragged_steps(rows, random.Random(seed)):
        model.take(step)
        part = collect(operator, [step if isinstance(step, int) else batch_of(step)], end=False)
        assert not operator.has_pending()
        collected.batches.setdefault(MAIN, []).extend(part.batches.get(MAIN, []))
        assert found(collected) == expected(model.released, window)


def one(*times: int, key: str = "a") -> Any:
    return batch_of([{"at": at, "k": key, "v": 1, "tags": None} for at in times])


def weights(collected: Collected) -> list[tuple[int, int]]:
    return [(row["v"], row[WEIGHT]) for row in collected.rows()]


@pytest.mark.parametrize("window", [Count(2), Session(3)])
def test_a_window_that_is_over_is_corrected_and_the_next_begins_anew(window: Window) -> None:
    operator = operator_of(window, emission=UPDATES)
    assert weights(collect(operator, [one(1), 2], end=False)) == [(1, 1)]
    assert weights(collect(operator, [one(2, 9), 10], end=False)) == [(1, -1), (32, 1), (1, 1)]
    assert weights(collect(operator, [one(10), 11], end=False)) == [(1, -1), (32, 1)]
    assert not collect(operator, []).rows()
    assert not len(operator._state.table.live())


def test_a_session_that_ended_as_it_was_shown_is_not_shown_again() -> None:
    operator = operator_of(Session(3), emission=UPDATES)
    assert weights(collect(operator, [one(1), 3], end=False)) == [(1, 1)]
    assert weights(collect(operator, [one(20), 21], end=False)) == [(1, 1)]
    assert not collect(operator, []).rows()


def test_changes_of_the_last_interval_are_coalesced() -> None:
    clock = ManualClock()
    operator = operator_of(Tumbling(10), emission=Emission("updates", 1_000), clock=clock)
    assert not collect(operator, [one(1), 2, one(2), 3], end=False).rows()
    assert operator.timer_ns() == 1_000_000
    assert weights(collect(operator, [10], end=False)) == [(32, 1)]
    assert not operator.has_pending()
    assert operator.timer_ns() is None
    collected = collect(operator, [one(9, 11)], end=False)
    assert [row["v"] for row in collected.rows(LATE)] == [1]


def test_rows_for_which_the_function_raises_change_nothing() -> None:
    def fussy(one: Row, other: Row) -> Row:
        if other["v"] == 2:
            raise ValueError("two is too much")
        return chain(one, other)

    rows = [{"at": at, "k": "a", "v": value, "tags": None} for at, value in enumerate((1, 2, 4, 2, 3))]
    steps = [batch_of(rows[:1]), 1, batch_of(rows[1:2]), 2, batch_of(rows[2:]), 5]
    updating = operator_of(Tumbling(10), fussy, emission=UPDATES)
    first = collect(updating, steps[:4], end=False)
    assert weights(first) == [(1, 1)]
    for batch in collect(updating, steps[4:]).batches[MAIN]:
        first.batches[MAIN].append(batch)
    assert found(first) == found(collect(operator_of(Tumbling(10), fussy), steps))
    assert updating.context.counters.dead_lettered == 2


@pytest.mark.parametrize("window", [Tumbling(10), Session(3), Count(2), Global(), Uneven()])
def test_the_result_is_a_changelog_without_event_time(window: Window) -> None:
    keys = (("k", col("k")), ("odd", col("v") % 2))
    windowing = Windowing(window, emission=UPDATES)
    output = plan_reduce(ReduceSpec(keys, chain, windowing), INPUT, "r").output
    assert output.changelog
    assert output.time is None
    operator = operator_of(window, keys=keys, emission=UPDATES)
    assert operator.output_watermark(7) == 7
    assert {batch.schema for batch in collect(operator, [one(1)]).batches[MAIN]} == {output.physical}


@pytest.mark.parametrize("keys", ["abcdefg", "gfedcba", "cgabfde"])
def test_many_windows_that_are_full_at_once_are_corrected_key_by_key(keys: str) -> None:
    def rows(order: str, at: int) -> list[Row]:
        return [{"at": at, "k": key, "v": ord(key), "tags": None} for key in order]

    operator = operator_of(Count(2), emission=UPDATES, batch_rows=4)
    shown = collect(operator, [batch_of(rows("abcdefg", 1)), 2], end=False)
    assert len(shown.rows()) == 7
    corrected = collect(operator, [batch_of(rows(keys + "hi", 3)), 4], end=False).batches[MAIN]
    changed = [[(row["k"], row[WEIGHT]) for row in batch.to_pylist()] for batch in corrected]
    for changes in changed:
        assert len(changes) <= 4
        assert [key for key, weight in changes if weight < 0] == [
            key for key, weight in changes if weight > 0 and key not in "hi"
        ]
    assert sorted(change for changes in changed for change in changes) == sorted(
        [(key, weight) for key in "abcdefg" for weight in (-1, 1)] + [("h", 1), ("i", 1)]
    )
