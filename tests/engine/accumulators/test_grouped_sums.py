"""Sums of a batch by slot, weighted once, are those that are added row by row, and leave their room empty."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.accumulators import batch_passes
from penstock.engine.accumulators.batch_passes import BatchPasses, Pass, joined
from penstock.engine.kernels.accumulate_weighted import COUNT_WIDTH, VALUE_WIDTH
from penstock.engine.kernels.batch_sums import SUMS_WIDTH, settle_sums, sum_powers, sum_rows
from penstock.state.keys.arrays import read_only

ROWS = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 1), st.floats(-1e3, 1e3)), max_size=30)
SLOTS = 4


@given(ROWS, st.booleans(), st.booleans(), st.sampled_from([64 / 63, 2.0, 64.0]), st.integers(0, 2))
def test_sums_by_slot_are_sums_by_row(
    rows: list[tuple[int, int, float]], plain: bool, filtered: bool, weight: float, at: int
) -> None:
    slots = read_only(np.array([slot for slot, _, _ in rows], np.int64))
    signs = read_only(np.array([] if plain else [sign for _, sign, _ in rows], np.int8))
    positive = read_only(np.array([value > 0 for _, _, value in rows], np.int8))
    values = read_only(np.array([value for _, _, value in rows], np.float64))
    results = []
    for most_slots in (0, SLOTS):
        vectors, counts = np.ones((SLOTS, at + 2 * COUNT_WIDTH + 2 * VALUE_WIDTH)), np.ones(SLOTS, np.int64)
        passes = BatchPasses()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch_passes, "MOST_SLOTS", most_slots)
            for _ in range(2):
                others = [
                    Pass(positive if filtered else signs, [at + COUNT_WIDTH]),
                    Pass(signs, [], at + 2 * COUNT_WIDTH, values),
                    Pass(signs, [], at + 2 * COUNT_WIDTH + VALUE_WIDTH, values),
                ]
                passes.fold(joined(Pass(signs, [at], counts=counts), others), slots, weight, vectors)
        results.append((vectors, counts))
    (by_row, counted_by_row), (by_slot, counted_by_slot) = results
    assert counted_by_row.tolist() == counted_by_slot.tolist()
    # Powers of 1,000 whose weights are 64^4 lose digits where signs take them away again.
    np.testing.assert_allclose(by_slot, by_row, rtol=1e-9, atol=1e6)


@given(ROWS, st.booleans(), st.booleans())
def test_each_slot_is_touched_once_and_nothing_is_left(
    rows: list[tuple[int, int, float]], plain: bool, of_values: bool
) -> None:
    slots = read_only(np.array([slot for slot, _, _ in rows], np.int64))
    signs = read_only(np.array([] if plain else [sign for _, sign, _ in rows], np.int8))
    values = read_only(np.array([value for _, _, value in rows], np.float64))
    sums, touched = np.zeros((SLOTS, SUMS_WIDTH)), np.empty(SLOTS, np.int64)
    count = sum_powers(slots, signs, values, sums, touched) if of_values else sum_rows(slots, signs, sums, touched)
    assert sorted(touched[:count]) == sorted({slot for slot, sign, _ in rows if slot >= 0 and (plain or sign)})
    vectors = np.zeros((SLOTS, COUNT_WIDTH))
    settle_sums(touched[:count], sums, 2.0, np.zeros(1, np.int64), -1, np.zeros(0, np.int64), vectors)
    assert not sums.any()


def test_rows_that_all_aggregates_take_are_gone_over_once() -> None:
    signs, filtered = read_only(np.zeros(0, np.int8)), read_only(np.zeros(1, np.int8))
    values = read_only(np.zeros(1))
    others = [Pass(signs, [5]), Pass(filtered, [], 10, values), Pass(signs, [], 26, values)]
    passes = joined(Pass(signs, [0]), others)
    assert [(one.signs is signs, one.of_rows, one.of_values) for one in passes] == [
        (True, [0, 5], 26),
        (False, [], 10),
    ]
