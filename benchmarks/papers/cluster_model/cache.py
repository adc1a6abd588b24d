"""Hit rates of an LRU cache over a trace of keys, by its size (Mattson's stack distances).

The state of simulated tasks reads them; policies never do.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats

TRACE_KEYS = 2048
TRACE_ACCESSES = 16 * TRACE_KEYS


@dataclass(frozen=True, slots=True, eq=False)
class HitCurve:
    """Hit rate by cached part of the keys, at parts 0, 1/n, 2/n ... 1."""

    hits: Floats

    def __call__(self, cached_share: Floats) -> Floats:
        """Return hit rates in [0, 1] of caches that hold these shares of the keys."""
        return np.interp(cached_share, np.linspace(0.0, 1.0, len(self.hits)), self.hits)


def stack_distances(trace: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many distinct other keys came since each access's key did before; -1 where it had not come.

    An LRU cache of C keys hits exactly those accesses whose distance is in [0, C).
    """
    count = len(trace)
    order = np.argsort(trace, kind="stable")
    previous = np.full(count, -1)
    again = trace[order][1:] == trace[order][:-1]
    previous[order[1:][again]] = order[:-1][again]
    # Of the accesses between two of a key, those whose own key had not come in between are its distinct keys.
    not_between = _earlier_and_not_above(previous)
    return np.where(previous < 0, -1, not_between - previous - 1)


def hit_curve(trace: NDArray[np.int64], points: int = 256) -> HitCurve:
    """Return the hit rates in the second half of a trace, whose first half fills the cache."""
    distances = stack_distances(trace)[len(trace) // 2 :]
    keys = len(np.unique(trace))
    sizes = np.linspace(0.0, keys, points + 1)
    # What never came before is hit by no cache; in a trace that is long enough that is next to nothing.
    reused = np.sort(distances[distances >= 0])
    return HitCurve(np.searchsorted(reused, sizes, side="left") / len(distances))


def zipf_trace(keys: int, accesses: int, exponent: float, seed: int = 0) -> NDArray[np.int64]:
    """Return independent accesses to keys whose shares are Zipf(exponent)."""
    cumulative = np.cumsum(zipf_shares(keys, exponent))
    drawn = np.random.default_rng(seed).random(accesses) * cumulative[-1]
    return np.asarray(np.searchsorted(cumulative, drawn), np.int64)


@lru_cache(64)
def zipf_curve(exponent: float) -> HitCurve:
    """Return the hit rates of Zipf(exponent) accesses; all keys are cached at share 1."""
    curve = hit_curve(zipf_trace(TRACE_KEYS, TRACE_ACCESSES, exponent))
    # Keys that came only once in the trace are there in the long run.
    return HitCurve(curve.hits / curve.hits[-1])


def zipf_shares(count: int, exponent: float) -> Floats:
    """Return the shares of ranks 1 to count: 1 / rank^exponent, so that they add up to 1."""
    weights: Floats = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def _earlier_and_not_above(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each place how many earlier ones hold a value that is not above its own, by merging halves."""
    count = len(values)
    place = np.arange(count)
    counts = np.zeros(count, np.int64)
    # Sorted by value once; stable sorting by block keeps that order, so that each level is a count.
    by_value = np.lexsort((place, values))
    half = 1
    while half < count:
        block = by_value // (2 * half)
        order = by_value[np.argsort(block, kind="stable")]
        is_left = (order // half) % 2 == 0
        lefts = np.cumsum(is_left)
        # A whole block before this one has `half` places on its left.
        lefts -= (order // (2 * half)) * half
        counts[order[~is_left]] += lefts[~is_left]
        half *= 2
    return counts
