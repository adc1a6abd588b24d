"""Updating aggregates against a model: what has been emitted, applied, is what the rows so far give."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.core.contract import LATE, MAIN
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.group_aggregate import GroupAggregate
from penstock.model.aggregates import AggregateCall, UserAggregate
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.model.windows import Emission, Global, Hopping, Tumbling, Window
from tests.engine.dataflow.dozing import MANY_CUTS, parts, restarting
from tests.engine.operators.aggregates.aggregate_support import (
    AGGREGATES,
    CHANGELOG,
    DELAYS,
    FIELDS,
    KEYS,
    STREAM,
    Row,
    SevenAndTwenty,
    WindowModel,
    aggregate_spec,
    aggregated,
    arrivals,
    as_rows,
    cuts,
    key_of,
    rows_to_tuples,
    streams,
    to_batch,
)
from tests.engine.restarts import Restarting
from tests.engine.support import Collected, ManualClock, collect, open_operator

DELAY = 12
FAST = settings(max_examples=45, deadline=None, derandomize=True)


def open_group(spec: AggregateSpec, restarts: list[str], stream: StreamSchema = STREAM, **options: Any) -> Restarting:
    keys = [name for name, _ in spec.keys]
    return open_operator(restarting(lambda: GroupAggregate(spec, stream, "g"), restarts, *keys), **options)


def by_key(rows: Sequence[Row], keys: Sequence[str]) -> Counter[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key_of(row, keys), []).append(row)
    return Counter(key + aggregated(members) for key, members in groups.items())


def check_changelog(batches: Sequence[pa.RecordBatch], keys: int) -> None:
    """Check that nothing changes to what it was, and that a key's retraction stands before its insert."""
    for batch in batches:
        rows = [tuple(row.values()) for row in batch.to_pylist()]
        gone = {row[:-1] for row in rows if row[-1] == -1}
        come = {row[:-1] for row in rows if row[-1] == 1}
        assert not gone & come
        inserted = set()
        for row in rows:
            if row[-1] == 1:
                inserted.add(row[:keys])
            else:
                assert row[:keys] not in inserted


@FAST
@given(st.data(), KEYS, st.sampled_from([1, 2, 5, 32_768]))
def test_every_batch_shows_the_rows_so_far(data: st.DataObject, keys: tuple[str, ...], batch_rows: int) -> None:
    rows = data.draw(streams())
    operator = open_group(aggregate_spec(keys, interval_us=0), data.draw(MANY_CUTS), batch_rows=batch_rows)
    collected = Collected()
    seen: list[Row] = []
    for step in data.draw(cuts(rows, None)):
        assert not isinstance(step, int)
        seen += step
        collected.add(operator.process(0, Batch(to_batch(step))))
        assert operator.context.counters.balanced()
        assert as_rows(collected.batches[MAIN], weighted=True) == by_key(seen, keys)
    batches = collected.batches.get(MAIN, [])
    assert all(batch.num_rows <= batch_rows for batch in batches)
    check_changelog(batches, len(keys))


@FAST
@given(st.data(), KEYS)
def test_changes_within_an_interval_are_emitted_together(data: st.DataObject, keys: tuple[str, ...]) -> None:
    rows = data.draw(streams())
    clock = ManualClock()
    operator = open_operator(GroupAggregate(aggregate_spec(keys, interval_us=100), STREAM, "g"), clock=clock)
    collected = Collected()
    for step in data.draw(cuts(rows, None)):
        assert not isinstance(step, int)
        before = clock.monotonic_ns()
        clock.advance_us(data.draw(st.sampled_from([0, 10, 60, 100])))
        due = operator.timer_ns()
        count = len(collected.batches.get(MAIN, []))
        collected.add(operator.process(0, Batch(to_batch(step))))
        if len(collected.batches.get(MAIN, [])) > count:
            assert due is None or due <= clock.monotonic_ns()
        assert before <= clock.monotonic_ns()
    collected.add(operator.on_watermark(END_OF_TIME_US))
    assert not operator.has_pending()
    assert as_rows(collected.batches.get(MAIN, []), weighted=True) == by_key(rows, keys)
    check_changelog(collected.batches.get(MAIN, []), len(keys))


@FAST
@given(st.data(), KEYS)
def test_a_changelog_in_any_order_ends_in_what_was_not_taken_back(data: st.DataObject, keys: tuple[str, ...]) -> None:
    rows = data.draw(streams(most=30))
    gone = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    changes = [(row, 1) for row in rows] + [(row, -1) for row, away in zip(rows, gone, strict=True) if away]
    changes = data.draw(st.permutations(changes))
    operator = open_group(aggregate_spec(keys, interval_us=0), data.draw(MANY_CUTS), CHANGELOG)
    collected = Collected()
    size = data.draw(st.sampled_from([1, 2, 7]))
    for start in range(0, len(changes), size):
        part = changes[start : start + size]
        batch = to_batch([row for row, _ in part], [weight for _, weight in part])
        collected.add(operator.process(0, Batch(batch)))
        as_rows(collected.batches.get(MAIN, []), weighted=True)
    kept = [row for row, away in zip(rows, gone, strict=True) if not away]
    assert as_rows(collected.batches.get(MAIN, []), weighted=True) == by_key(kept, keys)
    live = sum(len(part._table.live()) for part in parts(operator))
    assert live == len(by_key(kept, keys)), "groups without rows are forgotten"


def test_a_group_whose_rows_cancel_others_is_kept_until_their_own_partners_come() -> None:
    operator = open_operator(GroupAggregate(aggregate_spec(("k",), interval_us=0), CHANGELOG, "g"))
    five, nine = Row(1, None, 5, 0), Row(1, None, 9, 0)
    collected = Collected()
    for row, weight in ((five, 1), (nine, -1), (nine, 1)):
        collected.add(operator.process(0, Batch(to_batch([row], [weight]))))
    assert as_rows(collected.batches[MAIN], weighted=True) == by_key([five], ("k",))
    weights = [row[WEIGHT] for row in collected.rows()]
    assert weights == [1, -1, 1]


def test_a_retraction_before_its_insert_is_taken_in_silence() -> None:
    operator = open_operator(GroupAggregate(aggregate_spec(("k",), interval_us=0), CHANGELOG, "g"))
    row = Row(1, "a", 5, 0)
    assert not list(operator.process(0, Batch(to_batch([row], [-1]))))
    assert not list(operator.process(0, Batch(to_batch([row], [1]))))
    assert len(operator._table.live()) == 0


def test_a_value_that_returns_within_the_interval_emits_nothing() -> None:
    clock = ManualClock()
    operator = open_operator(GroupAggregate(aggregate_spec(("k",)), CHANGELOG, "g"), clock=clock)
    one, two = Row(1, "a", 5, 0), Row(1, "a", 7, 0)
    assert not list(operator.process(0, Batch(to_batch([one], [1]))))
    assert operator.timer_ns() == 1_000_000_000
    assert len(list(operator.on_timer(0))) == 1
    list(operator.process(0, Batch(to_batch([two, two], [1, -1]))))
    assert operator.has_pending()
    assert not list(operator.on_timer(0))
    assert not operator.has_pending()


def test_a_barrier_lets_out_what_is_pending() -> None:
    operator = open_operator(GroupAggregate(aggregate_spec(("k",)), STREAM, "g"))
    assert not list(operator.process(0, Batch(to_batch([Row(1, None, 1, 1)]))))
    assert [batch.rows.num_rows for _, batch in operator.on_barrier(1)] == [1]
    assert not list(operator.on_end())


@FAST
@given(st.data(), st.sampled_from([Tumbling(10), Hopping(10, 3), SevenAndTwenty(), Global()]), st.sampled_from([0, 4]))
def test_windows_with_updates(data: st.DataObject, window: Window, lateness_us: int) -> None:
    rows = data.draw(streams(delay=40))
    steps = data.draw(cuts(rows, lambda seen: max(row.t for row in seen) - 2))
    interval_us = data.draw(st.sampled_from([0, 10**6]))
    spec = aggregate_spec(("k",), window, mode="updates", lateness_us=lateness_us, interval_us=interval_us)
    operator = open_group(spec, data.draw(MANY_CUTS))
    collected = collect(operator, [step if isinstance(step, int) else to_batch(step) for step in steps])
    model = WindowModel(window, ("k",), lateness_us).run(steps)
    assert as_rows(collected.batches.get(MAIN, []), weighted=True) == model.results()
    assert rows_to_tuples(collected.late) == rows_to_tuples({"k": row.k, "s": row.s, "v": row.v} for row in model.late)
    counters = operator.context.counters
    assert (counters.late, counters.filtered) == (len(model.late), model.outside)
    if not isinstance(window, Global):
        assert not any(len(part._table.live()) for part in parts(operator))
    check_changelog(collected.batches.get(MAIN, []), 1 if isinstance(window, Global) else 3)


@FAST
@given(st.data())
def test_windows_with_updates_over_a_changelog(data: st.DataObject) -> None:
    rows = data.draw(streams(most=20))
    changes = data.draw(st.permutations([(row, 1) for row in rows] + [(row, -1) for row in rows[::2]]))
    spec = aggregate_spec(("k",), Hopping(10, 5), mode="updates", interval_us=0)
    operator = open_group(spec, data.draw(MANY_CUTS), CHANGELOG)
    batches = [to_batch([row], [weight]) for row, weight in changes]
    expected = WindowModel(Hopping(10, 5), ("k",)).run([rows[1::2]]).results()
    assert as_rows(collect(operator, batches).batches.get(MAIN, []), weighted=True) == expected


@settings(FAST, max_examples=25)
@given(st.data(), st.sampled_from([Tumbling(10), Hopping(10, 3), SevenAndTwenty()]), st.sampled_from([0, 15]))
def test_updates_by_the_processing_clock(data: st.DataObject, window: Window, interval_us: int) -> None:
    spec = aggregate_spec(("k",), window, mode="updates", clock="processing", interval_us=interval_us)
    clock = ManualClock(wall_us=0)
    operator = open_group(spec, data.draw(MANY_CUTS), StreamSchema(FIELDS), clock=clock)
    seen: list[Row] = []
    for arrived, collected in arrivals(operator, data.draw(streams(most=30)), clock, data.draw(DELAYS)):
        seen += arrived
        if not operator.has_pending():
            model = WindowModel(window, ("k",)).run([seen])
            assert as_rows(collected.batches.get(MAIN, []), weighted=True) == model.results()
        now_us = clock.wall_us()
        assert all((part._table.first_prefix() or now_us + 1) > now_us for part in parts(operator))


def test_a_watermark_matters_from_the_end_of_the_first_window() -> None:
    rows = to_batch([Row(1, None, 1, 15), Row(1, None, 1, 7)])
    operator = open_operator(GroupAggregate(aggregate_spec(("k",)), STREAM, "g"))
    assert operator.due_us() is None
    list(operator.process(0, Batch(rows)))
    assert operator.due_us() == END_OF_TIME_US
    list(operator.on_barrier(1))
    assert operator.due_us() is None
    spec = aggregate_spec(("k",), Tumbling(10), mode="updates", lateness_us=3, interval_us=0)
    operator = open_operator(GroupAggregate(spec, STREAM, "g"))
    collect(operator, [rows, 5], end=False)
    assert operator.due_us() == 13
    collect(operator, [13], end=False)
    assert operator.due_us() == 23
    collect(operator, [])
    assert operator.due_us() is None


def test_updates_by_the_processing_clock_forget_their_windows_by_timer() -> None:
    clock = ManualClock(wall_us=0)
    spec = aggregate_spec(("k",), Tumbling(1_000), mode="updates", clock="processing", interval_us=10_000)
    operator = open_operator(GroupAggregate(spec, StreamSchema(FIELDS), "g"), clock=clock)
    assert not list(operator.process(0, Batch(to_batch([Row(1, None, 1, 0)]))))
    due = operator.timer_ns()
    assert due == 1_000_000
    clock.advance_ns(due)
    assert [batch.rows.num_rows for _, batch in operator.on_timer(due)] == [1]
    assert len(operator._table.live()) == 0
    assert operator.timer_ns() is None


class Span(UserAggregate):
    """Greatest minus least, of whole numbers above -100; cannot retract."""

    state = {"low": np.int64, "high": np.int64}  # noqa: RUF012
    result_type = pa.int64()

    def update(self, state: Any, groups: NDArray[np.int64], values: Sequence[pa.Array]) -> None:
        numbers = values[0].to_numpy() + 100
        np.maximum.at(state["high"], groups, numbers)
        np.maximum.at(state["low"], groups, 1_000 - numbers)

    def merge(self, state: Any, groups: NDArray[np.int64], other: Any, other_groups: NDArray[np.int64]) -> None:
        for name in ("low", "high"):
            np.maximum.at(state[name], groups, other[name][other_groups])

    def result(self, state: Any, groups: NDArray[np.int64]) -> Any:
        return state["high"][groups] - (1_000 - state["low"][groups])


def test_lists_nan_and_user_results_are_compared_by_value() -> None:
    calls = {
        "all": AggregateCall("collect", (col("v"),)),
        "mean": AggregateCall("mean", (col("f"),)),
        "span": AggregateCall("user", (col("v"),), user=Span()),
    }
    fields = FIELDS.append(pa.field("f", pa.float64()))
    spec = aggregate_spec(("k",), interval_us=0, aggregates=calls)
    operator = open_operator(GroupAggregate(spec, StreamSchema(fields, TimeColumn("t")), "g"))

    def batch(value: int | None, number: float | None) -> Batch:
        return Batch(to_batch([Row(1, None, value, 0)]).append_column("f", pa.array([number], pa.float64())))

    first = [item.rows.to_pylist() for _, item in operator.process(0, batch(3, float("nan")))]
    assert [row["all"] for row in first[0]] == [[3]]
    (second,) = [item.rows.to_pylist() for _, item in operator.process(0, batch(7, 1.0))]
    assert [(row["all"], row["span"], row[WEIGHT]) for row in second] == [([3], 0, -1), ([3, 7], 4, 1)]
    (third,) = [item.rows.to_pylist() for _, item in operator.process(0, batch(None, 2.0))]
    assert [(row["all"], row[WEIGHT]) for row in third] == [([3, 7], -1), ([3, 7, None], 1)]


def test_the_schema_of_an_updating_result_has_no_event_time() -> None:
    operator = GroupAggregate(aggregate_spec(("k", "s")), STREAM, "g")
    output = operator._plan.output
    assert (output.changelog, output.time) == (True, None)
    assert output.fields.names == ["k", "s", *AGGREGATES]


@pytest.mark.parametrize(
    ("spec", "stream", "message"),
    [
        (
            AggregateSpec((("k", col("k")),), (("n", AGGREGATES["n"]),), None, Emission("final")),
            STREAM,
            "never final",
        ),
        (aggregate_spec(aggregates={"x": AggregateCall("user", (col("v"),), user=Span())}), CHANGELOG, "take rows"),
        (aggregate_spec(("k", "nothing")), STREAM, "nothing"),
        (aggregate_spec(window=Tumbling(5), mode="updates"), StreamSchema(FIELDS), "needs event time"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(spec: AggregateSpec, stream: StreamSchema, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        GroupAggregate(spec, stream, "g")
    assert "'g'" in str(caught.value)


def test_late_rows_of_updating_windows_keep_their_schema() -> None:
    spec = aggregate_spec((), Tumbling(10), mode="updates", interval_us=0)
    operator = open_operator(GroupAggregate(spec, STREAM, "g"))
    late_and_not = to_batch([Row(2, "x", 1, 2), Row(3, "y", 1, 31)])
    collected = collect(operator, [to_batch([Row(1, None, 1, 1)]), 30, late_and_not])
    assert [row["k"] for row in collected.late] == [2]
    assert collected.batches[LATE][0].schema.equals(FIELDS)
