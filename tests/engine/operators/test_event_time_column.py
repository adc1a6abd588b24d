"""Another event time: late rows by the new time, rows without one set aside, a watermark that is held back."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.operators.event_time_column import EventTimeColumn
from penstock.model.job_graph import TimeSpec
from penstock.model.schema import StreamSchema, TimeColumn
from tests.engine.restarts import RESTARTS, Restarting
from tests.engine.support import Collected, collect, open_operator

FIELDS = pa.schema([("at", pa.timestamp("us")), ("until", pa.timestamp("ms")), ("x", pa.int64())])
SCHEMA = StreamSchema(FIELDS, TimeColumn("at"))


def batch(*untils: int | None) -> pa.RecordBatch:
    columns = [pa.array([0] * len(untils), pa.timestamp("us")), pa.array(untils, pa.timestamp("ms"))]
    return pa.RecordBatch.from_arrays([*columns, pa.array(range(len(untils)))], schema=FIELDS)


def operator(delay_us: int = 0) -> EventTimeColumn:
    return open_operator(EventTimeColumn(TimeSpec("until", delay_us), SCHEMA, "t"))


def untils(rows: list[dict[str, object]]) -> list[object]:
    return [None if row["until"] is None else pa.scalar(row["until"], pa.timestamp("ms")).value for row in rows]


def test_rows_before_the_outgoing_watermark_are_late() -> None:
    timed = operator(delay_us=3_000)
    collected = collect(timed, [batch(9), 10_000, batch(6, 7, 20), batch(5)])
    assert untils(collected.rows()) == [9, 7, 20]
    assert untils(collected.late) == [6, 5]
    assert collected.batches["late"][0].schema == FIELDS
    counters = timed.context.counters
    assert (counters.rows_in, counters.passed, counters.late) == (5, 3, 2)


def test_rows_without_a_usable_time_are_dead_letters() -> None:
    timed = operator()
    letters = timed.context.dead_letters
    # Python has no datetimes out of range, so such rows are not looked at.
    letters.reject = lambda name, rows, errors: letters.errors.extend(errors)
    collected = collect(timed, [batch(None, 1, 1 << 60), batch(None)])
    assert untils(collected.rows()) == [1]
    assert timed.context.counters.dead_lettered == 3
    assert letters.errors == [
        "event time column 'until' is null",
        "event time column 'until' is outside the years 1 to 9999",
        "event time column 'until' is null",
    ]


def test_the_watermark_stays_behind_by_the_delay() -> None:
    timed = operator(delay_us=5)
    assert timed.output_watermark(100) == 95
    assert timed.output_watermark(START_OF_TIME_US) == START_OF_TIME_US
    assert timed.output_watermark(END_OF_TIME_US) == END_OF_TIME_US


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.one_of(st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1), st.integers(-9, 9))), RESTARTS
)
def test_no_row_is_older_than_the_watermark_before_it(steps: list[list[int | None] | int], restarts: list[str]) -> None:
    spec = TimeSpec("until", 2_000)
    timed = open_operator(Restarting(lambda: EventTimeColumn(spec, SCHEMA, "t"), restarts))
    passed, out = START_OF_TIME_US, Collected()
    expected: list[int | None] = []
    for step in steps:
        if isinstance(step, int):
            if step * 1_000 > passed + 2_000:
                out.add(timed.on_watermark(step * 1_000))
                passed = timed.output_watermark(step * 1_000)
            continue
        part = collect(timed, [batch(*step)], end=False)
        out.batches.setdefault("main", []).extend(part.batches.get("main", []))
        expected += [until for until in step if until is not None and until * 1_000 >= passed]
    assert untils(out.rows()) == expected
