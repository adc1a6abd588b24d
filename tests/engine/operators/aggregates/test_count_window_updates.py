"""Count windows as a changelog: at every emission what the rows counted so far give, at the end the final results."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import Batch
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.model.job_graph import LATE, MAIN, AggregateSpec
from penstock.model.schema import WEIGHT
from penstock.model.windows import Count, Emission, Windowing
from tests.engine.dataflow.dozing import MANY_CUTS, parts
from tests.engine.operators.aggregates.count_window_support import (
    AGGREGATES,
    INPUT,
    KEYS,
    batch_of,
    expected,
    found,
    operator_of,
    restarting_of,
    timed_rows,
)
from tests.engine.released_rows import ReleasedRows, emission_points, ragged_steps
from tests.engine.support import Collected, ManualClock, collect

UPDATES = Emission("updates", 0)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    timed_rows,
    st.sampled_from(list(KEYS)),
    st.integers(1, 5),
    st.sampled_from([1, 2, 4, 1000]),
    st.integers(0, 2),
    st.sampled_from([0, 1_000_000]),
    MANY_CUTS,
    st.integers(0, 10**6),
)
def test_updates_are_what_the_rows_so_far_give(
    rows: list[dict[str, Any]],
    keys: tuple[str, ...],
    size: int,
    batch_rows: int,
    lateness_us: int,
    interval_us: int,
    restarts: list[str],
    seed: int,
) -> None:
    cut = random.Random(seed)
    steps = ragged_steps(rows, cut)
    clock, model = ManualClock(), ReleasedRows(lateness_us)
    windowing = Windowing(Count(size), lateness_us, emission=Emission("updates", interval_us))
    operator = restarting_of(keys, windowing, restarts, batch_rows=batch_rows, clock=clock)

    def check(collected: Collected) -> None:
        assert found(collected) == expected(model.released, keys, size)
        assert len(collected.late) == len(model.late)

    collected = emission_points(operator, steps, batch_of, model, clock, cut, check)
    final = operator_of(keys, Windowing(Count(size), lateness_us), batch_rows=batch_rows)
    once = collect(final, [step if isinstance(step, int) else batch_of(step) for step in steps])
    assert found(collected) == found(once)
    assert sorted(map(repr, collected.late)) == sorted(map(repr, once.late))
    assert operator.context.counters == final.context.counters
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))
    for part in parts(operator):
        assert not len(part._windows.live())
        assert not len(part._keys.live())
        assert not len(part._waiting)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(timed_rows, st.integers(1, 5), st.sampled_from([0, 1_000_000]), MANY_CUTS, st.integers(0, 10**6))
def test_by_the_clock_updates_follow_the_rows_as_they_arrive(
    rows: list[dict[str, Any]], size: int, interval_us: int, restarts: list[str], seed: int
) -> None:
    cut = random.Random(seed)
    clock, seen = ManualClock(wall_us=0), []
    windowing = Windowing(Count(size), clock="processing", emission=Emission("updates", interval_us))
    operator = restarting_of(("k",), windowing, restarts, clock=clock)
    collected = Collected()
    for step in ragged_steps(rows, cut):
        clock.advance_us(300_000)
        if isinstance(step, int):
            collected.add(operator.on_watermark(step))
            continue
        seen += [row | {"arrived": clock.wall_us()} for row in step]
        collected.add(operator.process(0, Batch(batch_of(step))))
        if cut.random() < 0.5 and operator.has_pending():
            collected.add(operator.on_timer(clock.monotonic_ns()))
        if not operator.has_pending():
            assert found(collected) == arrived(seen, size)
        assert interval_us or not operator.has_pending()
    for batch in collect(operator, []).batches.get(MAIN, []):
        collected.batches.setdefault(MAIN, []).append(batch)
    assert found(collected) == arrived(seen, size)


def arrived(rows: list[dict[str, Any]], size: int) -> Any:
    """Cut rows in the order of their arrival; the first and last value by event time, then by value."""
    return expected_of([[row for row in rows if row["k"] == key] for key in {row["k"] for row in rows}], size)


def expected_of(groups: list[list[dict[str, Any]]], size: int) -> Any:
    windows: list[tuple[Any, ...]] = []
    for rows in groups:
        for start in range(0, len(rows), size):
            window = rows[start : start + size]
            values = [row["v"] for row in sorted(window, key=lambda row: (row["at"], row["v"]))]
            bounds = window[0]["arrived"], window[-1]["arrived"]
            windows.append((window[0]["k"], *bounds, len(window), sum(values), values[0], values[-1]))
    return {window: windows.count(window) for window in windows}


def of(*times: int) -> Any:
    return batch_of([{"at": at, "k": "a", "j": 0, "v": at} for at in times])


def weights(collected: Collected) -> list[tuple[int, int]]:
    return [(row["total"], row[WEIGHT]) for row in collected.rows()]


def test_a_full_window_is_corrected_once_more_and_forgotten() -> None:
    clock = ManualClock()
    windowing = Windowing(Count(2), emission=Emission("updates", 1_000))
    operator = operator_of(("k",), windowing, clock=clock)
    assert not collect(operator, [of(1), 2], end=False).rows()
    assert operator.has_pending()
    assert operator.timer_ns() == 1_000_000
    part = Collected()
    part.add(operator.on_timer(clock.monotonic_ns()))
    assert weights(part) == [(1, 1)]
    assert operator.timer_ns() is None
    # The full window leaves at once; the open one waits for the interval.
    assert weights(collect(operator, [of(2, 3), 4], end=False)) == [(1, -1), (3, 1)]
    assert operator.has_pending()
    assert len(operator._windows.live()) == 1
    part = Collected()
    part.add(operator.on_barrier(1))
    assert weights(part) == [(3, 1)]
    assert not collect(operator, []).rows()
    assert not len(operator._windows.live())
    assert not len(operator._keys.live())


def test_rows_behind_the_watermark_are_late_and_change_nothing() -> None:
    operator = operator_of(("k",), Windowing(Count(2), lateness_us=2, emission=UPDATES))
    collected = collect(operator, [of(8), 11, of(7, 8, 9)])
    assert [row["v"] for row in collected.rows(LATE)] == [7, 8]
    assert weights(collected) == [(8, 1), (8, -1), (17, 1)]


def test_the_result_is_a_changelog_without_event_time() -> None:
    windowing = Windowing(Count(2), emission=UPDATES)
    output = plan_aggregate(AggregateSpec(KEYS[("k",)], AGGREGATES, windowing), INPUT, "w").output
    assert output.changelog
    assert output.time is None
    operator = operator_of(("k",), windowing)
    assert operator.output_watermark(7) == 7
    assert {batch.schema for batch in collect(operator, [of(1, 2, 3)]).batches[MAIN]} == {output.physical}
