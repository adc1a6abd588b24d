"""Which buckets of a keyed task move so that its instances carry more without being more (papers.md 3.2).

The heaviest go first; a bucket that is too heavy for any instance is a hot key, which no move helps. Called by
`flink_er`.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.plan import BucketMove
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.flow_network import Layer


@dataclass(frozen=True, slots=True)
class Levelled:
    """The moves, what the layer could carry after them (a share of need), and buckets that are hot keys."""

    moves: tuple[BucketMove, ...]
    whole: float
    hot: tuple[int, ...]


def levelled(snapshot: ClusterSnapshot, layer: Layer) -> Levelled:
    """Return moves off overloaded instances to those with most room, by rate the heaviest first, by bytes the least.

    Without figures of buckets nothing moves.
    """
    buckets = snapshot.buckets
    own = np.flatnonzero(buckets.task == layer.task)
    if buckets.records_in is None or not len(own) or np.isnan(buckets.records_in[own]).any():
        return Levelled((), layer.whole, ())
    total = float(buckets.records_in[own].sum())
    if total <= 0:
        return Levelled((), layer.whole, ())
    place = {int(row): number for number, row in enumerate(layer.instances)}
    load = buckets.records_in[own] / total
    state = np.zeros(len(own)) if buckets.state_bytes is None else np.nan_to_num(buckets.state_bytes[own])
    owner = np.array([place[int(row)] for row in buckets.instance[own]])
    room = layer.capacity - np.bincount(owner, load, len(layer.instances))
    hot = np.flatnonzero(load > layer.capacity.max())
    moves = []
    for bucket in np.lexsort((state, -load)).tolist():
        giver, taker = owner[bucket], int(np.argmax(room))
        if room[giver] >= 0 or load[bucket] > room[taker]:
            continue
        room[giver] += load[bucket]
        room[taker] -= load[bucket]
        owner[bucket] = taker
        number = int(snapshot.instances.number[layer.instances[taker]])
        moves.append(BucketMove(layer.task, int(buckets.bucket[own[bucket]]), number))
    shares = np.bincount(owner, load, len(layer.instances))
    loaded = shares > 0
    whole = float((layer.capacity[loaded] / shares[loaded]).min())
    return Levelled(tuple(moves), whole, tuple(int(buckets.bucket[own[bucket]]) for bucket in hot))
