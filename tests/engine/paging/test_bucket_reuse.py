"""Distances of reuse: what they predict for a memory is what a job with that memory hits."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from penstock.engine.core.elements import Batch
from penstock.engine.paging.bucket_reuse import BucketReuse, spread_evenly
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.options import PagingOptions
from penstock.model.columns import Floats
from penstock.model.reuse_distances import REUSE_BOUNDS
from tests.engine.paging.counting import MB, ROOM, counts, everything, paged, rows, spread
from tests.engine.paging.kinds import batch_of


def hit_rate(counted: Floats, cache_bytes: float) -> float:
    return float(counted[cache_bytes * (1 + 1e-9) >= REUSE_BOUNDS].sum() / counted.sum())


def test_what_lies_evenly_is_served_in_proportion_to_memory() -> None:
    spreads = spread_evenly(np.array([100.0, 50.0]), np.array([0.0, 4e6]), np.array([4e6, 8e6]))
    assert spreads.sum() == pytest.approx(150.0)
    for cache_bytes in (2.0**20, 2.0**21, 2.0**22):
        assert spreads[cache_bytes >= REUSE_BOUNDS].sum() == pytest.approx(
            100.0 * min(1.0, cache_bytes / 4e6) + 50.0 * max(0.0, cache_bytes - 4e6) / 4e6
        )
    assert spreads[REUSE_BOUNDS >= 8.8e6].sum() == 0.0


def test_distances_below_and_above_all_bounds_are_counted_too() -> None:
    counted = spread_evenly(np.array([3.0, 2.0]), np.array([0.0, 2.0**41]), np.array([10.0, 2.0**41]))
    assert counted[0] == 3.0 and counted[-1] == 2.0 and counted.sum() == 5.0


def test_buckets_of_later_sweeps_lie_between() -> None:
    """Four buckets of 1 MB: all in the first sweep, two of them in every other one, a third comes back."""
    reuse, size = BucketReuse(), 1 << 20
    uses = [0, 0, 0, 0]

    def sweep(visited: list[int], last_use: int) -> Floats:
        before = reuse.counted
        visits = [uses[bucket] for bucket in visited]
        reuse.swept(uses, [size] * 4, visits, [10] * len(visited), last_use)
        for place, bucket in enumerate(visited):
            uses[bucket] = last_use - len(visited) + place + 1
        return reuse.counted - before

    assert hit_rate(sweep([0, 1, 2, 3], 4), 2 * size) == pytest.approx(0.5, abs=0.01)
    assert hit_rate(sweep([0, 1], 6), 2 * size) == pytest.approx(0.5, abs=0.01)
    # The two that are always used need their own bytes, and none of the others'.
    assert hit_rate(sweep([0, 1], 8), 2 * size) == pytest.approx(1.0)
    back = sweep([2], 9)
    assert hit_rate(back, 2 * size) == 0.0
    assert hit_rate(back, 4 * size) == pytest.approx(1.0)


def hits_with(budget_bytes: int, sweeps: int) -> tuple[float, BucketStores]:
    """Return the part of rows that found their bucket in memory, in so many sweeps over all keys."""
    operator = paged(PagingOptions(budget_bytes, 4_000, 1_000, row_bytes=60_000, page_bytes=MB))
    stores = spread(operator)
    for _ in range(3):
        list(operator.process(0, Batch(batch_of(rows(400)))))
        list(operator.on_barrier(1))
    before = stores.accesses()
    for _ in range(sweeps):
        list(operator.process(0, Batch(batch_of(rows(400)))))
        list(operator.on_barrier(1))
    after = stores.accesses()
    return (after.hits - before.hits) / (after.count - before.count), stores


def test_what_is_predicted_of_less_memory_is_what_it_hits() -> None:
    _, whole = hits_with(1 << 30, 1)
    state_bytes = sum(bucket.bytes for bucket in whole.buckets)
    for part in (0.35, 0.6):
        observed, _ = hits_with(MB + int(part * state_bytes), 40)
        # Bounds of bytes do not reach down to states as small as a test's: each sweep is told anew, larger.
        scaled = BucketReuse()
        uses = [bucket.used for bucket in whole.buckets]
        sizes = [bucket.bytes << 12 for bucket in whole.buckets]
        scaled.swept(uses, sizes, uses, [1] * len(uses), max(uses))
        predicted = hit_rate(scaled.counted, part * (state_bytes << 12))
        assert observed == pytest.approx(predicted, abs=0.15), part


def test_every_row_has_a_distance() -> None:
    operator = paged(ROOM)
    list(operator.process(0, Batch(batch_of(rows(5)))))
    state = operator.context.state
    assert isinstance(state, BucketStores)
    assert state.reuse().sum() == pytest.approx(state.accesses().count)
    stores = spread(operator)
    assert len(stores.buckets) > 4
    list(operator.process(0, Batch(batch_of(rows(400)))))
    assert stores.reuse().sum() == pytest.approx(stores.accesses().count)
    assert isinstance(counts(operator), Counter) and everything(1)


def test_counting_changes_no_result() -> None:
    operator = paged(replace(PagingOptions(MB + 3_000, 4_000, 1_000), page_bytes=MB))
    spread(operator)
    list(operator.on_barrier(1))
    assert counts(operator) == everything(3)
