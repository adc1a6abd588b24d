"""The unbounded inner join against nested loops, for any interleaving of its inputs."""

import datetime
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import Operator
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.joins.inner_join import InnerJoin
from penstock.engine.operators.joins.join_schema import join_output
from penstock.model.errors import BugError, PlanError
from penstock.model.expressions import col
from penstock.model.job_graph import MAIN
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema, TimeColumn
from tests.engine.operators.joins.timed_join_support import CUTS
from tests.engine.restarts import Restarting, locate_by
from tests.engine.support import Collected, open_operator

LEFT = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("s", pa.string()), ("x", pa.string())])
RIGHT = pa.schema([("id", pa.int64()), ("b", pa.int32()), ("t", pa.string()), ("y", pa.float64())])

ON_NUMBER = ((col("a"),), (col("b"),))
ON_TEXT = ((col("s"),), (col("t"),))
ON_BOTH = ((col("s"), col("a")), (col("t"), col("b")))
LOCATE = {
    ON_NUMBER: (locate_by("a"), locate_by("b")),
    ON_TEXT: (locate_by("s"), locate_by("t")),
    ON_BOTH: (locate_by("s", "a"), locate_by("t", "b")),
}

DAY, WEEK = datetime.date(1960, 2, 29), datetime.timedelta(days=7)

OUTPUT = (("left_id", 0, "id"), ("right_id", 1, "id"), ("x", 0, "x"), ("y", 1, "y"))

row = st.tuples(
    st.integers(0, 1), st.sampled_from([-2, 0, 1, 1, 2, 3, None]), st.sampled_from(["", "a", "a", "b", "ab", None])
)
rows = st.lists(row, max_size=4) | st.lists(row, min_size=15, max_size=40)
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def batches_of(rows: list[tuple[int, int | None, str | None]], sizes: list[int]) -> list[tuple[int, pa.RecordBatch]]:
    """Cut a sequence of (side, number, text) rows into batches wherever the side or the next size ends."""
    batches: list[tuple[int, pa.RecordBatch]] = []
    pending: list[dict[str, Any]] = []
    side, turn = 0, 0

    def flush() -> None:
        nonlocal pending
        if pending:
            batches.append((side, pa.RecordBatch.from_pylist(pending, schema=(LEFT, RIGHT)[side])))
        pending = []

    for index, (of, number, text) in enumerate(rows):
        if of != side or len(pending) >= sizes[turn % len(sizes)]:
            flush()
            turn += 1
        side = of
        if of == 0:
            pending.append({"id": index, "a": number, "s": text, "x": f"x{index}"})
        else:
            pending.append({"id": index, "b": number, "t": text, "y": index / 2})
    flush()
    return batches


def feed(join: Operator, batches: list[tuple[int, pa.RecordBatch]]) -> Collected:
    collected = Collected()
    for port, batch in batches:
        collected.add(join.process(port, Batch(batch)))
        assert join.context.counters.balanced()
    collected.add(join.on_watermark(END_OF_TIME_US))
    collected.add(join.on_end())
    assert all(batch.num_rows <= join.context.batch_rows for batch in collected.batches.get(MAIN, []))
    return collected


def pairs_of(rows: list[tuple[int, int | None, str | None]], on: Any) -> Counter[tuple[int, int]]:
    def key(row: tuple[int, int | None, str | None]) -> tuple[Any, ...]:
        return {ON_NUMBER: row[1:2], ON_TEXT: row[2:], ON_BOTH: row[1:]}[on]

    return Counter(
        (i, j)
        for i, one in enumerate(rows)
        for j, other in enumerate(rows)
        if one[0] == 0 and other[0] == 1 and key(one) == key(other) and None not in key(one)
    )


@settings(max_examples=45, deadline=None, derandomize=True)
@given(rows, sizes, st.sampled_from([ON_NUMBER, ON_TEXT, ON_BOTH]), st.sampled_from([1, 3, 64]), CUTS)
def test_equals_nested_loops(rows: Any, sizes: list[int], on: Any, batch_rows: int, cuts: list[str]) -> None:
    spec = JoinSpec(on[0], on[1], OUTPUT)
    join = open_operator(
        Restarting(lambda: InnerJoin(spec, StreamSchema(LEFT), StreamSchema(RIGHT), "j"), cuts, LOCATE[on]),
        batch_rows=batch_rows,
    )
    out = feed(join, batches_of(rows, sizes)).rows()
    assert Counter((row["left_id"], row["right_id"]) for row in out) == pairs_of(rows, on)
    assert all(row["x"] == f"x{row['left_id']}" and row["y"] == row["right_id"] / 2 for row in out)
    counters = join.context.counters
    nulls = sum(None in {ON_NUMBER: row[1:2], ON_TEXT: row[2:], ON_BOTH: row[1:]}[on] for row in rows)
    assert (counters.rows_in, counters.filtered, counters.folded) == (
        len(rows),
        nulls,
        len(rows) - nulls,
    )


def test_hot_key_comes_in_bounded_batches_one_at_a_time() -> None:
    spec = JoinSpec(*ON_NUMBER, OUTPUT)
    join = open_operator(InnerJoin(spec, StreamSchema(LEFT), StreamSchema(RIGHT), "j"), batch_rows=100)
    hot: list[tuple[int, int | None, str | None]] = [(0, 1, None)] * 300
    (left,) = batches_of(hot, [300])
    (right,) = batches_of([(1, 1, None)] * 70, [70])
    assert not list(join.process(0, Batch(left[1])))
    emissions = iter(join.process(1, Batch(right[1])))
    assert next(emissions)[1].rows.num_rows == 100
    sizes = [batch.rows.num_rows for _, batch in emissions]
    assert sum(sizes) == 300 * 70 - 100
    assert max(sizes) <= 100


def test_keys_may_be_expressions_and_a_side_may_give_no_column() -> None:
    spec = JoinSpec((col("a") * 2,), (col("b") + 1,), (("id", 0, "id"),))
    join = open_operator(InnerJoin(spec, StreamSchema(LEFT), StreamSchema(RIGHT), "j"))
    out = feed(join, batches_of([(0, 1, None), (1, 1, None), (1, 2, None), (0, 1, None)], [9]))
    assert out.rows() == [{"id": 0}, {"id": 3}]


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.float64(), [0.0, float("nan"), 2.0], [-0.0, float("nan"), 3.0]),
        (pa.bool_(), [True, False, None], [True, False, None]),
        (pa.date32(), [DAY, DAY + WEEK, None], [DAY, DAY + WEEK, None]),
        (pa.binary(), [b"a\0", b"a", b"b"], [b"a\0", b"a", b"c"]),
        (pa.decimal128(9, 2), [Decimal("1.50"), Decimal(2), None], [Decimal("1.50"), Decimal(2), None]),
        (pa.timestamp("ns"), [1, 1_001, 2], [1, 1_001, 3]),
    ],
)
def test_key_types(kind: pa.DataType, one: list[Any], other: list[Any]) -> None:
    left = pa.record_batch({"id": pa.array([0, 1, 2]), "k": pa.array(one, kind)})
    right = pa.record_batch({"id": pa.array([0, 1, 2]), "k": pa.array(other, kind)})
    spec = JoinSpec((col("k"),), (col("k"),), (("l", 0, "id"), ("r", 1, "id")))
    join = open_operator(InnerJoin(spec, StreamSchema(left.schema), StreamSchema(right.schema), "j"))
    out = feed(join, [(1, right), (0, left)]).rows()
    assert sorted((row["l"], row["r"]) for row in out) == [(0, 0), (1, 1)]


def test_state_survives_in_the_store() -> None:
    spec = JoinSpec(*ON_NUMBER, OUTPUT)
    first = open_operator(InnerJoin(spec, StreamSchema(LEFT), StreamSchema(RIGHT), "j"))
    (left,) = batches_of([(0, 1, None), (0, 2, None), (0, 1, None)], [9])
    (right,) = batches_of([(1, 1, None)], [9])
    feed(first, [left])
    again = InnerJoin(spec, StreamSchema(LEFT), StreamSchema(RIGHT), "j")
    again.open(first.context)
    assert sorted(row["left_id"] for row in feed(again, [right]).rows()) == [0, 2]


def test_schema() -> None:
    left = StreamSchema(LEFT)
    timed = StreamSchema(RIGHT.append(pa.field("ts", pa.timestamp("us"))), TimeColumn("ts"))
    spec = JoinSpec(*ON_NUMBER, (*OUTPUT, ("ts", 1, "ts")))
    output = join_output(spec, left, timed, "j")
    assert output.fields.names == ["left_id", "right_id", "x", "y", "ts"]
    assert output.time is None
    assert not output.changelog


@pytest.mark.parametrize(
    ("spec", "right", "words"),
    [
        (JoinSpec((), (), OUTPUT), StreamSchema(RIGHT), "at least one"),
        (JoinSpec((col("a"),), (col("t"),), OUTPUT), StreamSchema(RIGHT), "cast one of them"),
        (JoinSpec((col("a"),), (col("y"),), OUTPUT), StreamSchema(RIGHT), "cast one of them"),
        (JoinSpec(*ON_NUMBER, (("z", 1, "z"),)), StreamSchema(RIGHT), "'z' of its right input"),
        (JoinSpec(*ON_NUMBER, (("w", -1, "window_end"),)), StreamSchema(RIGHT), "of its own"),
    ],
)
def test_impossible_joins(spec: JoinSpec, right: StreamSchema, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        InnerJoin(spec, StreamSchema(LEFT), right, "j")


def test_updating_inputs_are_not_for_it() -> None:
    with pytest.raises(BugError, match="incremental join"):
        InnerJoin(JoinSpec(*ON_NUMBER, OUTPUT), StreamSchema(LEFT), StreamSchema(RIGHT, None, True), "j")


def test_rows_whose_key_cannot_be_computed_are_dead_letters() -> None:
    spec = JoinSpec((col("a") + 1,), (col("b"),), OUTPUT)
    join = open_operator(InnerJoin(spec, StreamSchema(LEFT), StreamSchema(RIGHT), "j"))
    batch = pa.RecordBatch.from_pylist(
        [{"id": 0, "a": 2**63 - 1}, {"id": 1, "a": 1}, {"id": 2, "a": None}], schema=LEFT
    )
    feed(join, [(0, batch)])
    counters = join.context.counters
    assert (counters.dead_lettered, counters.folded, counters.filtered) == (1, 1, 1)
