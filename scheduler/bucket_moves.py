"""Which buckets of a keyed task move so that its instances carry more without being more.

The heaviest go first; a bucket that is too heavy for any instance is a hot key, which no move helps
(docs/design/papers/flink-er.md 5). Called by `flink_er`.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Ints
from penstock.model.plan import BucketMove
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.flow_network import Layer


@dataclass(frozen=True, slots=True)
class Levelled:
    """The moves, what the layer could carry after them (a share of need), and buckets that are hot keys.

    ``heaviest``: the part of the task's rows that comes for its heaviest bucket, 0 if nobody says.
    """

    moves: tuple[BucketMove, ...]
    whole: float
    hot: tuple[int, ...]
    heaviest: float = 0.0


def levelled(snapshot: ClusterSnapshot, layer: Layer, own: Ints, steady: float = 1.0) -> Levelled:
    """Return moves off overloaded instances to those with most room, by rate the heaviest first, by bytes the least.

    ``own``: the rows of the task's buckets; the layer's instances ascend. Without figures of buckets nothing moves.
    ``steady``: the part of the need that comes, the rest being backlog, in (0, 1]. A bucket is a hot key if its share
    of what comes is more than any instance can take; one that is too much only until a backlog is gone is not.
    """
    buckets, none = snapshot.buckets, Levelled((), layer.whole, ())
    if buckets.records_in is None or not len(own):
        return none
    load = buckets.records_in[own]
    total = float(load.sum())
    if not total > 0:
        return none
    load = load / total
    state = np.zeros(len(own)) if buckets.state_bytes is None else np.nan_to_num(buckets.state_bytes[own])
    owner = np.searchsorted(layer.instances, buckets.instance[own])
    room = layer.capacity - np.bincount(owner, load, len(layer.instances))
    # No other instance gives: one that takes has room for what it takes.
    given = np.flatnonzero((room < 0)[owner])
    given = given[np.lexsort((state[given], -load[given]))]
    moved = _handed_on(load[given].tolist(), owner[given].tolist(), room.tolist())
    owner[given] = moved
    before = np.searchsorted(layer.instances, buckets.instance[own[given]])
    moves = tuple(
        BucketMove(layer.task, int(buckets.bucket[own[given[at]]]), int(snapshot.instances.number[taker]))
        for at in np.flatnonzero(before != moved).tolist()
        for taker in [layer.instances[moved[at]]]
    )
    shares = np.bincount(owner, load, len(layer.instances))
    loaded = shares > 0
    whole = float((layer.capacity[loaded] / shares[loaded]).min())
    hot = buckets.bucket[own[load * steady > layer.capacity.max()]]
    return Levelled(moves, whole, tuple(hot.tolist()), float(load.max()))


def _handed_on(load: list[float], owner: list[int], room: list[float]) -> list[int]:
    """Return the owners of these buckets, one after another, once each that is overloaded has given what it can."""
    owners, taker, most = list(owner), room.index(max(room)), max(room)
    for bucket, (share, giver) in enumerate(zip(load, owner, strict=True)):
        if room[giver] < 0 and share <= most:
            owners[bucket] = taker
            room[giver] += share
            room[taker] -= share
            most = max(room)
            taker = room.index(most)
    return owners
