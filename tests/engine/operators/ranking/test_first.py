"""Deduplication that keeps first rows against going through the rows one by one."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import Batch
from penstock.engine.operators.ranking.first import First
from penstock.engine.operators.ranking.first_schema import first_output
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.keyed_specs import FirstSpec
from penstock.model.schema import StreamSchema, TimeColumn
from tests.engine.restarts import CUTS, Restarting, locate_by
from tests.engine.support import ManualClock, collect, open_operator

FIELDS = pa.schema([("k", pa.string()), ("x", pa.float64()), ("s", pa.string()), ("t", pa.timestamp("us"))])
STREAM = StreamSchema(FIELDS, TimeColumn("t"))
KEYS = (("k", col("k")),)

Row = tuple[Any, ...]

rows = st.tuples(
    st.sampled_from([None, "a", "b", "c"]),
    st.sampled_from([None, 1.0, math.nan]),
    st.sampled_from([None, "p", "q"]),
    st.integers(0, 30),
)
steps = st.lists(st.one_of(st.lists(rows, max_size=8), st.integers(0, 40)), max_size=12)


def to_batch(items: list[Row]) -> pa.RecordBatch:
    columns = [pa.array([row[index] for row in items], field.type) for index, field in enumerate(FIELDS)]
    return pa.RecordBatch.from_arrays(columns, schema=FIELDS)


def tie(row: Row) -> Any:
    """Order rows of one time and key: nulls first, NaN last."""
    x = (0, 0) if row[1] is None else (2, 0) if math.isnan(row[1]) else (1, row[1])
    return x, (row[2] is not None, row[2] or "")


def values(found: list[dict[str, Any]]) -> list[str]:
    return [repr(tuple(row.values())) for row in found]


def as_shown(items: list[Row]) -> list[str]:
    return values(to_batch(items).to_pylist())


def restarting(spec: FirstSpec, schema: StreamSchema, cuts: list[str]) -> Restarting:
    return Restarting(lambda: First(spec, schema, "d"), cuts, [locate_by("k")])


@settings(max_examples=100, deadline=None)
@given(steps, st.sampled_from([None, 0, 3, 10]), st.sampled_from([1, 4, 64]), CUTS)
def test_by_event_time(steps: Any, ttl: int | None, batch_rows: int, cuts: list[str]) -> None:
    watermark, waiting, late, played = -1, [], [], []
    for step in steps:
        if isinstance(step, int):
            if step > watermark:
                watermark = step
                played.append(step)
        else:
            late += [row for row in step if row[3] < watermark]
            waiting += [row for row in step if row[3] >= watermark]
            played.append(to_batch(step))
    expected: list[Row] = []
    passed: dict[Any, int] = {}
    for row in sorted(waiting, key=lambda row: (row[3], str(row[0]), tie(row))):
        if row[0] not in passed or (ttl is not None and row[3] > passed[row[0]] + ttl):
            passed[row[0]] = row[3]
            expected.append(row)
    first = open_operator(restarting(FirstSpec(KEYS, False, ttl), STREAM, cuts), batch_rows=batch_rows)
    out = collect(first, played)
    assert sorted(values(out.rows())) == sorted(as_shown(expected))
    if "two" not in cuts:
        assert [row["t"] for row in out.rows()] == sorted(row["t"] for row in out.rows())
    assert sorted(values(out.late)) == sorted(as_shown(late))
    assert all(batch.num_rows <= batch_rows for batch in out.batches.get("main", []))
    counters = first.context.counters
    assert (counters.passed, counters.late, counters.folded) == (len(expected), len(late), 0)


def test_rows_that_wait_go_with_their_keys() -> None:
    first = open_operator(restarting(FirstSpec(KEYS, False, 4), STREAM, ["", "two", "one"] * 9))
    played: list[pa.RecordBatch | int] = []
    for at in range(20):
        played += [to_batch([(key, 1.0, "p", time) for key in "abcdefgh" for time in (at + 3, at + 9)]), at]
    found = [(row["k"], row["t"]) for row in collect(first, played).rows()]
    times = to_batch([("a", 1.0, "p", time) for time in range(3, 29, 5)])["t"].to_pylist()
    assert sorted(found) == [(key, time) for key in "abcdefgh" for time in times]


@settings(max_examples=50, deadline=None)
@given(st.lists(rows, max_size=30), st.integers(1, 9), st.sampled_from([None, 0, 3, 10]), CUTS)
def test_by_arrival(items: Any, size: int, ttl: int | None, cuts: list[str]) -> None:
    expected: list[Row] = []
    passed: dict[Any, int] = {}
    for row in items:
        if row[0] not in passed or (ttl is not None and row[3] > passed[row[0]] + ttl):
            passed[row[0]] = row[3]
            expected.append(row)
    first = open_operator(restarting(FirstSpec(KEYS, True, ttl), STREAM, cuts))
    out = collect(first, [to_batch(items[at : at + size]) for at in range(0, len(items), size)])
    for key in ("a", "b", "c", None):
        of_key = as_shown([row for row in expected if row[0] == key])
        assert values([row for row in out.rows() if row["k"] == key]) == of_key
    counters = first.context.counters
    assert (counters.passed, counters.filtered) == (len(expected), len(items) - len(expected))


def test_rows_of_answered_keys_do_not_wait() -> None:
    first = open_operator(First(FirstSpec(KEYS), STREAM, "d"))
    collect(first, [to_batch([("a", 1.0, "p", 1)]), 5, to_batch([("a", 1.0, "p", 6), ("b", 1.0, "p", 6)])], end=False)
    assert (first.context.counters.filtered, first.context.counters.folded) == (1, 1)


@pytest.mark.parametrize("by_arrival", [True, False])
def test_keys_are_forgotten_by_event_time(by_arrival: bool) -> None:
    first = open_operator(First(FirstSpec(KEYS, by_arrival, 10), STREAM, "d"))
    store = first.context.state
    collect(first, [to_batch([("a", 1.0, "p", 1), ("b", 1.0, "p", 5)]), 11], end=False)
    assert first._table.live().size == 2
    collect(first, [to_batch([("a", 1.0, "p", 12)]), 16], end=False)
    assert first._table.live().size == 1
    collect(first, [23], end=False)
    assert first._table.live().size == 0
    assert sorted(store.names())[:2] == ["expiries", "keys"]


def test_keys_are_forgotten_by_processing_time_where_there_is_no_other() -> None:
    clock = ManualClock()
    first = open_operator(First(FirstSpec(KEYS, True, 10), StreamSchema(FIELDS), "d"), clock=clock)
    batch = to_batch([("a", 1.0, "p", 1)])
    passed = 0
    for wait_us, expected in ((0, 1), (10, 1), (1, 2), (5, 2), (6, 3)):
        clock.advance_us(wait_us)
        passed += sum(emitted.rows.num_rows for _, emitted in first.process(0, Batch(batch)))
        assert passed == expected
    assert first._table.live().size == 1


@pytest.mark.parametrize("by_arrival", [True, False])
def test_keys_are_forgotten_at_their_time_after_a_restart(by_arrival: bool) -> None:
    first = open_operator(restarting(FirstSpec(KEYS, by_arrival, 10), STREAM, ["", "two", "one"]))
    out = collect(first, [to_batch([(key, 1.0, "p", 3) for key in "abcdef"]), 5, 13], end=False)
    assert [inner._table.live().size for inner in first._inner] == [6]  # type: ignore[attr-defined]
    assert first._inner[0].due_us() == 14
    collect(first, [14], end=False)
    assert [inner._table.live().size for inner in first._inner] == [0]  # type: ignore[attr-defined]
    assert first._inner[0].due_us() is None
    assert len(out.rows()) == 6


def test_says_which_watermark_lets_a_row_go() -> None:
    first = open_operator(First(FirstSpec(KEYS), STREAM, "d"))
    assert first.due_us() is None
    collect(first, [to_batch([("a", 1.0, "p", 6), ("b", 1.0, "p", 9)]), 6], end=False)
    assert (first.due_us(), first.notes()) == (7, {"watermark_us": 6})
    collect(first, [7], end=False)
    assert first.due_us() == 10


def test_rows_whose_key_cannot_be_computed_are_dead_letters() -> None:
    fields = pa.schema([("v", pa.int64()), ("t", pa.timestamp("us"))])
    spec = FirstSpec((("w", col("v") + 1),))
    first = open_operator(First(spec, StreamSchema(fields, TimeColumn("t")), "d"))
    batch = pa.RecordBatch.from_pylist([{"v": 2**63 - 1, "t": 1}, {"v": 1, "t": 1}], schema=fields)
    assert [row["v"] for row in collect(first, [batch]).rows()] == [1]
    assert first.context.counters.dead_lettered == 1


def test_schema() -> None:
    assert first_output(FirstSpec(KEYS), STREAM, "d") == STREAM


@pytest.mark.parametrize(
    ("spec", "schema", "words"),
    [
        (FirstSpec(KEYS), StreamSchema(FIELDS, None, True), 'deduplicate\\(keep="last"\\)'),
        (FirstSpec(KEYS), StreamSchema(FIELDS), "needs event time"),
        (FirstSpec(KEYS, True, -1), STREAM, "negative ttl"),
    ],
)
def test_impossible_specs(spec: FirstSpec, schema: StreamSchema, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        First(spec, schema, "d")
