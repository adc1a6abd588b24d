"""The as-of join against a search row by row, for any interleaving of its inputs and any watermarks they allow."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import Batch
from penstock.engine.operators.joins import asof_join
from penstock.engine.operators.joins.asof_join import AsOfJoin
from penstock.engine.operators.joins.join_schema import LATE_RIGHT
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.join_specs import AsOfJoinSpec
from penstock.model.schema import StreamSchema, TimeColumn
from tests.engine.operators.joins.timed_join_support import (
    CUTS,
    LEFT,
    RIGHT,
    Pair,
    Row,
    batch_of,
    instances,
    key_of,
    pairs_of,
    restarting,
    rows,
    run,
    sorted_by_delay,
)
from tests.engine.support import Collected, open_operator

KEYS = {"number": (col("a"),), "text": (col("s"),), "both": (col("s"), col("a"))}
OUTPUT = (("l", 0, "id"), ("r", 1, "id"), ("time", 0, "at"))


def spec_of(keys: str, tolerance: int | None, how: str) -> AsOfJoinSpec:
    return AsOfJoinSpec(KEYS[keys], KEYS[keys], OUTPUT, tolerance, how)


def joined(left: list[Row], right: list[Row], keys: str, tolerance: int | None, how: str) -> Counter[Pair]:
    pairs: Counter[Pair] = Counter()
    for i, one in enumerate(left):
        found = [
            # The right's columns in their order: s, a, id.
            (other[0], (other[2] is not None, other[2] or ""), (other[1] is not None, other[1] or 0), j)
            for j, other in enumerate(right)
            if key_of(keys, one) == key_of(keys, other)
            and None not in key_of(keys, one)
            and other[0] <= one[0]
            and (tolerance is None or other[0] >= one[0] - tolerance)
        ]
        if found or how == "left":
            pairs[i, max(found)[-1] if found else None] += 1
    return pairs


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rows,
    rows,
    st.sampled_from(["number", "text", "both"]),
    st.sampled_from([None, 0, 3, 1 << 62]),
    st.sampled_from(["left", "inner"]),
    st.sampled_from([1, 4, 1000]),
    st.sampled_from([0, 4, 100]),
    st.integers(0, 10**6),
    CUTS,
)
def test_equals_a_search_row_by_row(
    left: list[Row],
    right: list[Row],
    keys: str,
    tolerance: int | None,
    how: str,
    batch_rows: int,
    delay: int,
    seed: int,
    cuts: list[str],
) -> None:
    cut = random.Random(seed)
    left, right = sorted_by_delay(left, cut, delay), sorted_by_delay(right, cut, delay)
    saved, asof_join._SPARE_KEYS = asof_join._SPARE_KEYS, cut.choice([0, 2, 1000])
    try:
        join = open_operator(
            restarting(lambda: AsOfJoin(spec_of(keys, tolerance, how), LEFT, RIGHT, "j"), keys, cuts),
            batch_rows=batch_rows,
        )
        collected = run(join, (left, right), cut)
    finally:
        asof_join._SPARE_KEYS = saved
    assert pairs_of(collected) == joined(left, right, keys, tolerance, how)
    for key in {key_of(keys, row) for row in left} if "two" in cuts else [None]:
        times = [row["time"] for row in collected.rows() if key is None or key_of(keys, left[row["l"]]) == key]
        assert times == sorted(times)
    assert not collected.late
    assert not collected.rows(LATE_RIGHT)
    for instance in instances(join):
        assert instance._last.statistics().rows == 0
        assert all(len(waiting) == len(waiting._log.live()) == 0 for waiting in instance._waiting)
        assert instance.due_us() is None


@settings(max_examples=30, deadline=None, derandomize=True)
@given(rows, rows, st.sampled_from([None, 3]), st.sampled_from(["left", "inner"]), st.integers(0, 10**6), CUTS)
def test_late_rows_leave_aside_and_the_others_are_joined(
    left: list[Row], right: list[Row], tolerance: int | None, how: str, seed: int, cuts: list[str]
) -> None:
    spec = spec_of("number", tolerance, how)
    join = open_operator(restarting(lambda: AsOfJoin(spec, LEFT, RIGHT, "j"), "number", cuts))
    collected = run(join, (left, right), random.Random(seed), on_time=False)
    late = {row["id"] for row in collected.late}, {row["id"] for row in collected.rows(LATE_RIGHT)}
    sides = [[(i, row) for i, row in enumerate(side) if i not in late[n]] for n, side in enumerate((left, right))]
    expected = joined([row for _, row in sides[0]], [row for _, row in sides[1]], "number", tolerance, how)
    names = [dict(enumerate(i for i, _ in side)) | {None: None} for side in sides]
    assert pairs_of(collected) == Counter({(names[0][i], names[1][j]): count for (i, j), count in expected.items()})


def test_rows_leave_when_both_sides_have_passed_them() -> None:
    join = open_operator(AsOfJoin(spec_of("number", None, "left"), LEFT, RIGHT, "j"))
    collected = Collected()
    collected.add(join.process(0, Batch(batch_of(0, [(0, (5, 1, None, None)), (1, (8, 1, None, None))]))))
    collected.add(join.process(1, Batch(batch_of(1, [(2, (4, 1, None, None))]))))
    collected.add(join.on_watermark(5))
    assert not collected.rows()
    collected.add(join.process(1, Batch(batch_of(1, [(3, (5, 1, None, None))]))))
    collected.add(join.on_watermark(6))
    assert pairs_of(collected) == {(0, 3): 1}
    collected.add(join.on_watermark(9))
    assert pairs_of(collected) == {(0, 3): 1, (1, 3): 1}
    assert join.context.counters.folded == 4


@pytest.mark.parametrize("tolerance", [None, 30])
def test_state_does_not_grow_with_time(tolerance: int | None) -> None:
    join = open_operator(AsOfJoin(spec_of("number", tolerance, "left"), LEFT, RIGHT, "j"))
    saved, asof_join._SPARE_KEYS = asof_join._SPARE_KEYS, 10
    most = 0
    try:
        for start in range(0, 20_000, 50):
            # With a tolerance keys may be new all the time.
            shift = 0 if tolerance is None else start
            for side in (0, 1):
                part = [(start + i, (start + i, (shift + i % 5) % 30_000, None, None)) for i in range(50)]
                list(join.process(side, Batch(batch_of(side, part))))
            list(join.on_watermark(start + 25))
            rows_kept = sum(len(waiting._log.live()) for waiting in join._waiting)
            most = max(most, rows_kept + join._last.statistics().rows)
    finally:
        asof_join._SPARE_KEYS = saved
    assert most < 300


def test_state_can_be_opened_again() -> None:
    spec = spec_of("both", None, "left")
    left: list[Row] = [(i, i % 3, "k", None) for i in range(40)]
    right: list[Row] = [(i, i % 4, "k", None) for i in range(40)]
    join = open_operator(AsOfJoin(spec, LEFT, RIGHT, "j"), batch_rows=16)
    collected = Collected()
    for start in range(0, 40, 10):
        for side, part in enumerate((left, right)):
            numbered = list(enumerate(part))[start : start + 10]
            collected.add(join.process(side, Batch(batch_of(side, numbered))))
            again = AsOfJoin(spec, LEFT, RIGHT, "j")
            again.open(join.context)
            join = again
        collected.add(join.on_watermark(start + 5))
    collected.add(join.on_watermark(1 << 62))
    assert pairs_of(collected) == joined(left, right, "both", None, "left")


def test_output_without_columns_of_one_side() -> None:
    for output in (OUTPUT[:1], OUTPUT[1:2]):
        spec = AsOfJoinSpec(KEYS["number"], KEYS["number"], output)
        join = open_operator(AsOfJoin(spec, LEFT, RIGHT, "j"))
        collected = Collected()
        collected.add(join.process(0, Batch(batch_of(0, [(0, (5, 1, None, None)), (1, (5, 2, None, None))]))))
        collected.add(join.process(1, Batch(batch_of(1, [(2, (4, 1, None, None))]))))
        collected.add(join.on_watermark(6))
        assert len(collected.rows()) == 2


def test_plans_that_cannot_be() -> None:
    spec = spec_of("number", None, "left")
    with pytest.raises(PlanError, match="left one is updating"):
        AsOfJoin(spec, StreamSchema(LEFT.fields, LEFT.time, changelog=True), RIGHT, "j")
    with pytest.raises(PlanError, match="its right input has none; declare it"):
        AsOfJoin(spec, LEFT, StreamSchema(RIGHT.fields), "j")
    with pytest.raises(PlanError, match="must be a timestamp"):
        AsOfJoin(spec, LEFT, StreamSchema(RIGHT.fields, TimeColumn("id")), "j")
