"""The interval join against nested loops, for any interleaving of its inputs and any watermarks they allow."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import Batch
from penstock.engine.operators.joins import interval_rows
from penstock.engine.operators.joins.interval_join import IntervalJoin
from penstock.engine.operators.joins.join_schema import LATE_RIGHT
from penstock.model.errors import PlanError
from penstock.model.expressions import Expr, col
from penstock.model.job_graph import LATE
from penstock.model.join_specs import HOWS, IntervalJoinSpec
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
IDS = (("l", 0, "id"), ("r", 1, "id"))
bounds = st.sampled_from(
    [(0, 0), (-3, 3), (0, 10), (-10, 0), (2, 7), (-7, -2), (-1 << 62, 1 << 62), (0, None), (-4, None), (3, None)]
)


def spec_of(keys: str, lower: int, upper: int | None, how: str, timed: int | None = None) -> IntervalJoinSpec:
    output = IDS if timed is None else (*IDS, ("time", timed, "at"))
    until: int | Expr = col("until") if upper is None else upper
    return IntervalJoinSpec(KEYS[keys], KEYS[keys], output, lower, until, how)


def timed_side(spec: IntervalJoinSpec) -> int | None:
    """The side whose time is the output's event time when both are there."""
    both = IntervalJoinSpec(
        spec.left_keys, spec.right_keys, (("lt", 0, "at"), ("rt", 1, "at")), spec.lower_us, spec.upper, spec.how
    )
    time = IntervalJoin(both, LEFT, RIGHT, "j")._output.time
    return None if time is None else int(time.name == "rt")


def joined(left: list[Row], right: list[Row], keys: str, lower: int, upper: int | None, how: str) -> Counter[Pair]:
    pairs: Counter[Pair] = Counter()
    for i, one in enumerate(left):
        last = one[3] if upper is None else one[0] + upper
        for j, other in enumerate(right):
            same = key_of(keys, one) == key_of(keys, other) and None not in key_of(keys, one)
            pairs[i, j] += same and last is not None and one[0] + lower <= other[0] <= last
    pairs = +pairs
    if how in ("left", "full"):
        met = {i for i, _ in pairs}
        pairs.update((i, None) for i in range(len(left)) if i not in met)
    if how in ("right", "full"):
        met = {j for _, j in pairs}
        pairs.update((None, j) for j in range(len(right)) if j not in met)
    return pairs


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    rows,
    rows,
    st.sampled_from(["number", "text", "both"]),
    bounds,
    st.sampled_from(HOWS),
    st.sampled_from([1, 4, 1000]),
    st.sampled_from([0, 4, 100]),
    st.integers(0, 10**6),
    CUTS,
)
def test_equals_nested_loops(
    left: list[Row],
    right: list[Row],
    keys: str,
    between: tuple[int, int | None],
    how: str,
    batch_rows: int,
    delay: int,
    seed: int,
    cuts: list[str],
) -> None:
    cut = random.Random(seed)
    left, right = sorted_by_delay(left, cut, delay), sorted_by_delay(right, cut, delay)
    spec = spec_of(keys, *between, how)
    spec = spec_of(keys, *between, how, timed_side(spec))
    saved, interval_rows._SPARE_ROWS = interval_rows._SPARE_ROWS, cut.choice([0, 3, 1000])
    try:
        join = open_operator(
            restarting(lambda: IntervalJoin(spec, LEFT, RIGHT, "j"), keys, cuts), batch_rows=batch_rows
        )
        collected = run(join, (left, right), cut)
    finally:
        interval_rows._SPARE_ROWS = saved
    assert pairs_of(collected) == joined(left, right, keys, *between, how)
    assert not collected.late
    assert not collected.rows(LATE_RIGHT)
    for instance in instances(join):
        assert instance.context.state.bytes_used() == 0
        assert instance.due_us() is None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows, rows, bounds, st.sampled_from(HOWS), st.integers(0, 10**6), CUTS)
def test_late_rows_leave_aside_and_the_others_are_joined(
    left: list[Row], right: list[Row], between: tuple[int, int | None], how: str, seed: int, cuts: list[str]
) -> None:
    spec = spec_of("number", *between, how)
    join = open_operator(restarting(lambda: IntervalJoin(spec, LEFT, RIGHT, "j"), "number", cuts))
    collected = run(join, (left, right), random.Random(seed), on_time=False)
    late = {row["id"] for row in collected.late}, {row["id"] for row in collected.rows(LATE_RIGHT)}
    sides = [[(i, row) for i, row in enumerate(side) if i not in late[n]] for n, side in enumerate((left, right))]
    expected = joined([row for _, row in sides[0]], [row for _, row in sides[1]], "number", *between, how)
    names = [dict(enumerate(i for i, _ in side)) | {None: None} for side in sides]
    assert pairs_of(collected) == Counter({(names[0][i], names[1][j]): count for (i, j), count in expected.items()})


def test_late_rows_are_counted_on_their_side() -> None:
    join = open_operator(IntervalJoin(spec_of("number", 0, 10, "inner"), LEFT, RIGHT, "j"))
    collected = Collected()
    collected.add(join.on_watermark(15))
    collected.add(join.process(0, Batch(batch_of(0, [(0, (14, 1, None, None)), (1, (15, 1, None, None))]))))
    collected.add(join.process(1, Batch(batch_of(1, [(2, (14, 1, None, None)), (3, (25, 1, None, None))]))))
    assert [row["id"] for row in collected.rows(LATE)] == [0]
    assert [row["id"] for row in collected.rows(LATE_RIGHT)] == [2]
    assert pairs_of(collected) == {(1, 3): 1}
    counters = join.context.counters
    assert (counters.late, counters.folded, counters.rows_in) == (2, 2, 4)


def test_pairs_leave_at_once_and_the_others_when_no_partner_can_come() -> None:
    join = open_operator(IntervalJoin(spec_of("number", 0, 10, "full"), LEFT, RIGHT, "j"))
    collected = Collected()
    collected.add(join.process(0, Batch(batch_of(0, [(0, (5, 1, None, None)), (1, (5, 2, None, None))]))))
    collected.add(join.process(1, Batch(batch_of(1, [(2, (15, 1, None, None)), (3, (6, 7, None, None))]))))
    assert pairs_of(collected) == {(0, 2): 1}
    collected.add(join.on_watermark(6))
    assert len(collected.rows()) == 1
    collected.add(join.on_watermark(7))
    assert pairs_of(collected) == {(0, 2): 1, (None, 3): 1}
    collected.add(join.on_watermark(15))
    assert len(collected.rows()) == 2
    collected.add(join.on_watermark(16))
    assert pairs_of(collected) == {(0, 2): 1, (None, 3): 1, (1, None): 1}


@pytest.mark.parametrize(
    ("how", "lower", "upper", "time", "held_back"),
    [
        ("inner", 0, 10, "rt", 0),
        ("inner", 0, None, "rt", 0),
        ("inner", -5, 10, "lt", 10),
        ("inner", -5, -2, "lt", 0),
        ("inner", -5, None, "rt", 5),
        ("left", 0, 10, "lt", 10),
        ("left", 0, None, None, 0),
        ("right", 0, 10, "rt", 0),
        ("right", -5, None, "rt", 5),
        ("full", 0, 10, None, 0),
    ],
)
def test_event_time_of_the_output(how: str, lower: int, upper: int | None, time: str | None, held_back: int) -> None:
    spec = spec_of("number", lower, upper, how)
    both = (("lt", 0, "at"), ("rt", 1, "at"))
    join = IntervalJoin(
        IntervalJoinSpec(spec.left_keys, spec.right_keys, both, lower, spec.upper, how), LEFT, RIGHT, "j"
    )
    assert join._output.time == (None if time is None else TimeColumn(time))
    if time is not None:
        assert join.output_watermark(100) == 100 - held_back
        assert not join._output.fields.field(time).nullable or how == "inner" or LEFT.fields.field("at").nullable


def test_hot_key_comes_in_bounded_batches_one_at_a_time() -> None:
    join = open_operator(IntervalJoin(spec_of("text", 0, 1000, "inner"), LEFT, RIGHT, "j"), batch_rows=50)
    many = [(i, (0, 1, "k", None)) for i in range(120)]
    list(join.process(0, Batch(batch_of(0, many))))
    emissions = iter(join.process(1, Batch(batch_of(1, many))))
    assert next(emissions)[1].rows.num_rows == 50
    sizes = [batch.rows.num_rows for _, batch in emissions]
    assert sum(sizes) == 120 * 120 - 50
    assert max(sizes) <= 50


@pytest.mark.parametrize("how", HOWS)
def test_rows_kept_do_not_grow_with_time(how: str) -> None:
    join = open_operator(IntervalJoin(spec_of("number", 0, 20, how), LEFT, RIGHT, "j"))
    most = 0
    saved, interval_rows._SPARE_ROWS = interval_rows._SPARE_ROWS, 100
    try:
        for start in range(0, 20_000, 50):
            for side in (0, 1):
                part = [(start + i, (start + i, 1 + i % 3, None, None)) for i in range(50)]
                list(join.process(side, Batch(batch_of(side, part))))
            list(join.on_watermark(start + 25))
            most = max(most, sum(len(kept) for kept in join._kept))
    finally:
        interval_rows._SPARE_ROWS = saved
    assert most < 800


@pytest.mark.parametrize(("how", "kept"), [("inner", 10), ("left", 10), ("right", 30)])
def test_rows_whose_partners_have_all_come_are_not_kept(how: str, kept: int) -> None:
    join = open_operator(IntervalJoin(spec_of("number", 5, 20, how), LEFT, RIGHT, "j"))
    collected = Collected()
    collected.add(join.process(0, Batch(batch_of(0, [(i, (i, 1, None, None)) for i in range(40)]))))
    # No left row before 15 is to come, so right rows before 20 wait for none.
    right = batch_of(1, [(i, (i, 1, None, None)) for i in range(30)])
    collected.add(join.process(1, Batch(right, opposite_us=15)))
    assert len(join._kept[1]) == kept
    collected.add(join.process(0, Batch(batch_of(0, [(40, (15, 1, None, None))]))))
    # No right row before 60 is to come, so left rows up to 39 wait for none.
    collected.add(join.process(0, Batch(batch_of(0, [(41, (16, 1, None, None))]), opposite_us=60)))
    assert len(join._kept[0]) == 41 + (how == "left")
    collected.add(join.on_watermark(1 << 62))
    times = [(i, i) for i in range(40)] + [(40, 15), (41, 16)]
    expected = {(i, j) for i, at in times for j in range(30) if at + 5 <= j <= at + 20}
    assert {pair for pair in pairs_of(collected) if None not in pair} == expected


def test_state_can_be_opened_again() -> None:
    spec = spec_of("both", 0, 20, "full")
    left: list[Row] = [(i % 7, i % 3, "k", None) for i in range(40)]
    right: list[Row] = [(i % 9, i % 4, "k", None) for i in range(40)]
    join = open_operator(IntervalJoin(spec, LEFT, RIGHT, "j"), batch_rows=16)
    collected = Collected()
    for start in range(0, 40, 10):
        for side, part in enumerate((left, right)):
            numbered = list(enumerate(part))[start : start + 10]
            collected.add(join.process(side, Batch(batch_of(side, numbered))))
            again = IntervalJoin(spec, LEFT, RIGHT, "j")
            again.open(join.context)
            join = again
    collected.add(join.on_watermark(1 << 62))
    assert pairs_of(collected) == joined(left, right, "both", 0, 20, "full")


def test_plans_that_cannot_be() -> None:
    spec = spec_of("number", 0, 10, "inner")
    with pytest.raises(PlanError, match="right one is updating"):
        IntervalJoin(spec, LEFT, StreamSchema(RIGHT.fields, RIGHT.time, changelog=True), "j")
    with pytest.raises(PlanError, match="its left input has none; declare it"):
        IntervalJoin(spec, StreamSchema(LEFT.fields), RIGHT, "j")
    upper = IntervalJoinSpec(spec.left_keys, spec.right_keys, IDS, 0, col("a"))
    with pytest.raises(PlanError, match="needs a duration or a timestamp as upper bound"):
        IntervalJoin(upper, LEFT, RIGHT, "j")
    with pytest.raises(PlanError, match="puts out column 'nothing' of its right input"):
        IntervalJoin(IntervalJoinSpec(spec.left_keys, spec.right_keys, (("x", 1, "nothing"),), 0, 1), LEFT, RIGHT, "j")
