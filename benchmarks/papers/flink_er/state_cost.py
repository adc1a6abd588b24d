"""Costs of a change of instances in bytes, accesses and time, by who owns which bucket (Flink-ER, 3.3 and 4.3)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.state.redistribution import (
    Redistribution,
    file_per_bucket,
    minimal_share,
    modulo,
    ranges,
    redistribute,
    restore_s,
    sticky,
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of one way to move state: bytes over the least that must move, accesses, and seconds to fetch it."""

    over_minimal: float
    accesses: int
    seconds: float
    bytes: float


def replaced(figures: Parameters, gigabytes: float, seed: int) -> float:
    """Return the same ratio of times when every instance is replaced by another, so that all state must move."""
    old, buckets = int(figures.value("break", "old_instances")), int(figures.value("break", "buckets"))
    sizes = _sizes(gigabytes, buckets, seed)
    start = ranges(buckets, old)
    moved = redistribute(start, (start + old).astype(np.int32), sizes)
    whole = Redistribution((), float(sizes.sum()), float(sizes.sum()), old)
    return _seconds(figures, moved, old) / _seconds(figures, whole, old)


def costs(figures: Parameters, gigabytes: float, seed: int) -> dict[str, Cost]:
    """Return what each way costs: as Flink (all of it, ranges), as the paper (modulo, grouped), and ours (sticky)."""
    old, new, buckets = (int(figures.value("break", name)) for name in ("old_instances", "new_instances", "buckets"))
    new = max(new, old + 1)
    sizes = _sizes(gigabytes, buckets, seed)
    start = ranges(buckets, old)
    paper = redistribute(modulo(buckets, old), modulo(buckets, new), sizes)
    # One access an instance: whoever reads all of it reads it from end to end.
    all_of_it = Redistribution((), float(sizes.sum()), float(sizes.sum()), new)
    ways = {
        "stop, copy all, restart": all_of_it,
        "ranges, a file a bucket": file_per_bucket(start, ranges(buckets, new), sizes),
        "modulo, a file a bucket": file_per_bucket(modulo(buckets, old), modulo(buckets, new), sizes),
        "modulo, grouped": paper,
        "sticky, grouped": redistribute(start, sticky(start, new), sizes),
    }
    least = minimal_share(old, new) * gigabytes * 1e9
    return {
        name: Cost(
            change.moved_bytes / least,
            change.accesses,
            _seconds(figures, change, new),
            change.moved_bytes,
        )
        for name, change in ways.items()
    }


def _sizes(gigabytes: float, buckets: int, seed: int) -> NDArray[np.float64]:
    sizes = np.random.default_rng(seed).gamma(4.0, size=buckets)
    return np.asarray(sizes * (gigabytes * 1e9 / sizes.sum()), np.float64)


def _seconds(figures: Parameters, change: Redistribution, takers: int) -> float:
    access_s, bytes_per_s = (float(figures.value("actions", name)) for name in ("access_s", "restore_bytes_per_s"))
    return restore_s(change, access_s=access_s, bytes_per_s=bytes_per_s, takers=takers)
