"""Hit rates: against an LRU that is one, and against what is known of uniform and Zipf accesses."""

from collections import OrderedDict

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.cache import (
    hit_curve,
    stack_distances,
    zipf_curve,
    zipf_shares,
    zipf_trace,
)


def lru_hits(trace: np.ndarray, size: int) -> list[bool]:
    cache: OrderedDict[int, None] = OrderedDict()
    hits = []
    for key in trace.tolist():
        hits.append(key in cache)
        cache.pop(key, None)
        cache[key] = None
        if len(cache) > size:
            cache.popitem(last=False)
    return hits


@pytest.mark.parametrize("seed", range(20))
def test_distances_say_what_an_lru_hits(seed: int) -> None:
    random = np.random.default_rng(seed)
    keys, length = int(random.integers(1, 40)), int(random.integers(1, 400))
    trace = zipf_trace(keys, length, float(random.uniform(0, 1.5)), seed)
    distances = stack_distances(trace)
    for size in (1, 2, keys // 2 + 1, keys):
        assert ((distances >= 0) & (distances < size)).tolist() == lru_hits(trace, size)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.2])
def test_the_curve_is_that_of_an_lru(exponent: float) -> None:
    trace = zipf_trace(500, 20_000, exponent, 1)
    curve = hit_curve(trace, points=500)
    keys = len(np.unique(trace))
    for size in (10, 50, 200, 400):
        hits = np.mean(lru_hits(trace, size)[len(trace) // 2 :])
        assert curve(np.array([size / keys]))[0] == pytest.approx(hits, abs=0.01)


def test_uniform_accesses_hit_what_is_cached() -> None:
    shares = np.array([0.1, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(zipf_curve(0.0)(shares), shares, atol=0.03)


def test_skew_makes_small_caches_useful() -> None:
    tenth = [float(zipf_curve(exponent)(np.array([0.1]))[0]) for exponent in (0.0, 0.4, 0.8, 1.2)]
    assert tenth == sorted(tenth) and tenth[3] > 0.75
    assert zipf_shares(1000, 1.2).sum() == pytest.approx(1.0)


def test_a_whole_cache_hits_everything() -> None:
    for exponent in (0.0, 0.5, 1.0):
        assert zipf_curve(exponent)(np.array([0.0, 1.0])).tolist() == pytest.approx([0.0, 1.0], abs=1e-9)
