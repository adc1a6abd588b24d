"""Redistribution of buckets when instances change: transfers between owners, and the cost of fetching them.

Flink-ER, 2.4 and 3.3: state lies in k_n buckets, more than instances, so that an owner fetches only what it gained.
A bucket is a key group (`model.key_groups`). Pure; called by the evaluation of Flink-ER.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.key_groups import Owners, assign, reassign

Sizes = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Buckets that move from one instance to another, ascending, and their bytes."""

    giver: int
    taker: int
    buckets: tuple[int, ...]
    bytes: float


@dataclass(frozen=True, slots=True)
class Redistribution:
    """All transfers of a change. ``moved_bytes`` of ``whole_bytes``; ``accesses`` to storage by the new owners."""

    transfers: tuple[Transfer, ...]
    moved_bytes: float
    whole_bytes: float
    accesses: int


def redistribute(old: Owners, new: Owners, sizes: Sizes) -> Redistribution:
    """Return the transfers when the owners of buckets change; ``sizes`` in bytes by bucket.

    The buckets that a taker gets from one giver are one access: the giver's snapshot says where each lies and how long
    it is, so they are read together.

    Raises:
        ValueError: the tables are not of the same buckets.
    """
    if not len(old) == len(new) == len(sizes):
        raise ValueError(f"tables of {len(old)} and {len(new)} buckets, and sizes of {len(sizes)}")
    moved = np.flatnonzero(old != new)
    order = moved[np.lexsort((moved, new[moved], old[moved]))]
    pairs = np.stack([old[order], new[order]], axis=1)
    begins = np.flatnonzero(np.any(np.diff(pairs, axis=0, prepend=-1) != 0, axis=1)) if len(order) else order
    transfers = tuple(
        Transfer(int(old[buckets[0]]), int(new[buckets[0]]), tuple(buckets.tolist()), float(np.sum(sizes[buckets])))
        for buckets in np.split(order, begins[1:])
        if len(buckets)
    )
    return Redistribution(transfers, float(sizes[moved].sum()), float(sizes.sum()), len(transfers))


def file_per_bucket(old: Owners, new: Owners, sizes: Sizes) -> Redistribution:
    """Return the same change if every bucket is a file of its own, fetched separately."""
    grouped = redistribute(old, new, sizes)
    return Redistribution(
        grouped.transfers, grouped.moved_bytes, grouped.whole_bytes, sum(len(t.buckets) for t in grouped.transfers)
    )


def modulo(buckets: int, instances: int) -> Owners:
    """Return owners by Flink-ER, eq 8: bucket k belongs to v(k mod n)."""
    return np.arange(buckets, dtype=np.int32) % np.int32(instances)


def ranges(buckets: int, instances: int) -> Owners:
    """Return owners by Flink's key groups: contiguous ranges, owner = floor(k p / buckets)."""
    return assign(buckets, instances)


def sticky(old: Owners, instances: int) -> Owners:
    """Return the owners after a change with the fewest moves; counts differ by at most 1."""
    return reassign(old, instances)


def restore_s(change: Redistribution, *, access_s: float, bytes_per_s: float, takers: int) -> float:
    """Return the duration of fetching (s): that of the taker which gains most, as takers fetch in parallel.

    Without transfers ``takers`` share accesses and bytes evenly.

    Raises:
        ValueError: nobody fetches, or nothing can be read.
    """
    if takers < 1 or bytes_per_s <= 0:
        raise ValueError("somebody must fetch, at more than 0 bytes/s")
    if not change.transfers:
        return (change.accesses * access_s + change.moved_bytes / bytes_per_s) / takers
    is_grouped = change.accesses == len(change.transfers)
    seconds: dict[int, float] = {}
    for item in change.transfers:
        accesses = 1 if is_grouped else len(item.buckets)
        own_s = accesses * access_s + item.bytes / bytes_per_s
        seconds[item.taker] = seconds.get(item.taker, 0.0) + own_s
    return max(seconds.values())


def minimal_share(old_instances: int, instances: int) -> float:
    """Return the least share of all buckets that must move for equal counts: that of new, or of leaving owners."""
    larger = max(old_instances, instances)
    return abs(instances - old_instances) / larger
