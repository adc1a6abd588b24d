"""Random drops: each row with probability d, independent by edge, the same again for the same seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.random_drop import RandomDrop
from tests.papers_cases import cases

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=cases())
@given(seeds, st.floats(0, 1))
def test_batches_and_restarts_change_nothing(seed: int, d: float) -> None:
    rng = np.random.default_rng(seed)
    whole = RandomDrop(seed, 3, 1).keep(200, d)
    cuts = np.sort(rng.integers(0, 201, 4))
    drop = RandomDrop(seed, 3, 1)
    parts = [drop.keep(n, d) for n in np.diff([0, *cuts, 200]).tolist()]
    assert np.concatenate(parts).tolist() == whole.tolist() and drop.rows == 200
    at = int(cuts[0])
    assert RandomDrop(seed, 3, 1, rows_before=at).keep(200 - at, d).tolist() == whole[at:].tolist()


@settings(max_examples=cases())
@given(seeds, st.floats(0, 1), st.floats(0, 1))
def test_a_larger_probability_keeps_what_a_smaller_one_does(seed: int, a: float, b: float) -> None:
    less, more = (RandomDrop(seed, 0, 0).keep(100, d) for d in sorted((a, b)))
    assert not (less & ~more).any()


@pytest.mark.parametrize("d", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_share_that_is_kept(d: float) -> None:
    n = 200_000
    kept = RandomDrop(1, 0, 0).keep(n, d).mean()
    assert abs(kept - d) <= 4 * np.sqrt(d * (1 - d) / n)


def test_edges_instances_and_seeds_are_independent() -> None:
    masks = [RandomDrop(*who).keep(20_000, 0.5) for who in ((1, -1, 0), (1, 0, 0), (1, 1, 0), (1, 0, 1), (2, 0, 0))]
    together = np.corrcoef(np.array(masks, float))
    assert np.abs(together - np.eye(len(masks))).max() < 0.03


def test_a_probability_is_checked() -> None:
    with pytest.raises(ValueError, match="probability"):
        RandomDrop(0, 0, 0).keep(1, 1.1)
