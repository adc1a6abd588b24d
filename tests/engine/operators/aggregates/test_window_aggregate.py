"""Final windows against a model that goes row by row."""

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
from penstock.engine.operators import key_lookup
from penstock.engine.operators.aggregates import pane_state
from penstock.engine.operators.aggregates.window_aggregate import WindowAggregate
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import PlanError, StateBudgetError, UserError
from penstock.model.expressions import col
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Global, Hopping, Tumbling, Window, WindowAssigner
from tests.engine.dataflow.dozing import MANY_CUTS, restarting
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
    arrivals,
    as_rows,
    cuts,
    rows_to_tuples,
    streams,
    to_batch,
)
from tests.engine.restarts import Restarting
from tests.engine.support import Collected, ManualClock, collect, open_operator

DELAY = 12
FAST = settings(max_examples=45, deadline=None, derandomize=True)
WINDOWS: list[Window] = [
    Tumbling(10),
    Tumbling(7, 3),
    Hopping(10, 2),
    Hopping(10, 3),
    Hopping(10, 10),
    Hopping(7, 5, -2),
    Hopping(50, 1),
    SevenAndTwenty(),
    Global(),
]


def run(
    window: Window,
    keys: Sequence[str],
    steps: Sequence[list[Row] | int],
    *,
    batch_rows: int = 32_768,
    lateness_us: int = 0,
    restarts: Sequence[str] = (),
) -> tuple[Restarting, Collected]:
    spec = aggregate_spec(keys, window, lateness_us=lateness_us)
    operator = restarting(lambda: WindowAggregate(spec, STREAM, "w"), restarts, *keys)
    open_operator(operator, batch_rows=batch_rows)
    batches = [step if isinstance(step, int) else to_batch(step) for step in steps]
    return operator, collect(operator, batches)


@FAST
@given(st.data(), st.sampled_from(WINDOWS), KEYS, st.sampled_from([1, 3, 32_768]), st.booleans())
def test_any_cut_within_the_delay_gives_the_model(
    data: st.DataObject, window: Window, keys: tuple[str, ...], batch_rows: int, small: bool
) -> None:
    rows = data.draw(streams(delay=DELAY))
    steps = data.draw(cuts(rows, lambda seen: max(row.t for row in seen) - DELAY))
    restarts = data.draw(MANY_CUTS)
    with pytest.MonkeyPatch.context() as patch:
        if small:
            # What large batches and long windows do, in small.
            patch.setattr(key_lookup, "_FEWEST_ROWS", 1)
            patch.setattr(pane_state, "_PAIRS_AT_ONCE", 4)
        operator, collected = run(window, keys, steps, batch_rows=batch_rows, restarts=restarts)
    model = WindowModel(window, keys).run([rows])
    assert as_rows(collected.batches.get(MAIN, [])) == model.results()
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))
    counters = operator.context.counters
    assert (counters.late, counters.filtered) == (0, model.outside)
    assert counters.folded == len(rows) - model.outside


@FAST
@given(st.data(), st.sampled_from(WINDOWS), st.sampled_from([0, 1, 6]))
def test_late_rows_leave_unchanged_and_open_windows_still_take_theirs(
    data: st.DataObject, window: Window, lateness_us: int
) -> None:
    rows = data.draw(streams(delay=60))
    steps = data.draw(cuts(rows, lambda seen: max(row.t for row in seen) - 2))
    operator, collected = run(window, ("k",), steps, lateness_us=lateness_us, restarts=data.draw(MANY_CUTS))
    model = WindowModel(window, ("k",), lateness_us).run(steps)
    assert as_rows(collected.batches.get(MAIN, [])) == model.results()
    assert rows_to_tuples(collected.late) == rows_to_tuples({"k": row.k, "s": row.s, "v": row.v} for row in model.late)
    assert operator.context.counters.late == len(model.late)
    assert all(batch.schema.names == FIELDS.names for batch in collected.batches.get(LATE, []))


@FAST
@given(st.data(), st.sampled_from([Tumbling(10), Hopping(10, 3), SevenAndTwenty(), Global()]))
def test_a_changelog_leaves_what_was_not_taken_back(data: st.DataObject, window: Window) -> None:
    rows = data.draw(streams(delay=DELAY, most=30))
    gone = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    changes = [(row, 1) for row in rows] + [(row, -1) for row, away in zip(rows, gone, strict=True) if away]
    changes = data.draw(st.permutations(changes))
    spec = aggregate_spec(("k",), window)
    operator = open_operator(restarting(lambda: WindowAggregate(spec, CHANGELOG, "w"), data.draw(MANY_CUTS), "k"))
    size = data.draw(st.sampled_from([1, 5, 100]))
    parts = [changes[start : start + size] for start in range(0, len(changes), size)]
    batches = [to_batch([row for row, _ in part], [weight for _, weight in part]) for part in parts]
    kept = [row for row, away in zip(rows, gone, strict=True) if not away]
    expected = WindowModel(window, ("k",)).run([kept]).results()
    assert as_rows(collect(operator, batches).batches.get(MAIN, [])) == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("window", [Tumbling(10_000_000), Hopping(3_000_000, 500_000), Tumbling(1_500, 1)])
def test_bounds_have_the_unit_of_the_time_column_unless_it_is_too_coarse(unit: str, window: Tumbling | Hopping) -> None:
    rng = np.random.default_rng(3)
    rows = [Row(1, None, int(v), int(t) * 1_000_000) for v, t in rng.integers(-9, 9, (40, 2))]
    kind = pa.timestamp(unit, "Europe/Vienna")
    stream = StreamSchema(FIELDS.set(3, pa.field("t", kind)), TimeColumn("t"))
    operator = open_operator(WindowAggregate(aggregate_spec(("k",), window), stream, "w"))
    batch = to_batch(rows, unit=unit)
    batch = batch.set_column(3, stream.fields.field(3), batch.column(3).view(kind))
    results = collect(operator, [batch]).batches[MAIN]
    step_us = {"s": 1_000_000, "ms": 1_000}.get(unit, 1)
    size_us, hop_us = window.size_us, window.hop_us if isinstance(window, Hopping) else window.size_us
    fits = all(part % step_us == 0 for part in (size_us, hop_us, window.offset_us))
    assert results[0].schema.field("window_end").type == (kind if fits else pa.timestamp("us", "Europe/Vienna"))
    if unit != "ns" and isinstance(window, Tumbling):
        got = sum(row["n"] for batch in results for row in batch.to_pylist())
        assert got == len(rows)
    ends = {end for row in rows for end in _ends(window, row.t)}
    assert {row[2] for row in as_rows(results)} == ends


def _ends(window: Window, time: int) -> list[int]:
    assert isinstance(window, Tumbling | Hopping)
    hop_us = window.hop_us if isinstance(window, Hopping) else window.size_us
    last = (time - window.offset_us) // hop_us * hop_us + window.offset_us
    starts = range(last, time - window.size_us, -hop_us)
    return [start + window.size_us for start in starts]


def test_results_are_ordered_by_window_end_and_cut_into_batches() -> None:
    rows = [Row(key, None, 1, 1_000 * second) for second in range(500) for key in range(7)]
    _, collected = run(Hopping(10_000, 2_000), ("k",), [rows], batch_rows=64)
    batches = collected.batches[MAIN]
    ends = [row["window_end"] for batch in batches for row in batch.to_pylist()]
    assert ends == sorted(ends)
    assert max(batch.num_rows for batch in batches) == 64
    assert as_rows(batches) == WindowModel(Hopping(10_000, 2_000), ("k",)).run([rows]).results()


def test_each_window_fires_once_and_at_its_watermark() -> None:
    operator = open_operator(WindowAggregate(aggregate_spec((), Tumbling(10), lateness_us=3), STREAM, "w"))
    rows = to_batch([Row(1, None, 1, 5), Row(1, None, 1, 15)])
    list(operator.process(0, Batch(rows)))
    assert not list(operator.on_watermark(12))
    assert [emission.rows.num_rows for _, emission in operator.on_watermark(13)] == [1]
    assert not list(operator.on_watermark(14))
    assert operator.output_watermark(14) == 11
    assert [emission.rows.num_rows for _, emission in operator.on_watermark(END_OF_TIME_US)] == [1]
    assert operator.output_watermark(END_OF_TIME_US) == END_OF_TIME_US
    assert not list(operator.on_end())


def test_times_far_apart_cost_no_loop_over_the_windows_between() -> None:
    rows = [Row(1, None, 1, time) for time in (-(2**61), -5, 0, 7, 2**61)]
    _, collected = run(Hopping(10, 3), ("k",), [rows])
    assert as_rows(collected.batches[MAIN]) == WindowModel(Hopping(10, 3), ("k",)).run([rows]).results()


def test_every_kind_of_state_merges_across_panes() -> None:
    calls = {
        "least": AggregateCall("min", (col("s"),)),
        "different": AggregateCall("count_distinct", (col("v"),)),
        "all": AggregateCall("collect", (col("v"),)),
        "first": AggregateCall("first", (col("v"),)),
        "mean": AggregateCall("mean", (col("v"),)),
    }
    rows = [Row(1, text, value, time) for time, (text, value) in enumerate(zip("bacbd", (3, 1, 3, 2, 1), strict=True))]
    spec = aggregate_spec(("k",), Hopping(4, 2), aggregates=calls)
    operator = open_operator(WindowAggregate(spec, STREAM, "w"))
    results = collect(operator, [to_batch(rows)]).rows()
    shown = [(row["least"], row["different"], row["all"], row["first"], row["mean"]) for row in results]
    assert shown == [
        ("a", 2, [1, 3], 3, 2.0),
        ("a", 3, [1, 2, 3, 3], 3, 2.25),
        ("b", 3, [1, 2, 3], 3, 2.0),
        ("d", 1, [1], 1, 1.0),
    ]


@settings(FAST, max_examples=25)
@given(st.data(), st.sampled_from([Tumbling(10), Hopping(10, 2), Hopping(10, 3), SevenAndTwenty(), Global()]))
def test_windows_by_the_processing_clock(data: st.DataObject, window: Window) -> None:
    spec = aggregate_spec(("k",), window, clock="processing")
    clock = ManualClock(wall_us=0)
    operator = restarting(lambda: WindowAggregate(spec, StreamSchema(FIELDS), "w"), data.draw(MANY_CUTS), "k")
    open_operator(operator, clock=clock)
    model = WindowModel(window, ("k",))
    for arrived, collected in arrivals(operator, data.draw(streams(most=30)), clock, data.draw(DELAYS)):
        model.run([arrived])
        if not isinstance(window, Global):
            over = Counter({row: 1 for row in model.results() if row[2] <= clock.wall_us()})
            shown = as_rows(collected.batches.get(MAIN, []))
            assert over <= shown <= model.results()
    assert as_rows(collected.batches.get(MAIN, [])) == model.results()


@pytest.mark.parametrize(
    ("window", "dues_us"),
    [
        (Tumbling(10), [13, 23]),
        (Hopping(10, 5), [13, 18]),
        (SevenAndTwenty(), [13, 23]),
        (Global(), [END_OF_TIME_US, END_OF_TIME_US]),
    ],
)
def test_a_watermark_matters_from_the_end_of_the_first_window(window: Window, dues_us: list[int]) -> None:
    operator = open_operator(WindowAggregate(aggregate_spec((), window, lateness_us=3), STREAM, "w"))
    assert operator.due_us() is None
    collect(operator, [to_batch([Row(1, None, 1, 14), Row(1, None, 1, 8)]), 5], end=False)
    for due_us in dues_us:
        assert operator.due_us() == due_us
        if due_us < END_OF_TIME_US:
            collect(operator, [due_us - 1, due_us], end=False)
    collect(operator, [])
    assert operator.due_us() is None


def test_windows_by_the_processing_clock_fire_by_timer() -> None:
    clock = ManualClock(wall_us=1_000_000)
    spec = aggregate_spec(("k",), Tumbling(10_000_000), clock="processing")
    stream = StreamSchema(FIELDS)
    operator = open_operator(WindowAggregate(spec, stream, "w"), clock=clock)
    collected = Collected()
    collected.add(operator.process(0, Batch(to_batch([Row(1, None, 5, 0)]))))
    clock.advance_us(2_000_000)
    collected.add(operator.process(0, Batch(to_batch([Row(1, None, 6, 0)]))))
    due = operator.timer_ns()
    assert due is not None
    assert due - clock.monotonic_ns() == 7_000_000_000
    clock.set_wall_us(0)
    clock.advance_ns(due - clock.monotonic_ns())
    collected.add(operator.on_timer(clock.monotonic_ns()))
    assert not collected.rows()
    assert operator.timer_ns() is not None
    clock.set_wall_us(10_000_000)
    collected.add(operator.on_timer(clock.monotonic_ns()))
    assert operator.timer_ns() is None
    (row,) = collected.rows()
    assert (row["n"], row["total"]) == (2, 11)
    assert row["window_end"].isoformat() == "1970-01-01T00:00:10+00:00"
    assert collected.batches[MAIN][0].schema.field("window_end").type == pa.timestamp("us", "UTC")


def test_a_bad_row_is_a_dead_letter_and_the_others_count() -> None:
    calls = {"total": AggregateCall("sum", (col("s").cast("int64"),))}
    operator = open_operator(WindowAggregate(aggregate_spec((), Tumbling(10), aggregates=calls), STREAM, "w"))
    rows = [Row(1, "12", 0, 1), Row(2, "x", 0, 2), Row(3, "30", 0, 3)]
    collected = collect(operator, [to_batch(rows)])
    assert [row["total"] for row in collected.rows()] == [42]
    assert operator.context.counters.dead_lettered == 1


def test_state_beyond_the_budget_names_the_operator() -> None:
    operator = WindowAggregate(aggregate_spec(("k",), Tumbling(10)), STREAM, "w")
    open_operator(operator, name="w", budget_bytes=100_000)
    rows = [Row(key, None, 1, 1) for key in range(20_000)]
    with pytest.raises(StateBudgetError, match="'w'"):
        list(operator.process(0, Batch(to_batch(rows))))


class Wrong(WindowAssigner):
    """Breaks the contract in a way of its choice."""

    def __init__(self, row: int, start: int, end: int) -> None:
        self.answer = row, start, end

    def assign(self, times_us: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        row, start, end = self.answer
        return np.array([row]), np.array([start]), np.array([end])


@pytest.mark.parametrize(("answer", "message"), [((0, 6, 9), "does not contain"), ((5, 0, 9), "ascending positions")])
def test_a_wrong_assigner_is_told_what_is_wrong(answer: tuple[int, int, int], message: str) -> None:
    operator = open_operator(WindowAggregate(aggregate_spec((), Wrong(*answer)), STREAM, "w"))
    with pytest.raises(UserError, match=message):
        list(operator.process(0, Batch(to_batch([Row(1, None, 1, 5)]))))


NO_TIME = StreamSchema(FIELDS)
TEXT_TIME = StreamSchema(FIELDS, TimeColumn("s"))


@pytest.mark.parametrize(
    ("arguments", "stream", "message"),
    [
        ({}, NO_TIME, "needs event time"),
        ({}, TEXT_TIME, "must be a timestamp"),
        ({"aggregates": {"window_end": AGGREGATES["n"]}}, STREAM, "'window_end'"),
        ({"aggregates": {"k": AGGREGATES["n"]}}, STREAM, "two columns called 'k'"),
        ({"aggregates": {}, "keys": ()}, STREAM, "nothing to compute"),
        ({"aggregates": {"x": AggregateCall("approx_count_distinct", (col("v"),))}}, CHANGELOG, "take rows back"),
        ({"aggregates": {"x": AggregateCall("count").filter(col("v"))}}, STREAM, "must be a condition"),
        ({"aggregates": {"x": AggregateCall("first", (col("v"),))}, "clock": "processing"}, NO_TIME, "event time"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(
    arguments: dict[str, Any], stream: StreamSchema, message: str
) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        WindowAggregate(aggregate_spec(window=Tumbling(10), **arguments), stream, "w")
    assert "'w'" in str(caught.value)


def test_a_key_that_cannot_be_one_is_named() -> None:
    fields = pa.schema([("k", pa.list_(pa.int64())), ("t", pa.timestamp("us"))])
    spec = aggregate_spec(("k",), Tumbling(10), aggregates={"n": AGGREGATES["n"]})
    with pytest.raises(PlanError, match="'w' cannot group by 'k'"):
        WindowAggregate(spec, StreamSchema(fields, TimeColumn("t")), "w")
