"""Paged operators at the moments that matter: budgets that change, parked sweeps, failures, watermarks, idleness."""

import gc
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.elements import START_OF_TIME_US, Batch
from penstock.engine.paging.memory_bound import MemoryBound
from penstock.engine.paging.options import PagingOptions
from penstock.model.errors import BugError
from tests.engine.paging.counting import LITTLE, MB, ROOM, Counting, counts, everything, paged, rows, spread
from tests.engine.paging.kinds import batch_of, plain


def test_buckets_that_have_become_too_large_are_not_cut_under_a_sweep() -> None:
    operator = paged(ROOM)
    stores = spread(operator)
    before = len(stores.buckets)
    stores.bound = MemoryBound(replace(ROOM, bucket_bytes=2_000, least_bucket_bytes=1_000))
    list(operator.process(0, Batch(batch_of(rows(400)))))
    assert len(stores.buckets) > before
    assert counts(operator) == everything(4)


def test_a_smaller_budget_lets_buckets_go_and_a_larger_one_keeps_them() -> None:
    operator = paged(ROOM)
    stores = spread(operator)
    assert stores.direct() and not stores.has_pages
    operator.context.state.set_budget(MB + 20_000)
    list(operator.process(0, Batch(batch_of(rows(1)))))
    sizes = sorted(bucket.bytes for bucket in stores.buckets)
    assert 0 < sum(sizes[:-1]) <= 20_000
    assert operator.context.state.bytes_used() == sum(sizes)
    operator.context.state.set_budget(None)
    list(operator.on_barrier(1))
    for _ in range(2):
        list(operator.process(0, Batch(batch_of(rows(400)))))
        list(operator.on_barrier(2))
    assert stores.direct()
    assert counts(operator) == everything(5) + Counter({"key 0": 1})


def test_the_page_store_gets_its_share_of_a_budget() -> None:
    operator = paged(LITTLE)
    stores = spread(operator)
    pages = stores.pages
    assert pages._memory_bytes == MB  # type: ignore[attr-defined]
    operator.context.state.set_budget(64 * MB)
    assert stores.pages is pages and pages._memory_bytes == 16 * MB  # type: ignore[attr-defined]


def test_evicted_operators_are_gone_without_a_collector() -> None:
    Counting.opened.clear()
    gc.disable()
    try:
        stores = spread(paged(LITTLE))
        alive = sum(reference() is not None for reference in Counting.opened)
        assert alive <= sum(bucket.is_resident for bucket in stores.buckets) + 1
        assert len(Counting.opened) > 3 * alive
    finally:
        gc.enable()


def test_accesses_count_rows_and_those_that_found_their_bucket_in_memory() -> None:
    operator = paged(ROOM)
    stores = spread(operator)
    assert (stores.accesses().count, stores.accesses().hits) == (1200, 1200)
    operator.context.state.set_budget(MB)
    list(operator.process(0, Batch(batch_of(rows(1)))))
    list(operator.process(0, Batch(batch_of(rows(400)))))
    list(operator.on_barrier(1))
    assert stores.accesses().count == 1601
    assert stores.accesses().hits < 1400


def test_writes_that_stall_for_a_checkpoint_are_not_taken_off_the_time_of_accesses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A counter that runs backwards is no reading: whoever sizes by what accesses take would be blind."""
    clock = ManualClock()
    operator = paged(LITTLE, clock)
    stores = spread(operator)
    bucket = next(bucket for bucket in stores.buckets if bucket.is_resident)
    before = operator.context.state.accesses()
    stalled_ns = [0]
    monkeypatch.setattr(stores.pages, "stalled_ns", lambda: stalled_ns[0])
    stalled_ns[0] += 500
    during = operator.context.state.accesses()
    store = stores.store

    def stall(item: Any) -> None:
        stalled_ns[0] += 7_000
        clock.advance_us(10)
        store(item)

    monkeypatch.setattr(stores, "store", stall)
    bucket.touch()
    stores.evict(bucket)
    after = operator.context.state.accesses()
    assert before is not None and during is not None and after is not None
    assert during.waited_ns == before.waited_ns and during.stalled_ns == before.stalled_ns + 500
    assert after.waited_ns == before.waited_ns + 3_000 and after.stalled_ns == during.stalled_ns + 7_000


def test_a_parked_sweep_goes_on_where_it_was() -> None:
    operator = paged(LITTLE)
    spread(operator)
    list(operator.on_barrier(1))
    before = counts(operator)
    seen: Counter[Any] = Counter()
    emissions = iter(operator.process(0, Batch(batch_of(rows(400)))))
    for _, batch in emissions:
        seen.update(plain(batch.rows))
        operator.timer_ns(), operator.has_room(), operator.context.state.bytes_used(), operator.unanswered()
        operator.context.state.set_budget(MB + 5_000 * (1 + len(seen) % 5))
    assert len(seen) == 400 and set(seen.values()) == {1}
    assert counts(operator) == before + everything(1)


def test_a_watermark_behind_waiting_rows_goes_out_when_they_were_worked_off() -> None:
    clock = ManualClock()
    operator = paged(PagingOptions(MB + 20_000, 8_000, 4_000, 50_000), clock)
    spread(operator)
    list(operator.on_barrier(1))
    assert not list(operator.on_timer(0)) and operator.released_watermark() is None
    assert operator.timer_ns() is None and not operator.unanswered()
    assert not list(operator.process(0, Batch(batch_of(rows(1)))))
    assert not list(operator.on_watermark(7))
    assert operator.output_watermark(7) == START_OF_TIME_US
    assert operator.unanswered(), "idleness, and the end of a job that is stopped, wait for rows"
    assert operator.timer_ns() == clock.monotonic_ns() + 10**9
    assert not list(operator.process(0, Batch(batch_of(rows(2_000)))))
    due_ns = operator.timer_ns()
    assert not operator.has_room() and due_ns is not None and due_ns <= clock.monotonic_ns()
    assert sum(1 for _ in operator._backlog.sweep()) == 2_001
    assert not operator.unanswered() and operator.has_room()
    due_ns = operator.timer_ns()
    assert due_ns is not None and due_ns <= clock.monotonic_ns(), "nothing else would ask for the watermark"
    assert not list(operator.on_timer(clock.monotonic_ns()))
    assert operator.released_watermark() == 7
    assert operator.timer_ns() is None


def test_idleness_that_waits_goes_on_behind_a_barrier() -> None:
    clock = ManualClock()
    operator = paged(PagingOptions(MB + 20_000, 8_000, 4_000, 50_000), clock)
    spread(operator)
    list(operator.on_barrier(1))
    list(operator.on_timer(0))
    assert operator.released_watermark() is None and operator.timer_ns() is None
    assert not list(operator.process(0, Batch(batch_of(rows(1)))))
    assert operator.unanswered()
    assert len(list(operator.on_barrier(2))) == 1
    due_ns = operator.timer_ns()
    assert not operator.unanswered() and due_ns is not None and due_ns <= clock.monotonic_ns()
    assert not list(operator.on_timer(0)) and operator.released_watermark() is None
    assert operator.timer_ns() is None


def test_a_row_that_fails_fails_the_sweep_and_everything_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = paged(LITTLE)
    stores = spread(operator)
    pages = stores.pages
    monkeypatch.setattr(Counting, "fails", True)
    with pytest.raises(ValueError, match="it fails"):
        list(operator.process(0, Batch(batch_of(rows(400)))))
    operator.abort()
    assert operator.context.state.bytes_used() == 0
    with pytest.raises(BugError):
        pages.flush()


def test_a_key_that_is_large_by_itself_is_not_cut_again_and_again() -> None:
    operator = paged(replace(ROOM, bucket_bytes=600, least_bucket_bytes=500))
    stores = operator._stores
    for number in range(50):
        list(operator.process(0, Batch(batch_of(rows(8 + number)))))
    assert len(stores.buckets) < 1_000
    assert sum(counts(operator).values()) == sum(8 + number for number in range(50))


@pytest.mark.parametrize("keys", [0, 1])
def test_a_bucket_of_a_single_key_stays_whole_unless_it_is_about_to_grow(keys: int) -> None:
    """Most of it may be what every bucket takes that is in use, and so would each piece be too large in turn."""
    operator = paged(ROOM)
    list(operator.process(0, Batch(batch_of(rows(keys)))))
    for _ in range(2):
        (bucket,) = operator._stores.buckets
        (whole,) = operator._moves.cutter.split(bucket)
        assert whole.span == bucket.span
        assert whole.whole_bytes > whole.bytes
    assert len(operator._moves.cutter.split(whole, 20_000)) > 1
    assert counts(operator).total() == keys


def test_a_bucket_of_two_keys_is_cut() -> None:
    operator = paged(ROOM)
    list(operator.process(0, Batch(batch_of(rows(2)))))
    (bucket,) = operator._stores.buckets
    assert len(operator._moves.cutter.split(bucket)) > 1
    assert counts(operator).total() == 2
