"""Bucket moves that let the same instances of a keyed task carry more.

The heaviest buckets move first; one that is too heavy for any instance is a hot key, which no move relieves
(docs/design/papers/flink-er.md 5). Called by `flink_er`.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Ints
from penstock.model.plan import BucketMove
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.flow_network import Layer


@dataclass(frozen=True, slots=True)
class BucketLevelling:
    """Moves, the layer's capacity after them (as a share of need), and the buckets that are hot keys.

    ``heaviest``: the share of the task's rows that its heaviest bucket receives, 0 if unknown.
    """

    moves: tuple[BucketMove, ...]
    whole: float
    hot: tuple[int, ...]
    heaviest: float = 0.0


def level_buckets(snapshot: ClusterSnapshot, layer: Layer, bucket_rows: Ints, steady: float = 1.0) -> BucketLevelling:
    """Return moves from overloaded instances to those with most room: highest rate first, then fewest bytes.

    ``bucket_rows``: the rows of the task's buckets; the layer's instances ascend. Without bucket figures nothing moves.
    ``steady``: the share of the need that arrives, in (0, 1], the rest being backlog. A bucket is a hot key if its
    share of the arriving rows exceeds every instance's capacity; one that exceeds it only during a backlog is not.
    """
    buckets, no_moves = snapshot.buckets, BucketLevelling((), layer.whole, ())
    if buckets.records_in is None or not len(bucket_rows):
        return no_moves
    load = buckets.records_in[bucket_rows]
    total = float(load.sum())
    if not total > 0:
        return no_moves
    load = load / total
    state = (
        np.zeros(len(bucket_rows)) if buckets.state_bytes is None else np.nan_to_num(buckets.state_bytes[bucket_rows])
    )
    owner = np.searchsorted(layer.instances, buckets.instance[bucket_rows])
    room = layer.capacity - np.bincount(owner, load, len(layer.instances))
    # No other instance gives: one that takes has room for what it takes.
    handed_on = np.flatnonzero((room < 0)[owner])
    handed_on = handed_on[np.lexsort((state[handed_on], -load[handed_on]))]
    new_owner = _new_owners(load[handed_on].tolist(), owner[handed_on].tolist(), room.tolist())
    owner[handed_on] = new_owner
    old_owner = np.searchsorted(layer.instances, buckets.instance[bucket_rows[handed_on]])
    moves = tuple(
        BucketMove(layer.task, int(buckets.bucket[bucket_rows[handed_on[at]]]), int(snapshot.instances.number[taker]))
        for at in np.flatnonzero(old_owner != new_owner).tolist()
        for taker in [layer.instances[new_owner[at]]]
    )
    shares = np.bincount(owner, load, len(layer.instances))
    loaded = shares > 0
    carried = float((layer.capacity[loaded] / shares[loaded]).min())
    hot = buckets.bucket[bucket_rows[load * steady > layer.capacity.max()]]
    return BucketLevelling(moves, carried, tuple(hot.tolist()), float(load.max()))


def _new_owners(load: list[float], owner: list[int], room: list[float]) -> list[int]:
    """Return the new owner of each bucket once every overloaded instance has handed over what it can."""
    owners, taker, most = list(owner), room.index(max(room)), max(room)
    for bucket, (share, giver) in enumerate(zip(load, owner, strict=True)):
        if room[giver] < 0 and share <= most:
            owners[bucket] = taker
            room[giver] += share
            room[taker] -= share
            most = max(room)
            taker = room.index(most)
    return owners
