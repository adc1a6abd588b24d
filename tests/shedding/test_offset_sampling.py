"""Samples of sources: pure, even, independent of each other, and nested."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.keep_rates import STEPS, steps_of
from penstock.shedding.offset_sampling import sample_steps
from tests.papers_cases import cases

OFFSETS = np.arange(200_000, dtype=np.int64)


def test_the_choice_is_that_of_every_version() -> None:
    """Logs and batch jobs of other versions rest on it: these values never change."""
    assert sample_steps(7, "clicks/0", np.arange(8, dtype=np.int64)).tolist() == [24, 17, 15, 49, 33, 2, 29, 21]


@pytest.mark.parametrize("start", [0, 1 << 20, (1 << 62) + 12_345])
def test_steps_are_even(start: int) -> None:
    counts = np.bincount(sample_steps(1, "clicks/0", OFFSETS + start), minlength=STEPS)
    expected = len(OFFSETS) / STEPS
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    # 63 degrees of freedom: the 99.999th percentile is 121.
    assert len(counts) == STEPS
    assert chi_square < 121


@pytest.mark.parametrize("other", [(2, "clicks/0"), (1, "clicks/1"), (1, "views/0")])
def test_seeds_and_partitions_draw_apart(other: tuple[int, str]) -> None:
    first, second = sample_steps(1, "clicks/0", OFFSETS), sample_steps(*other, OFFSETS)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(len(OFFSETS))


def test_neighbours_draw_apart() -> None:
    steps = sample_steps(1, "clicks/0", OFFSETS).astype(np.float64)
    for lag in (1, 2, 3, 64, 1_000):
        assert abs(np.corrcoef(steps[:-lag], steps[lag:])[0, 1]) < 5 / np.sqrt(len(OFFSETS))


@settings(max_examples=cases())
@given(st.lists(st.integers(0, 2**63 - 1), max_size=50), st.integers(0, 2**32), st.integers(1, 49))
def test_the_choice_does_not_depend_on_the_batch(offsets: list[int], seed: int, cut: int) -> None:
    whole = np.array(offsets, np.int64)
    parts = [sample_steps(seed, "a/1", part) for part in (whole[:cut], whole[cut:])]
    assert np.array_equal(np.concatenate(parts), sample_steps(seed, "a/1", whole))


def test_what_stays_at_a_rate_stays_at_every_greater_one() -> None:
    steps = sample_steps(3, "a/1", OFFSETS)
    kept = [set(np.flatnonzero(steps < steps_of(rate)).tolist()) for rate in (0.25, 0.5, 1.0)]
    assert kept[0] < kept[1] < kept[2]
    assert len(kept[2]) == len(OFFSETS)
