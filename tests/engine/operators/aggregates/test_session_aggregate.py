"""Sessions against a model that goes row by row: joining, merging, lateness, final and updating."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import MAIN
from penstock.engine.core.elements import Batch
from penstock.engine.operators.aggregates.session_aggregate import SessionAggregate
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.schema import WEIGHT, StreamSchema
from penstock.model.windows import Session
from tests.engine.dataflow.dozing import MANY_CUTS, parts, restarting
from tests.engine.operators.aggregates.aggregate_support import (
    AGGREGATES,
    CHANGELOG,
    DELAYS,
    FIELDS,
    KEYS,
    STREAM,
    Row,
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
GAP = 5
FAST = settings(max_examples=70, deadline=None, derandomize=True)


@dataclass
class SessionModel:
    """Sessions as lists of rows."""

    keys: Sequence[str]
    gap: int = GAP
    lateness: int = 0
    open: list[tuple[tuple[Any, ...], list[Row]]] = field(default_factory=list)
    over: list[tuple[tuple[Any, ...], list[Row]]] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)

    def run(self, steps: Iterable[Sequence[Row] | int]) -> "SessionModel":
        watermark = -(2**70)
        for step in steps:
            if isinstance(step, int):
                watermark = max(watermark, step)
                done = [item for item in self.open if self.end(item[1]) + self.lateness < watermark]
                self.over += done
                self.open = [item for item in self.open if item not in done]
                continue
            for row in step:
                self.add(row, watermark)
        return self

    def add(self, row: Row, watermark: int) -> None:
        key = key_of(row, self.keys)
        joined = [
            item
            for item in self.open
            if item[0] == key and min(r.t for r in item[1]) - self.gap <= row.t <= self.end(item[1])
        ]
        if not joined and row.t + self.gap + self.lateness < watermark:
            self.late.append(row)
            return
        self.open = [item for item in self.open if item not in joined]
        self.open.append((key, [row, *(r for _, rows in joined for r in rows)]))

    def end(self, rows: list[Row]) -> int:
        return max(row.t for row in rows) + self.gap

    def results(self) -> Counter[tuple[Any, ...]]:
        return Counter(
            (*key, min(row.t for row in rows), self.end(rows), *aggregated(rows)) for key, rows in self.open + self.over
        )


def run(
    keys: Sequence[str],
    steps: Sequence[list[Row] | int],
    *,
    mode: str = "final",
    lateness_us: int = 0,
    interval_us: int = 0,
    batch_rows: int = 32_768,
    restarts: Sequence[str] = (),
) -> tuple[Restarting, Collected]:
    spec = aggregate_spec(keys, Session(GAP), mode=mode, lateness_us=lateness_us, interval_us=interval_us)
    operator = restarting(lambda: SessionAggregate(spec, STREAM, "w"), restarts, *keys)
    open_operator(operator, batch_rows=batch_rows)
    batches = [step if isinstance(step, int) else to_batch(step) for step in steps]
    return operator, collect(operator, batches)


@FAST
@given(st.data(), KEYS, st.sampled_from(["final", "updates"]), st.sampled_from([0, 10**6]))
def test_any_cut_within_the_delay_gives_the_model(
    data: st.DataObject, keys: tuple[str, ...], mode: str, interval_us: int
) -> None:
    rows = data.draw(streams(delay=DELAY))
    steps = data.draw(cuts(rows, lambda seen: max(row.t for row in seen) - DELAY))
    batch_rows = data.draw(st.sampled_from([1, 3, 32_768]))
    restarts = data.draw(MANY_CUTS)
    operator, collected = run(keys, steps, mode=mode, interval_us=interval_us, batch_rows=batch_rows, restarts=restarts)
    expected = SessionModel(keys).run([rows]).results()
    assert as_rows(collected.batches.get(MAIN, []), weighted=mode == "updates") == expected
    assert operator.context.counters.folded == len(rows)
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))


@FAST
@given(st.data(), st.sampled_from(["final", "updates"]), st.sampled_from([0, 3]))
def test_late_rows_leave_unchanged(data: st.DataObject, mode: str, lateness_us: int) -> None:
    rows = data.draw(streams(delay=40, steps=(0, 9)))
    steps = data.draw(cuts(rows, lambda seen: max(row.t for row in seen) - 2))
    operator, collected = run(("k",), steps, mode=mode, lateness_us=lateness_us, restarts=data.draw(MANY_CUTS))
    model = SessionModel(("k",), lateness=lateness_us).run(steps)
    assert as_rows(collected.batches.get(MAIN, []), weighted=mode == "updates") == model.results()
    assert rows_to_tuples(collected.late) == rows_to_tuples({"k": row.k, "s": row.s, "v": row.v} for row in model.late)
    assert operator.context.counters.late == len(model.late)


@FAST
@given(st.data())
def test_updates_between_batches_are_what_the_rows_so_far_give(data: st.DataObject) -> None:
    rows = data.draw(streams(delay=DELAY))
    steps = data.draw(cuts(rows, None))
    spec = aggregate_spec(("k",), Session(GAP), mode="updates", interval_us=0)
    operator = open_operator(restarting(lambda: SessionAggregate(spec, STREAM, "w"), data.draw(MANY_CUTS), "k"))
    collected = Collected()
    seen: list[Row] = []
    for step in steps:
        assert not isinstance(step, int)
        seen += step
        collected.add(operator.process(0, Batch(to_batch(step))))
        assert not operator.has_pending()
        shown = as_rows(collected.batches.get(MAIN, []), weighted=True)
        assert shown == SessionModel(("k",)).run([seen]).results()


def one(times: Sequence[int], *, watermark: int | None = None) -> list[dict[str, Any]]:
    steps: list[list[Row] | int] = [[Row(1, None, 1, time)] for time in times]
    if watermark is not None:
        steps.insert(1, watermark)
    _, collected = run(("k",), steps)
    return collected.rows()


def test_a_row_exactly_one_gap_after_the_last_joins() -> None:
    assert [row["n"] for row in one([0, GAP])] == [2]
    assert [row["n"] for row in one([0, GAP + 1])] == [1, 1]
    assert [row["n"] for row in one([0, GAP], watermark=GAP)] == [2]


def test_a_session_is_over_strictly_after_its_end() -> None:
    operator = open_operator(SessionAggregate(aggregate_spec(("k",), Session(GAP)), STREAM, "w"))
    list(operator.process(0, Batch(to_batch([Row(1, None, 1, 0)]))))
    assert not list(operator.on_watermark(GAP))
    assert operator.output_watermark(GAP) == GAP - 1
    assert [batch.rows.num_rows for _, batch in operator.on_watermark(GAP + 1)] == [1]


def test_a_row_between_two_sessions_merges_them() -> None:
    (row,) = one([0, 2 * GAP, GAP])
    assert row["n"] == 3
    assert (row["window_end"] - row["window_start"]).microseconds == 3 * GAP


def test_sessions_that_merge_retract_what_they_showed() -> None:
    spec = aggregate_spec(("k",), Session(GAP), mode="updates", interval_us=0, aggregates={"n": AGGREGATES["n"]})
    operator = open_operator(SessionAggregate(spec, STREAM, "w"))
    collected = Collected()
    for time in (0, 2 * GAP, GAP):
        collected.add(operator.process(0, Batch(to_batch([Row(1, None, 1, time)]))))
    last = collected.batches[MAIN][-1].to_pylist()
    assert [(row["n"], row[WEIGHT]) for row in last] == [(1, -1), (1, -1), (3, 1)]


def test_sessions_emit_at_most_once_an_interval_or_when_idle() -> None:
    clock = ManualClock()
    spec = aggregate_spec(("k",), Session(GAP), mode="updates", interval_us=1_000)
    operator = open_operator(SessionAggregate(spec, STREAM, "w"), clock=clock)
    row = Batch(to_batch([Row(1, None, 1, 0)]))
    assert not list(operator.process(0, row))
    assert operator.has_pending()
    assert operator.timer_ns() == 1_000_000
    assert len(list(operator.on_timer(0))) == 1
    assert not operator.has_pending()
    assert operator.timer_ns() is None
    clock.advance_us(1_000)
    assert [batch.rows.num_rows for _, batch in operator.process(0, row)] == [2]


def test_sessions_of_long_ago_are_over_without_a_look_at_the_others() -> None:
    """Many sessions, looked for again and again, all end once."""
    spec = aggregate_spec(("k",), Session(1_000), aggregates={"n": AGGREGATES["n"]})
    operator = open_operator(SessionAggregate(spec, STREAM, "w"))
    rows = [Row(key % 97, None, 1, 40 * key) for key in range(4_000)]
    steps: list[pa.RecordBatch | int] = []
    for start in range(0, 4_000, 10):
        steps += [to_batch(rows[start : start + 10]), 40 * start]
    collected = collect(operator, steps)
    assert as_rows(collected.batches[MAIN]) == Counter((row.k, row.t, row.t + 1_000, 1) for row in rows)
    ends = [row["window_end"] for row in collected.rows()]
    assert ends == sorted(ends)


def test_sessions_by_the_processing_clock_end_by_timer() -> None:
    clock = ManualClock(wall_us=0)
    spec = aggregate_spec(("k",), Session(1_000_000), clock="processing")
    operator = open_operator(SessionAggregate(spec, StreamSchema(FIELDS), "w"), clock=clock)
    collected = Collected()
    for _ in range(3):
        collected.add(operator.process(0, Batch(to_batch([Row(1, None, 2, 0)]))))
        clock.advance_us(900_000)
    while (due := operator.timer_ns()) is not None:
        clock.advance_ns(max(1, due - clock.monotonic_ns()))
        collected.add(operator.on_timer(clock.monotonic_ns()))
    (row,) = collected.rows()
    assert (row["n"], row["total"]) == (3, 6)
    assert (row["window_end"] - row["window_start"]).total_seconds() == 2.8


@settings(FAST, max_examples=25)
@given(st.data(), st.sampled_from(["final", "updates"]))
def test_sessions_by_the_processing_clock(data: st.DataObject, mode: str) -> None:
    spec = aggregate_spec(("k",), Session(GAP), mode=mode, clock="processing", interval_us=0)
    clock = ManualClock(wall_us=0)
    operator = restarting(lambda: SessionAggregate(spec, StreamSchema(FIELDS), "w"), data.draw(MANY_CUTS), "k")
    open_operator(operator, clock=clock)
    model = SessionModel(("k",))
    for arrived, collected in arrivals(operator, data.draw(streams(most=30)), clock, data.draw(DELAYS)):
        for row in arrived:
            model.add(row, clock.wall_us())
        shown = as_rows(collected.batches.get(MAIN, []), weighted=mode == "updates")
        if mode == "updates":
            assert shown == model.results()
        else:
            assert Counter({row: 1 for row in model.results() if row[2] < clock.wall_us()}) <= shown
        for part in parts(operator):
            lasts = part._table.array("last")[part._table.live()]
            assert (lasts + GAP >= clock.wall_us()).all(), "a session is over and its timer did not fire"
    assert shown == model.results()


def test_a_watermark_matters_from_the_end_of_the_first_session() -> None:
    spec = aggregate_spec(("k",), Session(80), lateness_us=3)
    steps = [to_batch([Row(1, None, 1, 500), Row(2, None, 1, 400)]), 300]
    operator = open_operator(SessionAggregate(spec, STREAM, "w"))
    assert operator.due_us() is None
    collect(operator, steps, end=False)
    assert 300 < (operator.due_us() or 0) <= 400 + 84
    again = open_operator(restarting(lambda: SessionAggregate(spec, STREAM, "w"), ["", "", "restart"], "k"))
    collect(again, [*steps, 301], end=False)
    (part,) = parts(again)
    assert part.due_us() == 400 + 84
    assert [row["n"] for row in collect(part, [400 + 84], end=False).rows()] == [1]
    assert 400 + 84 < part.due_us() <= 500 + 84
    collect(part, [])
    assert part.due_us() is None


def test_a_session_that_grows_hides_no_other_from_the_timer() -> None:
    operator = open_operator(SessionAggregate(aggregate_spec(("k",), Session(80)), STREAM, "w"))
    collect(operator, [to_batch([Row(1, None, 1, 100), Row(2, None, 1, 112)]), 175], end=False)
    collect(operator, [to_batch([Row(1, None, 1, 170)])], end=False)
    assert (operator.due_us() or 0) <= 112 + 81


def test_state_is_empty_once_all_sessions_are_over() -> None:
    rows = [Row(key, None, 1, key) for key in range(100)]
    operator, _ = run(("k",), [rows, 1_000, [Row(5, None, 1, 3)]])
    (part,) = parts(operator)
    assert [len(table.live()) for table in (part._table, part._sessions._keys)] == [0, 0]
    assert operator.context.counters.late == 1


@pytest.mark.parametrize(
    ("stream", "aggregates", "message"),
    [
        (CHANGELOG, None, "tear apart"),
        (StreamSchema(FIELDS), None, "needs event time"),
        (STREAM, {"x": AggregateCall("sum", (col("s"),))}, "sum"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(
    stream: StreamSchema, aggregates: dict[str, AggregateCall] | None, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        SessionAggregate(aggregate_spec(("k",), Session(GAP), aggregates=aggregates), stream, "w")
