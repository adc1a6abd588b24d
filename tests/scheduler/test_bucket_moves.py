"""Which buckets of a keyed task move: as going through them one by one finds it, with no instance the worse for it."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import BucketMove
from penstock.model.snapshot import BucketColumns, ClusterSnapshot
from penstock.scheduler.bucket_exchanges import exchange
from penstock.scheduler.bucket_moves import TaskBuckets, level_buckets
from penstock.scheduler.flow_network import Layer
from tests.papers_cases import cases
from tests.scheduler.flow_jobs import Stage, snapshot


def job(rng: np.random.Generator) -> tuple[ClusterSnapshot, Layer]:
    """Return a keyed task after a source, with buckets of uneven load, and its layer."""
    count, buckets = int(rng.integers(1, 6)), int(rng.integers(1, 30))
    state = snapshot(1000.0, [Stage("source", [1e6]), Stage("count", [1000.0] * count, free=False)])
    owner = rng.integers(0, count, buckets)
    rows = np.where(rng.random(buckets) < 0.2, 0.0, rng.integers(1, 50, buckets).astype(np.float64))
    own = np.flatnonzero(state.instances.task == 1).astype(np.int32)
    columns = BucketColumns(
        np.ones(buckets, np.int32),
        np.arange(buckets, dtype=np.int32),
        own[owner],
        rows,
        rng.integers(0, 3, buckets).astype(np.float64),
    )
    share = np.bincount(owner, rows, count) / max(rows.sum(), 1.0)
    capacity = rng.uniform(0.1, 1.5, count) / count
    return replace(state, buckets=columns), Layer.of(1, own, capacity, share, False, (0,))


def one_by_one(state: ClusterSnapshot, layer: Layer) -> list[BucketMove]:
    """Return the moves: heaviest first, off who has too much, to who has most room, then exchanges."""
    buckets = state.buckets
    assert buckets.records_in is not None and buckets.state_bytes is not None
    total = buckets.records_in.sum()
    if total <= 0:
        return []
    load = buckets.records_in / total
    owner = [layer.instances.tolist().index(row) for row in buckets.instance.tolist()]
    room = [float(c) for c in layer.capacity - np.bincount(owner, load, len(layer.capacity))]
    before, order = list(owner), sorted(range(len(load)), key=lambda b: (-load[b], buckets.state_bytes[b]))
    for bucket in order:
        taker = room.index(max(room))
        if room[owner[bucket]] < 0 and load[bucket] <= room[taker]:
            room[owner[bucket]] += load[bucket]
            room[taker] -= load[bucket]
            owner[bucket] = taker
    left = layer.capacity - np.bincount(owner, load, len(layer.capacity))
    left[np.abs(left) <= 1e-9 * layer.capacity] = 0.0
    exchange_one_by_one(load.tolist(), owner, left.tolist())
    return [BucketMove(1, bucket, owner[bucket]) for bucket in order if owner[bucket] != before[bucket]]


def exchange_one_by_one(load: list[float], owner: list[int], room: list[float]) -> None:
    """Let who has too much give a heavier bucket for a lighter one: the least that suffices, or the largest."""
    for giver in sorted((place for place in range(len(room)) if room[place] < 0), key=lambda place: room[place]):
        for _ in range(owner.count(giver)):
            pairs = [
                (load[own] - load[other], own, other)
                for own in range(len(load))
                for other in range(len(load))
                if owner[own] == giver and 0 < load[own] - load[other] <= room[owner[other]]
            ]
            if room[giver] >= 0 or not pairs:
                break
            enough = [pair for pair in pairs if pair[0] >= -room[giver]]
            relief, own, other = min(enough) if enough else max(pairs, key=lambda pair: (pair[0], -pair[1], -pair[2]))
            room[giver] += relief
            room[owner[other]] -= relief
            owner[own], owner[other] = owner[other], giver


@settings(max_examples=cases())
@given(seed=st.integers(0, 2**32))
def test_the_moves_are_those_found_one_by_one_and_nobody_is_overloaded_by_them(seed: int) -> None:
    state, layer = job(np.random.default_rng(seed))
    load = state.buckets.records_in
    assert load is not None
    buckets = TaskBuckets(state).loads(1)
    if buckets is None:
        assert load.sum() == 0
        return
    found = level_buckets(state, layer, buckets)
    assert list(found.moves) == one_by_one(state, layer)
    assert found.whole <= layer.sums.balanced * (1 + 1e-9)
    owner = state.buckets.instance.copy()
    before = np.bincount(owner, load, len(state.instances))[layer.instances]
    for move in found.moves:
        owner[move.bucket] = layer.instances[move.number]
    after = np.bincount(owner, load, len(state.instances))[layer.instances]
    most = layer.capacity * float(load.sum())
    assert np.all(after <= np.maximum(before, most) + 1e-9)
    assert np.all(load[list(buckets.hot(state, layer))] > most.max())


def test_without_figures_of_buckets_there_are_no_loads() -> None:
    state, _ = job(np.random.default_rng(1))
    blind = replace(state, buckets=replace(state.buckets, records_in=None))
    assert TaskBuckets(blind).loads(1) is None
    assert TaskBuckets(state).loads(0) is None


def test_a_heavy_bucket_that_fits_nowhere_is_exchanged_for_a_lighter_one() -> None:
    """By decision 174; the least exchange that suffices is made, and what was given stays as it was."""
    load = np.array([0.22, 0.15, 0.13, 0.13, 0.08, 0.08, 0.14, 0.07])
    owner = np.array([3, 3, 0, 0, 1, 1, 2, 2], np.int32)
    room = np.full(4, 0.305) - np.bincount(owner, load, 4)
    assert load[owner == 3].min() > room.max()
    exchanged = exchange(load, owner, room)
    assert np.all(np.bincount(exchanged, load, 4) <= 0.305)
    assert np.flatnonzero(exchanged != owner).tolist() == [1, 4]
    assert owner.tolist() == [3, 3, 0, 0, 1, 1, 2, 2] and room[3] < 0


def test_nothing_is_exchanged_for_what_is_rounding_or_brings_nothing() -> None:
    state, layer = job(np.random.default_rng(3))
    load = np.array([0.25, 0.25, 0.25, 0.25])
    assert exchange(load, np.array([0, 0, 1, 1], np.int32), np.array([-0.1, 0.1])).tolist() == [0, 0, 1, 1]
    rows = np.array([3.0, 2.0, 1.0, 4.0])
    own = layer.instances[:2]
    buckets = BucketColumns(np.ones(4, np.int32), np.arange(4, dtype=np.int32), own[[0, 0, 1, 1]], rows, np.zeros(4))
    full = Layer.of(1, own, np.array([0.5 - 1e-17, 1.0]), np.array([0.5, 0.5]), False, (0,))
    loads = TaskBuckets(replace(state, buckets=buckets)).loads(1)
    assert loads is not None
    assert level_buckets(replace(state, buckets=buckets), full, loads).moves == ()


def test_exchanges_of_a_large_task_end_early() -> None:
    """So many pairs are looked at, and no more; nothing changes for the instances after that."""
    rng = np.random.default_rng(5)
    load = rng.uniform(0.8, 1.2, 8_000)
    load /= load.sum()
    owner = np.repeat(np.arange(2_000, dtype=np.int32), 4)
    room = np.full(2_000, 1 / 2_000) - np.bincount(owner, load, 2_000)
    exchanged = exchange(load, owner, room)
    assert 2 <= np.count_nonzero(exchanged != owner) <= 80
