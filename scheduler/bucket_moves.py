"""Bucket moves that let the same instances of a keyed task carry more.

The heaviest buckets move first; one that is too heavy for any instance is a hot key, which no move relieves
(docs/design/papers/flink-er.md 5). Called by `flink_er`.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats, Ints
from penstock.model.plan import BucketMove
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.bucket_exchanges import exchange
from penstock.scheduler.flow_network import Layer
from penstock.scheduler.row_groups import RowGroups

_ROUNDED = 1e-9
"""So small a part of an instance's capacity is the rounding of sums."""


@dataclass(frozen=True, slots=True, eq=False)
class BucketLoads:
    """The buckets of a task, by their rows in the snapshot, and the share of the task's rows that each receives."""

    rows: Ints
    load: Floats
    heaviest: float

    def hot(self, snapshot: ClusterSnapshot, layer: Layer, steady: float = 1.0) -> tuple[int, ...]:
        """Return the buckets that are hot keys: their share of the arriving rows exceeds every instance's capacity.

        ``steady``: the share of the need that arrives, in (0, 1], the rest being backlog. A bucket that exceeds it only
        during a backlog is none.
        """
        widest = layer.sums.widest
        if not self.heaviest * steady > widest:
            return ()
        return tuple(snapshot.buckets.bucket[self.rows[self.load * steady > widest]].tolist())


class TaskBuckets:
    """The loads of the buckets of all tasks; added up once, as there may be thousands of tasks."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        buckets, tasks = snapshot.buckets, len(snapshot.tasks)
        self._groups = RowGroups(buckets.task, tasks)
        order = self._groups.order
        records_in = np.zeros(len(order)) if buckets.records_in is None else buckets.records_in[order]
        task = buckets.task[order]
        total, heaviest = np.bincount(task, records_in, tasks), np.zeros(tasks)
        is_loaded = total > 0
        self._load = records_in / np.where(is_loaded, total, np.inf)[task]
        np.fmax.at(heaviest, task, self._load)
        self._heaviest: list[float] = heaviest.tolist()
        self._is_loaded: list[bool] = is_loaded.tolist()

    def loads(self, task: int) -> BucketLoads | None:
        """Return those of a task; None: its buckets were not measured, or receive nothing."""
        if not self._is_loaded[task]:
            return None
        return BucketLoads(self._groups.rows(task), self._load[self._groups.within(task)], self._heaviest[task])


@dataclass(frozen=True, slots=True)
class BucketLevelling:
    """Moves, and the layer's capacity after them, as a share of need; ``exchanges``: some are one for another."""

    moves: tuple[BucketMove, ...]
    whole: float
    exchanges: bool = False


def level_buckets(snapshot: ClusterSnapshot, layer: Layer, buckets: BucketLoads) -> BucketLevelling:
    """Return moves from overloaded instances to those with most room: highest rate first, then fewest bytes.

    Instances that are overloaded after that exchange buckets with others, as far as it goes.
    The layer's instances ascend. What it carries after them is at most the capacity of all of them together.
    """
    load = buckets.load
    columns = snapshot.buckets
    owner = np.searchsorted(layer.instances, columns.instance[buckets.rows]).astype(np.int32)
    count = len(layer.instances)
    old_owner = owner.copy()
    size = np.zeros(len(load)) if columns.state_bytes is None else np.nan_to_num(columns.state_bytes[buckets.rows])
    room = layer.capacity - np.bincount(owner, load, count)
    # No other instance gives: one that takes has room for what it takes.
    handed_on = (room < 0)[owner].nonzero()[0]
    if len(handed_on) and load[handed_on].min() <= room.max():
        handed_on = handed_on[np.lexsort((size[handed_on], -load[handed_on]))]
        owner[handed_on] = _new_owners(load[handed_on].tolist(), owner[handed_on].tolist(), room.tolist())
        room = layer.capacity - np.bincount(owner, load, count)
    handed_over = owner
    room[np.abs(room) <= _ROUNDED * layer.capacity] = 0.0
    if room.min() < 0 < room.max():
        owner = exchange(load, owner, room)
    numbers = snapshot.instances.number[layer.instances].tolist()
    moved = (old_owner != owner).nonzero()[0]
    moved = moved[np.lexsort((size[moved], -load[moved]))]
    moves = tuple(
        BucketMove(layer.task, bucket, numbers[taker])
        for bucket, taker in zip(columns.bucket[buckets.rows[moved]].tolist(), owner[moved].tolist(), strict=True)
    )
    shares = np.bincount(owner, load, count)
    loaded = shares > 0
    exchanges = not np.array_equal(owner, handed_over)
    return BucketLevelling(moves, float((layer.capacity[loaded] / shares[loaded]).min()), exchanges)


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
