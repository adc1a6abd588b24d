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
    owner = np.searchsorted(layer.instances, buckets.instance[bucket_rows])
    count, moves = len(layer.instances), tuple[BucketMove, ...]()
    shares = np.bincount(owner, load, count)
    room = layer.capacity - shares
    # No other instance gives: one that takes has room for what it takes.
    handed_on = np.flatnonzero((room < 0)[owner])
    if len(handed_on) and load[handed_on].min() <= room.max():
        state = buckets.state_bytes
        size = np.zeros(len(handed_on)) if state is None else np.nan_to_num(state[bucket_rows[handed_on]])
        handed_on = handed_on[np.lexsort((size, -load[handed_on]))]
        old_owner = owner[handed_on]
        new_owner = np.array(_new_owners(load[handed_on].tolist(), old_owner.tolist(), room.tolist()))
        owner[handed_on] = new_owner
        shares = np.bincount(owner, load, count)
        numbers = snapshot.instances.number[layer.instances].tolist()
        moved = np.flatnonzero(old_owner != new_owner)
        moves = tuple(
            BucketMove(layer.task, bucket, numbers[taker])
            for bucket, taker in zip(
                buckets.bucket[bucket_rows[handed_on[moved]]].tolist(), new_owner[moved].tolist(), strict=True
            )
        )
    loaded = shares > 0
    carried = float((layer.capacity[loaded] / shares[loaded]).min())
    heaviest, widest = float(load.max()), float(layer.capacity.max())
    is_hot = heaviest * steady > widest
    hot = tuple(buckets.bucket[bucket_rows[load * steady > widest]].tolist()) if is_hot else ()
    return BucketLevelling(moves, carried, hot, heaviest)


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
