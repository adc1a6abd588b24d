"""Hit rates of caches of any size, from a sample of the accesses (stack distances; SHARDS, FAST 2015).

A key is sampled by a fixed hash of it, so that samples of several instances add up. `memory_choice` reads such
histograms from snapshots. Running jobs count the accesses of whole buckets instead, as those are what lies in memory
(`engine.paging.bucket_reuse`).
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats
from penstock.model.reuse_distances import PER_DOUBLING

BOUNDS: Floats = 2.0 ** (np.arange(0, 48 * PER_DOUBLING + 1) / PER_DOUBLING)
"""Upper bounds of the buckets, in bytes: 1 B to 256 TiB."""
BOUNDS.flags.writeable = False
FIRST = len(BOUNDS)
"""The bucket of first accesses, and of those further back than any bound."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ReuseHistogram:
    """Accesses by bucket of stack distance, scaled up to all accesses; the last bucket is `FIRST`."""

    accesses: Floats = field(default_factory=lambda: np.zeros(FIRST + 1))

    def merged(self, other: "ReuseHistogram") -> "ReuseHistogram":
        """Return the histogram of both: of two windows, or of two instances of a task."""
        return ReuseHistogram(self.accesses + other.accesses)

    def hit_rate(self, cache_bytes: Floats) -> Floats:
        """Return the part of the accesses that an LRU cache of each size would have served; no accesses: 1.

        hit(c) = sum over d <= c of n_d / sum of n_d
          n_d   accesses of stack distance d (bytes, the key itself included)
        """
        total = self.accesses.sum()
        if total <= 0:
            return np.ones_like(cache_bytes)
        served = np.concatenate([[0.0], np.cumsum(self.accesses[:FIRST])])
        return np.asarray(np.clip(served[buckets_within(cache_bytes)] / total, 0.0, 1.0))

    def rows(self) -> tuple[Floats, Floats]:
        """Return ``distance_bytes`` and ``accesses`` of the buckets that are not empty, as in a snapshot."""
        used = np.flatnonzero(self.accesses)
        return np.append(BOUNDS, np.nan)[used], self.accesses[used]


def bucket_of(distance_bytes: Floats) -> NDArray[np.int64]:
    """Return the bucket of every distance, whose bound is the smallest at or above it; `FIRST` for NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bucket = np.ceil(np.log2(np.maximum(distance_bytes, 1.0)) * PER_DOUBLING - _ROUNDING)
    return np.where(np.isnan(bucket), FIRST, np.minimum(bucket, FIRST)).astype(np.int64)


def buckets_within(cache_bytes: Floats) -> NDArray[np.int64]:
    """Return the number of buckets with only distances that fit into a cache of each size; 0 for NaN."""
    whole = np.floor(np.log2(np.maximum(cache_bytes, 1.0)) * PER_DOUBLING + _ROUNDING) + 1
    return np.where(cache_bytes >= 1, np.minimum(whole, FIRST), 0).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class AccessSample:
    """The most recently used sampled keys, oldest first, and the histogram of their accesses.

    ``rate`` in (0, 1]: the part of all keys that is sampled. At most ``keys_most`` keys are remembered; what was used
    before them counts as never used, which is right for all caches that hold less than they.
    """

    rate: float = 0.01
    keys_most: int = 1 << 16
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    sizes: Floats = field(default_factory=lambda: np.zeros(0))
    histogram: ReuseHistogram = field(default_factory=ReuseHistogram)

    def __post_init__(self) -> None:
        if not (0 < self.rate <= 1 and self.keys_most > 0):
            raise ValueError("a rate is in (0, 1], and some keys are remembered")

    def after(self, hashes: NDArray[np.uint64], sizes: Floats) -> Self:
        """Return the sample after accesses, in this order, to keys with these hashes and entries of these sizes."""
        is_sampled_access = is_sampled(hashes, self.rate)
        keys, weights = (
            np.concatenate([self.keys, hashes[is_sampled_access]]),
            np.concatenate([self.sizes, sizes[is_sampled_access]]),
        )
        distance = stack_distances(keys, weights)[len(self.keys) :] / self.rate
        buckets = np.bincount(bucket_of(distance), minlength=FIRST + 1) / self.rate
        # SHARDS-adj: hot keys that are sampled, or not, are made up for where they would be, at the shortest distances.
        buckets[0] += len(hashes) - buckets.sum()
        keys, weights = _last_uses(keys, weights)
        return type(self)(
            self.rate,
            self.keys_most,
            keys[-self.keys_most :],
            weights[-self.keys_most :],
            self.histogram.merged(ReuseHistogram(buckets)),
        )

    def next_window(self) -> Self:
        """Return the sample with an empty histogram for the next window; recent uses are kept."""
        return type(self)(self.rate, self.keys_most, self.keys, self.sizes)


def is_sampled(hashes: NDArray[np.uint64], rate: float) -> NDArray[np.bool_]:
    """Return which keys belong to the sample: the same in every process (the finaliser of SplitMix64, fixed)."""
    x = hashes.astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.asarray((x >> np.uint64(11)).astype(np.float64) * 2.0**-53 < rate)


def stack_distances(keys: NDArray[np.uint64], sizes: Floats) -> Floats:
    """Return, for every access, the bytes of the distinct keys used since the key's last, itself included; NaN: none.

    D_t = sum over j in (s, t] of w_j * [prev_j <= s],  s = prev_t
      w_j      bytes of the entry that access j used
      prev_j   the access before j to its key; every distinct key in (s, t] is counted once, at its first access there
    """
    count = len(keys)
    order = np.argsort(keys, kind="stable")
    again = keys[order][1:] == keys[order][:-1]
    previous = np.full(count, -1, np.int64)
    previous[order[1:][again]] = order[:-1][again]
    # Every j <= s has prev_j < s, so that the sum over (s, t] is that over [0, t] less that of all of [0, s].
    whole = np.cumsum(sizes)
    distance = _sums_below(previous, sizes) + sizes - whole[previous]
    return np.where(previous >= 0, distance, np.nan)


def _sums_below(values: NDArray[np.int64], weights: Floats) -> Floats:
    """Return, for every t, the sum of w_j over j < t with values_j <= values_t: by halves of blocks, bottom up."""
    count = len(values)
    below = np.zeros(count)
    by_value = np.argsort(values, kind="stable")
    width = 1
    while width < count:
        block = by_value // (2 * width)
        order = by_value[np.argsort(block, kind="stable")]
        left = (order // width) % 2 == 0
        running = np.cumsum(np.where(left, weights[order], 0.0))
        # What ran up before a block began is not its own.
        starts = np.flatnonzero(np.diff(order // (2 * width), prepend=-1))
        before = np.concatenate([[0.0], running])[starts]
        own = running - np.repeat(before, np.diff(np.append(starts, count)))
        below[order[~left]] += own[~left]
        width *= 2
    return below


def _last_uses(keys: NDArray[np.uint64], sizes: Floats) -> tuple[NDArray[np.uint64], Floats]:
    """Return every key once, in the order of their last uses."""
    _, from_end = np.unique(keys[::-1], return_index=True)
    last = np.sort(len(keys) - 1 - from_end)
    return keys[last], sizes[last]
