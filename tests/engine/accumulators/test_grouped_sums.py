"""Weighted sums that are added up by group first are those that are added row by row, and leave their scratch empty."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.kernels.accumulate_weighted import (
    COUNT_WIDTH,
    SCRATCH_WIDTH,
    VALUE_WIDTH,
    add_grouped_rows,
    add_grouped_values,
    add_weighted_rows,
    add_weighted_values,
)
from penstock.state.keys.arrays import read_only

ROWS = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 1), st.floats(-1e3, 1e3)), max_size=30)
SLOTS = 4


@given(ROWS, st.booleans(), st.sampled_from([64 / 63, 2.0, 64.0]), st.integers(0, 2))
def test_sums_by_group_are_sums_by_row(rows: list[tuple[int, int, float]], plain: bool, weight: float, at: int) -> None:
    slots = read_only(np.array([slot for slot, _, _ in rows], np.int64))
    signs = read_only(np.array([] if plain else [sign for _, sign, _ in rows], np.int8))
    values = read_only(np.array([value for _, _, value in rows], np.float64))
    scratch, touched = np.zeros((SLOTS, SCRATCH_WIDTH)), np.empty(SLOTS, np.int64)
    row_by_row, by_group = np.ones((2, SLOTS, at + COUNT_WIDTH + VALUE_WIDTH))
    for _ in range(2):
        add_weighted_rows(slots, signs, weight, at, row_by_row)
        add_weighted_values(slots, signs, values, weight, at + COUNT_WIDTH, row_by_row)
        add_grouped_rows(slots, signs, weight, at, scratch, touched, by_group)
        add_grouped_values(slots, signs, values, weight, at + COUNT_WIDTH, scratch, touched, by_group)
        assert not scratch.any()
    # Powers of 1,000 whose weights are 64^4 lose digits where signs take them away again.
    np.testing.assert_allclose(by_group, row_by_row, rtol=1e-9, atol=1e6)
