"""Moments of sums over keys from sums by bucket: over all ways to put keys into buckets they are those of the keys."""

import numpy as np
import pytest

from penstock.engine.accumulators.clusters import keys_in, moments_of_keys
from penstock.shedding.key_sampling import BUCKETS, key_buckets, key_steps

RUNS = 4_000


def sums_of(totals: np.ndarray, seed: int) -> np.ndarray:
    """Return sums by bucket, a row for each run."""
    buckets = np.random.default_rng(seed).integers(0, BUCKETS, (RUNS, len(totals)))
    sums = np.zeros((RUNS, BUCKETS))
    np.add.at(sums, (np.arange(RUNS)[:, None], buckets), totals)
    return sums


@pytest.mark.parametrize("keys", [5, 60, 500])
@pytest.mark.parametrize("keep", [1 / 64, 0.5, 63 / 64])
def test_moments_are_those_of_totals_by_key(keys: int, keep: float) -> None:
    values = np.exp(np.random.default_rng(keys).standard_normal(keys))
    weight = 1.0 / keep
    moments = moments_of_keys(sums_of(np.sqrt(weight**2 - weight) * values, keys), np.full(RUNS, keep))
    expected = {
        "s2": float(((weight**2 - weight) * values**2).sum()),
        "s3": float(((weight**2 - weight) * values**3).sum()),
        "t3": float((weight * (weight - 1.0) ** 2 * values**3).sum()),
    }
    for name, truth in expected.items():
        found = getattr(moments, name)
        assert abs(found.mean() - truth) <= 4.0 * found.std() / np.sqrt(RUNS) + 1e-9 * truth, name
    # What buckets do not say of the variance is in its degrees of freedom.
    assert (2.0 * moments.s2**2 / moments.f4 <= BUCKETS - 1 + 1e-6).all()


@pytest.mark.parametrize("keys", [1, 10, 50, 150])
def test_keys_are_counted_by_empty_buckets(keys: int) -> None:
    counted = keys_in(sums_of(np.ones(keys), keys))
    assert counted.mean() == pytest.approx(keys, rel=0.05, abs=0.1)


def test_buckets_say_nothing_of_steps() -> None:
    hashes = np.random.default_rng(3).integers(0, 2**64, 400_000, np.uint64, endpoint=False)
    counts = np.zeros((64, BUCKETS))
    np.add.at(counts, (key_steps(7, hashes), key_buckets(7, hashes)), 1)
    expected = len(hashes) / counts.size
    # 4095 degrees of freedom: mean 4095, standard deviation 90.
    assert float(((counts - expected) ** 2 / expected).sum()) < 4095 + 5 * 90
