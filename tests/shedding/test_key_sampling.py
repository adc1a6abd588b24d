"""Samples of keys: pure, even, nested, apart from where keys lie; and the rates of rows over event time."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.keep_rates import STEPS, steps_of
from penstock.shedding.key_sampling import RateHistory, key_steps
from tests.papers_cases import cases

HASHES = np.random.default_rng(5).integers(0, 2**64, 200_000, np.uint64, endpoint=False)


def test_the_choice_is_that_of_every_version() -> None:
    """What was kept before a checkpoint and what is kept behind it are one sample: these values never change."""
    assert key_steps(7, np.arange(8, dtype=np.uint64)).tolist() == [11, 60, 58, 30, 58, 8, 46, 56]


def test_steps_are_even_and_seeds_draw_apart() -> None:
    steps = key_steps(1, HASHES)
    expected = len(HASHES) / STEPS
    chi_square = float(((np.bincount(steps, minlength=STEPS) - expected) ** 2 / expected).sum())
    # 63 degrees of freedom: the 99.999th percentile is 121.
    assert chi_square < 121
    others = (key_steps(2, HASHES), (HASHES >> np.uint64(57)).astype(np.uint8))
    for other in others:
        assert abs(np.corrcoef(steps, other)[0, 1]) < 5 / np.sqrt(len(HASHES))


def test_keys_that_stay_at_a_rate_stay_at_every_greater_one() -> None:
    steps = key_steps(3, HASHES)
    kept = [set(np.flatnonzero(steps < steps_of(rate)).tolist()) for rate in (0.25, 0.5, 1.0)]
    assert kept[0] < kept[1] < kept[2]
    assert len(kept[2]) == len(HASHES)


def test_pairs_of_a_sample_of_keys_weigh_what_their_lesser_rate_says() -> None:
    """The number of pairs is estimated without bias by 1 / min(a, b); independent drops would need 1 / (a b)."""
    random = np.random.default_rng(9)
    left, right = random.integers(1, 5, 300), random.integers(1, 5, 300)
    pairs, low, high = left * right, 24, 48
    estimates = []
    for seed in range(1_000):
        steps = key_steps(seed, HASHES[:300])
        both = (steps < low) & (steps < high)
        estimates.append(float(pairs[both].sum()) * STEPS / low)
    error = float(np.std(estimates)) / np.sqrt(len(estimates))
    assert abs(float(np.mean(estimates)) - pairs.sum()) < 3.5 * error


PIECES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15), st.integers(0, STEPS - 1)), max_size=20)


@settings(max_examples=cases())
@given(PIECES, st.integers(0, 6), st.integers(0, 20), st.integers(-5, 80), st.integers(0, 10))
def test_a_rate_is_known_of_all_times_that_had_rows_and_of_few_others(
    pieces: list[tuple[int, int, int]], gap: int, cut: int, start: int, length: int
) -> None:
    history = RateHistory(gap)
    for place, (first, more, limit) in enumerate(pieces):
        if place == cut:
            restored = RateHistory(gap)
            restored.include(RateHistory(gap, history.encode()))
            history = restored
        history.add(first, first + more, limit)
    (least,) = history.least(np.array([start]), np.array([start + length])).tolist()

    def of(stop: int, begin: int) -> int:
        touched = [limit for first, more, limit in pieces if first <= stop and first + more >= begin]
        return min(touched, default=STEPS)

    # No greater than the rate of any row, and that of rows no farther away than a gap.
    assert of(start + length + gap, start - gap) <= least <= of(start + length, start)


@settings(max_examples=cases())
@given(PIECES, st.integers(0, 80), st.integers(0, 80), st.integers(0, 10))
def test_what_is_forgotten_counts_where_something_reaches_back(
    pieces: list[tuple[int, int, int]], before: int, start: int, length: int
) -> None:
    history, whole = RateHistory(0), RateHistory(0)
    for first, more, limit in pieces:
        history.add(first, first + more, limit)
        whole.add(first, first + more, limit)
    history.forget(before)
    stretch = np.array([start]), np.array([start + length])
    assert history.least(*stretch) <= whole.least(*stretch)
    if start >= before:
        assert history.least(*stretch) == whole.least(*stretch)


def test_many_changes_take_no_more_room() -> None:
    history = RateHistory(0)
    for step in range(10_000):
        history.add(10 * step, 10 * step + 5, step % STEPS)
    assert len(history.encode()) <= 256 * 24
    assert history.least(np.array([50_000]), np.array([50_005])) <= 5_000 % STEPS
