"""Joins of a sample of keys against nested loops over all rows: what leaves is right, and says how likely it was."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import MAIN, Operator
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.joins.arrival_sample import ArrivalRates
from penstock.engine.operators.joins.inner_join import InnerJoin
from penstock.engine.operators.joins.interval_join import IntervalJoin
from penstock.engine.operators.joins.window_join import WindowJoin
from penstock.model.errors import SchemaError
from penstock.model.expressions import Expr
from penstock.model.job_graph import OperatorSpec
from penstock.model.join_specs import IntervalJoinSpec, JoinSpec, Samplers
from penstock.model.keep_rates import STEPS
from penstock.model.result_columns import BUCKET
from penstock.model.windows import Hopping, Tumbling, Windowing
from penstock.shedding.key_sampling import BUCKETS, key_buckets, key_steps
from penstock.state.keys.batch_keys import KeyCodec
from tests.engine.operators.joins import test_interval_join, test_window_join
from tests.engine.operators.joins.test_window_join import windows_of
from tests.engine.operators.joins.timed_join_support import (
    CUTS,
    LEFT,
    RIGHT,
    Row,
    batch_of,
    key_of,
    restarting,
    rows,
    sorted_by_delay,
)
from tests.engine.restarts import Restarting, locate_by
from tests.engine.support import open_operator

LIMITS = st.lists(st.sampled_from([0, 8, 20, 32, 32, 50, 64]), min_size=1, max_size=20)
FAST = settings(max_examples=40, deadline=None, derandomize=True)
KEYS = st.sampled_from(["number", "text", "both"])
OUTPUT = (("l", 0, "id"), ("r", 1, "id"), (BUCKET, -1, BUCKET))
BOTH, LEFT_ALONE = (1, 0), (1, None)
"""Numbers of samplers, of which the header has two; those of the right are behind another source."""

WINDOWS = st.sampled_from([Tumbling(10), Tumbling(7, 3), Hopping(10, 5), Hopping(10, 4, 1), Hopping(12, 1)])
BETWEEN = st.sampled_from([(0, 0), (-3, 3), (0, 10), (-10, 0), (2, 7), (-7, -2), (0, None), (-4, None)])

Found = dict[tuple[Any, ...], int]
"""Pairs, of a window by its end, with the rate that they say, in steps."""

Read = list[tuple[Row, int]]
"""The rows of a side with the rates at which they were read, by their ids."""


def window_spec(keys: str, window: Tumbling | Hopping, samplers: Samplers = BOTH) -> JoinSpec:
    output = (("end", -1, "window_end"), *OUTPUT)
    of = test_window_join.KEYS[keys]
    return JoinSpec(of, of, output, Windowing(window), samplers=samplers)


def interval_spec(
    keys: str, lower: int, upper: int | None, how: str = "inner", samplers: Samplers = BOTH
) -> IntervalJoinSpec:
    until: int | Expr = test_interval_join.col("until") if upper is None else upper
    of = test_interval_join.KEYS[keys]
    return IntervalJoinSpec(of, of, OUTPUT, lower, until, how, samplers)


def unbounded_spec(keys: str) -> JoinSpec:
    of = test_window_join.KEYS[keys]
    return JoinSpec(of, of, OUTPUT, samplers=BOTH)


def made(spec: OperatorSpec) -> Callable[[], Operator]:
    if isinstance(spec, JoinSpec) and spec.windowing is None:
        return lambda: InnerJoin(spec, LEFT, RIGHT, "j")
    if isinstance(spec, JoinSpec):
        return lambda: WindowJoin(spec, LEFT, RIGHT, "j")
    assert isinstance(spec, IntervalJoinSpec)
    return lambda: IntervalJoin(spec, LEFT, RIGHT, "j")


def run(
    join: Operator,
    sides: Sequence[Sequence[Row]],
    limits: Sequence[Sequence[int]],
    cut: random.Random,
    *,
    sampling_seed: int = 0,
) -> tuple[Found, tuple[Read, Read]]:
    """Feed both sides in batches, each at the next of its side's rates, with watermarks that no row falls behind."""
    open_operator(join, sampling_seed=sampling_seed)
    waiting = [list(enumerate(side)) for side in sides]
    read: tuple[Read, Read] = ([], [])
    places, found, watermark = [0, 0], dict[tuple[Any, ...], int](), -100

    def take(emissions: Any) -> None:
        for output, batch in emissions:
            assert output == MAIN
            ends = batch.rows.column("end").cast(pa.int64()).to_pylist() if "end" in batch.rows.schema.names else ()
            for row, end in zip_longest(batch.rows.to_pylist(), ends):
                pair = (end, row["l"], row["r"])
                assert pair not in found
                found[pair] = round(batch.keep * STEPS)
                assert 0 <= row[BUCKET] < BUCKETS

    while any(waiting):
        side = cut.choice([side for side in (0, 1) if waiting[side]])
        size = cut.randint(1, 6)
        taken, waiting[side] = waiting[side][:size], waiting[side][size:]
        limit = limits[side][places[side] % len(limits[side])]
        places[side] += 1
        read[side].extend((row, limit) for _, row in taken)
        # The other of two samplers is another operator's.
        header = bytes([limit, 3] if side else [3, limit]) if limit < STEPS else b""
        take(join.process(side, Batch(batch_of(side, taken), keys=header)))
        assert join.context.counters.balanced()
        left = [row[0] for rest in waiting for _, row in rest]
        if left and cut.random() < 0.5 and (time := min(left) - cut.randint(0, 3)) > watermark:
            watermark = time
            take(join.on_watermark(time))
    take(join.on_watermark(END_OF_TIME_US))
    assert join.context.counters.late == 0
    return found, read


def step_of(keys: str, row: Row, seed: int) -> int:
    """Return the step of a row's key by the definition."""
    types = {"number": [pa.int64()], "text": [pa.string()], "both": [pa.string(), pa.int64()]}[keys]
    values = {"number": [row[1]], "text": [row[2]], "both": [row[2], row[1]]}[keys]
    columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    return int(key_steps(seed, KeyCodec(types).hash(columns, 1))[0])


def matches(keys: str, one: Row, other: Row) -> bool:
    return key_of(keys, one) == key_of(keys, other) and None not in key_of(keys, one)


def check(found: Found, expected: dict[tuple[Any, ...], tuple[int, int]], least: int) -> None:
    """Hold what leaves against all results, each with the step of its key and the least rate of its own rows.

    Every key that stays at the least rate of all is there; what is there says a rate that is no greater than its own.
    """
    remaining = dict(found)
    for pair, (step, own) in expected.items():
        said = remaining.pop(pair, None)
        assert said is not None or step >= least, pair
        if said is not None:
            assert step < said <= own, pair
    assert not remaining, "results that nobody would have without shedding"


@FAST
@given(st.data(), rows, rows, KEYS, WINDOWS, LIMITS, LIMITS, CUTS)
def test_window_joins_put_out_whole_keys_at_the_least_rate_of_their_window(
    data: st.DataObject,
    left: list[Row],
    right: list[Row],
    keys: str,
    window: Any,
    left_limits: list[int],
    right_limits: list[int],
    cuts: list[str],
) -> None:
    seed, cut = data.draw(st.integers(0, 2**40)), random.Random(data.draw(st.integers(0, 10**6)))
    left, right = (sorted_by_delay(side, cut, 4) for side in (left, right))
    join = restarting(made(window_spec(keys, window)), keys, cuts)
    found, read = run(join, (left, right), (left_limits, right_limits), cut, sampling_seed=seed)
    expected: dict[tuple[Any, ...], tuple[int, int]] = {}
    for i, (one, _) in enumerate(read[0]):
        for j, (other, _) in enumerate(read[1]):
            for end in windows_of(one[0], window) & windows_of(other[0], window) if matches(keys, one, other) else ():
                # All rows of the key in the window, so that a group by key and window is whole or not there.
                own = [
                    limit
                    for side in read
                    for row, limit in side
                    if matches(keys, one, row) and end in windows_of(row[0], window)
                ]
                expected[end, i, j] = step_of(keys, one, seed), min(own)
    check(found, expected, min((limit for side in read for _, limit in side), default=STEPS))
    said: dict[tuple[Any, ...], set[int]] = {}
    for (end, i, _), limit in found.items():
        said.setdefault((end, key_of(keys, read[0][i][0])), set()).add(limit)
    assert all(len(limits) == 1 for limits in said.values())
    for (end, i, j), (step, _) in expected.items():
        group = (end, key_of(keys, read[0][i][0]))
        assert ((end, i, j) in found) == (group in said and step < min(said[group]))


@FAST
@given(st.data(), rows, rows, KEYS, BETWEEN, st.sampled_from(["inner", "left"]), LIMITS, LIMITS, CUTS)
def test_interval_joins_put_out_pairs_at_the_lesser_rate_of_their_rows(
    data: st.DataObject,
    left: list[Row],
    right: list[Row],
    keys: str,
    between: tuple[int, int | None],
    how: str,
    left_limits: list[int],
    right_limits: list[int],
    cuts: list[str],
) -> None:
    seed, cut = data.draw(st.integers(0, 2**40)), random.Random(data.draw(st.integers(0, 10**6)))
    left, right = (sorted_by_delay(side, cut, 4) for side in (left, right))
    samplers: Samplers = LEFT_ALONE if how == "left" else BOTH
    join = restarting(made(interval_spec(keys, *between, how, samplers)), keys, cuts)
    found, read = run(join, (left, right), (left_limits, right_limits), cut, sampling_seed=seed)
    expected: dict[tuple[Any, ...], tuple[int, int]] = {}
    for i, (one, limit) in enumerate(read[0]):
        met = False
        for j, (other, other_limit) in enumerate(read[1]):
            last = one[3] if between[1] is None else one[0] + between[1]
            if matches(keys, one, other) and last is not None and one[0] + between[0] <= other[0] <= last:
                met = True
                own = limit if how == "left" else min(limit, other_limit)
                expected[None, i, j] = step_of(keys, one, seed), own
        if how == "left" and not met:
            expected[None, i, None] = step_of(keys, one, seed), limit
    sampled = read[:1] if how == "left" else read
    check(found, expected, min((limit for side in sampled for _, limit in side), default=STEPS))


@FAST
@given(st.data(), rows, rows, KEYS, LIMITS, LIMITS, CUTS)
def test_unbounded_joins_put_out_pairs_at_the_lesser_rate_of_their_rows(
    data: st.DataObject,
    left: list[Row],
    right: list[Row],
    keys: str,
    left_limits: list[int],
    right_limits: list[int],
    cuts: list[str],
) -> None:
    seed, cut = data.draw(st.integers(0, 2**40)), random.Random(data.draw(st.integers(0, 10**6)))
    columns = {"number": "a", "text": "s", "both": "sa"}[keys]
    join = Restarting(made(unbounded_spec(keys)), cuts, (locate_by(*columns),) * 2)
    found, read = run(join, (left, right), (left_limits, right_limits), cut, sampling_seed=seed)
    expected: dict[tuple[Any, ...], tuple[int, int]] = {
        (None, i, j): (step_of(keys, one, seed), min(limit, other_limit))
        for i, (one, limit) in enumerate(read[0])
        for j, (other, other_limit) in enumerate(read[1])
        if matches(keys, one, other)
    }
    check(found, expected, min((limit for side in read for _, limit in side), default=STEPS))
    if not any(cuts):
        assert found == {pair: own for pair, (step, own) in expected.items() if step < own}


def test_rates_that_change_often_end_as_the_least_of_all() -> None:
    rates = ArrivalRates(STEPS)
    for number in range(400):
        rates.add(number, 20 + number % 2 if number < 300 else 50)
    assert rates.of(np.array([0, 200, 250])).tolist() == [20, 20, 20]
    assert rates.of(np.array([260, 299, 300, 399])).tolist() == [20, 21, 50, 50]


SPECS = {
    "unbounded": unbounded_spec("number"),
    "window": window_spec("number", Hopping(10, 5)),
    "interval": interval_spec("number", -5, 5),
    "until": interval_spec("number", 0, None),
}


@pytest.mark.parametrize("name", SPECS)
@FAST
@given(rows, rows, LIMITS, LIMITS, st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), st.integers(0, 10**6))
def test_the_rate_of_a_pair_does_not_depend_on_which_keys_stay(
    name: str, left: list[Row], right: list[Row], one: list[int], other: list[int], seeds: tuple[int, int], cut: int
) -> None:
    """So the chance that a pair leaves is the rate that it says, and 1 / rate its weight."""
    first, second = (
        run(made(SPECS[name])(), sorted_pair(left, right), (one, other), random.Random(cut), sampling_seed=seed)[0]
        for seed in seeds
    )
    for pair in first.keys() & second.keys():
        assert first[pair] == second[pair]


def sorted_pair(left: list[Row], right: list[Row]) -> tuple[list[Row], list[Row]]:
    return sorted(left, key=lambda row: row[0]), sorted(right, key=lambda row: row[0])


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(("left", "right"), [(16, 48), (48, 16), (32, 64), (64, 20), (0, 64)])
def test_pairs_of_two_rates_are_a_sample_of_the_lesser_one_and_not_of_the_product(
    name: str, left: int, right: int
) -> None:
    numbers = range(400)
    sides = tuple([(0, number, "", 5) for number in numbers] for _ in range(2))
    found, _ = run(made(SPECS[name])(), sides, ([left], [right]), random.Random(1), sampling_seed=9)
    steps = {number: step_of("number", sides[0][number], 9) for number in numbers}
    least = min(left, right)
    assert {pair[1] for pair in found} == {number for number in numbers if steps[number] < least}
    assert set(found.values()) <= {least}


@pytest.mark.parametrize("name", SPECS)
def test_pairs_of_a_sample_say_the_buckets_of_their_keys(name: str) -> None:
    join = open_operator(made(SPECS[name])(), sampling_seed=3)
    numbers = [(number, (0, number, "", 5)) for number in range(100)]
    emitted = [*join.process(0, Batch(batch_of(0, numbers), keys=bytes([0, 40])))]
    emitted += [*join.process(1, Batch(batch_of(1, numbers), keys=bytes([50, 0])))]
    emitted += join.on_watermark(END_OF_TIME_US)
    table = pa.Table.from_batches([batch.rows for _, batch in emitted])
    ids = table.column("l").combine_chunks()
    assert len(set(ids.to_pylist())) > 30
    expected = key_buckets(3, KeyCodec([pa.int64()]).hash([ids]))
    assert np.array_equal(table.column(BUCKET).to_numpy(), expected)


@pytest.mark.parametrize("name", SPECS)
def test_state_of_a_sample_is_refused_by_a_join_that_is_none_until_its_rows_have_met(name: str) -> None:
    sampled = open_operator(made(SPECS[name])())
    numbers = [(number, (7, number, "", 9)) for number in range(40)]
    list(sampled.process(0, Batch(batch_of(0, numbers), keys=bytes([0, 32]))))
    whole = made(replace(SPECS[name], samplers=(None, None)))
    with pytest.raises(SchemaError, match="were dropped by their keys"):
        whole().open(replace(sampled.context, restored=[dict(sampled.notes())]))
    if name == "unbounded":
        return
    list(sampled.on_watermark(5_000_000))
    list(sampled.process(0, Batch(batch_of(0, [(50, (5_000_000, 1, "", 5_000_000))]))))
    whole().open(replace(sampled.context, restored=[dict(sampled.notes())]))
