"""Paged operators at the moments that matter: budgets that change, frozen buckets, parked sweeps, failures, the end."""

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.clock import ManualClock
from penstock.engine.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.operators.contract import MAIN, Emission, Operator, OperatorContext, RowCounters
from penstock.engine.paging.bucket import BucketSource
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.engine.paging.ring import RING, WHOLE, Span
from penstock.model.errors import BugError, CheckpointError
from penstock.state.keys import KeyCodec
from penstock.state.store import Fixed, TableSpec
from tests.engine.paging.driving import Paged, Shelves, context_of
from tests.engine.paging.kinds import KINDS, Kind, Row, batch_of, plain

MB = 1 << 20
ROOM = PagingOptions(MB + (1 << 30), 8_000, 4_000, row_bytes=1 << 20)
"""Buckets of a few keys, all of which fit."""


def rows(count: int, at: int = 0, x: int = 1) -> list[Row]:
    return [(f"key {number}", at, x, "a") for number in range(count)]


class Counting(Operator):
    """Counts rows by key, tells them at a barrier or the end, and notes everything that happens to it."""

    minds_watermarks = True
    fails = False
    opened: list["weakref.ref[Counting]"] = []  # noqa: RUF012

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._codec = KeyCodec([pa.string()])
        self._table = context.state.table(TableSpec("counts", (pa.string(),), {"n": Fixed(np.dtype(np.int64))}))
        self.opened.append(weakref.ref(self))

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        if self.fails:
            raise ValueError("it fails")
        count = batch.rows.num_rows
        self.context.counters.rows_in += count
        self.context.counters.folded += count
        slots = self._table.upsert(self._codec.encode([batch.rows.column("k")], count)).slots
        np.add.at(self._table.array("n"), slots, 1)
        for row in range(count):
            yield MAIN, batch.with_rows(batch.rows.slice(row, 1))

    def due_us(self) -> int | None:
        return None


COUNTING = Kind(Counting)


def paged(options: PagingOptions, clock: ManualClock | None = None) -> PagedOperator:
    operator = PagedOperator(Counting, options, Shelves().open)
    operator.open(context_of(clock or ManualClock(), RowCounters(), COUNTING))
    return operator


def spread(operator: PagedOperator) -> BucketStores:
    """Give it so many keys that it has several buckets, and return these."""
    for _ in range(3):
        list(operator.process(0, Batch(batch_of(rows(400)))))
    assert len(operator._stores.buckets) > 3
    return operator._stores


def counts(operator: PagedOperator) -> Counter[Any]:
    """Return what the tables of all buckets hold, wherever they are; nothing waits."""
    found: Counter[Any] = Counter()
    for name, batch in operator._stores.contents():
        assert name == "counts"
        for key, count in zip(batch.column("key_0").to_pylist(), batch.column("n").to_pylist(), strict=True):
            assert key not in found
            found[key] = count
    return found


def everything(count: int) -> Counter[Any]:
    return Counter({f"key {number}": count for number in range(400)})


def test_buckets_that_have_become_too_large_are_not_cut_under_a_sweep() -> None:
    operator = paged(ROOM)
    stores = spread(operator)
    before = len(stores.buckets)
    stores.options = replace(ROOM, bucket_bytes=2_000, least_bucket_bytes=1_000)
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
    operator = paged(PagingOptions(MB + 20_000, 8_000, 4_000, 1_000))
    stores = spread(operator)
    pages = stores.pages
    assert pages._memory_bytes == MB  # type: ignore[attr-defined]
    operator.context.state.set_budget(64 * MB)
    assert stores.pages is pages and pages._memory_bytes == 16 * MB  # type: ignore[attr-defined]


def test_evicted_operators_are_gone_without_a_collector() -> None:
    Counting.opened.clear()
    gc.disable()
    try:
        stores = spread(paged(PagingOptions(MB + 20_000, 8_000, 4_000, 1_000)))
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


def test_a_parked_sweep_goes_on_where_it_was() -> None:
    operator = paged(PagingOptions(MB + 20_000, 8_000, 4_000, 1_000))
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
    assert len(list(operator.process(0, Batch(batch_of(rows(2_000)))))) == 2_001
    assert not operator.unanswered()
    due_ns = operator.timer_ns()
    assert due_ns is not None and due_ns <= clock.monotonic_ns(), "nothing else would ask for the watermark"
    assert not list(operator.on_timer(clock.monotonic_ns()))
    assert operator.released_watermark() == 7
    assert operator.timer_ns() is None


def test_rows_wait_for_a_checkpoint_and_its_files_hold_what_was_before(tmp_path: Path) -> None:
    job = Paged(COUNTING, ManualClock(), tmp_path)
    job.process(0, batch_of(rows(400)))
    job.barrier()
    assert len(job.operators[0]._stores.buckets) > 3
    before = job.results.copy()
    job.process(0, batch_of(rows(400)))
    for driven in job.instances:
        driven.watermark(END_OF_TIME_US)
        driven.timers(idle=True)
    assert job.results.rows == before.rows
    assert job.operators[0].unanswered() and job.operators[0].timer_ns() is None
    assert not job.operators[0].has_room()
    job.upload()
    job.instances[0].timers()
    assert job.results.counters.rows_in == 800 and job.instances[0].passed_us == END_OF_TIME_US
    job.restart(2)
    assert sum(map(counts, job.operators), Counter()) == everything(1)


def test_a_checkpoint_for_which_nothing_has_changed_is_not_disturbed_either(tmp_path: Path) -> None:
    job = Paged(COUNTING, ManualClock(), tmp_path)
    job.process(0, batch_of(rows(400)))
    for _ in range(2):
        job.upload()
        job.barrier()
    assert not any(bucket.dirty for bucket in job.operators[0]._stores.buckets)
    job.process(0, batch_of(rows(400)))
    job.upload()
    job.restart(1)
    assert sum(map(counts, job.operators), Counter()) == everything(1)


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


def test_timers_do_not_touch_what_a_checkpoint_reads(tmp_path: Path) -> None:
    clock = ManualClock()
    job = Paged(KINDS["process by clock"], clock, tmp_path)
    job.process(0, batch_of(rows(60)))
    for _ in range(2):
        job.barrier()
        job.upload()
    job.process(0, batch_of(rows(3)))
    job.barrier()
    clock.advance_us(10_000_000)
    assert any(not bucket.dirty for bucket in job.operators[0]._stores.buckets)
    for driven in job.instances:
        driven.timers()
        assert not list(driven.operator.on_timer(clock.monotonic_ns()))
    assert not job.results.rows
    job.upload()
    job.restart(1)
    for driven in job.instances:
        driven.timers()
    assert sum(int(what) for _, what in job.results.rows.elements()) == 63


def test_a_cut_that_was_released_or_outlived_its_operator_is_not_written(tmp_path: Path) -> None:
    operator = paged(PagingOptions(MB + 20_000, 8_000, 4_000, 1_000))
    spread(operator)
    for release in (True, False):
        list(operator.process(0, Batch(batch_of(rows(1)))))
        list(operator.on_barrier(1))
        pages = operator.cut().pages
        assert pages is not None and operator._stores.frozen()
        if release:
            pages.release()
            assert not operator._stores.frozen()
        else:
            operator.abort()
        with pytest.raises(CheckpointError):
            pages.write(tmp_path / "cut")
        pages.release()


def test_what_is_not_changed_is_not_written_again(tmp_path: Path) -> None:
    operator = paged(PagingOptions(MB + 20_000, 8_000, 4_000, 1_000))
    stores = spread(operator)
    for epoch in range(3):
        list(operator.on_watermark(epoch))
        list(operator.on_barrier(epoch))
        cut = operator.cut().pages
        assert cut is not None
        unstored = sum(bucket.dirty for bucket in stores.buckets)
        cut.write(tmp_path / str(epoch))
        cut.release()
        assert unstored <= (len(stores.buckets) if epoch == 0 else 0)
        assert all(bucket.stored and not bucket.dirty for bucket in stores.buckets)


def test_a_row_that_fails_fails_the_sweep_and_everything_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = paged(PagingOptions(MB + 20_000, 8_000, 4_000, 1_000))
    stores = spread(operator)
    pages = stores.pages
    monkeypatch.setattr(Counting, "fails", True)
    with pytest.raises(ValueError, match="it fails"):
        list(operator.process(0, Batch(batch_of(rows(400)))))
    operator.abort()
    assert operator.context.state.bytes_used() == 0
    with pytest.raises(BugError):
        pages.flush()


def source(span: Span, notes: Any = None, size: int = 10) -> BucketSource:
    return BucketSource(span, size, notes or {}, lambda: None)


def halves(options: PagingOptions, sources: list[BucketSource]) -> list[Span]:
    """Return the buckets of an instance that goes on from sources."""
    operator = PagedOperator(Counting, options, Shelves().open, sources)
    operator.open(context_of(ManualClock(), RowCounters(), COUNTING))
    return [bucket.span for bucket in operator._stores.buckets]


@pytest.mark.parametrize(
    ("sources", "spans"),
    [
        ([], [WHOLE]),
        ([source(Span(0, 5)), source(Span(9, RING))], [WHOLE]),
        ([source(Span(0, 5), {"w": 1}), source(Span(5, RING), {"w": 1, "paging passed_us": 3})], [WHOLE]),
        (
            [source(Span(5, 9), {"w": 1}), source(Span(20, 30), {"w": 2})],
            [(0, 5), (5, 9), (9, 20), (20, 30), (30, RING)],
        ),
        ([source(Span(20, RING), size=1 << 30), source(Span(0, 20))], [(0, 20), (20, RING)]),
    ],
)
def test_begins_with_the_buckets_of_old_instances(sources: list[BucketSource], spans: list[Any]) -> None:
    expected = [span if isinstance(span, Span) else Span(*span) for span in spans]
    assert halves(PagingOptions(None), sources) == expected


def test_instances_that_own_several_ranges_have_a_bucket_for_each() -> None:
    owners = np.array([0, 1, 1, 0, 1, 0], np.int32)
    clock, shelves = ManualClock(), Shelves()
    located: Callable[[Any], Any] = context_of(clock, RowCounters(), COUNTING).locate[0]
    whole = batch_of(rows(400))
    mine = np.isin(located(whole).astype(np.uint64) * np.uint64(6) >> np.uint64(32), [0, 3, 5])
    operator = PagedOperator(Counting, ROOM, shelves.open)
    operator.open(context_of(clock, RowCounters(), COUNTING, key_groups=owners, parallelism=2))
    assert len(operator._stores.buckets) == 3
    list(operator.process(0, Batch(whole.filter(pa.array(mine)))))
    assert sum(counts(operator).values()) == mine.sum()


@pytest.mark.parametrize("parallelism", [1, 16])
def test_a_bucket_that_skipped_watermarks_is_told_before_it_sees_rows(parallelism: int, tmp_path: Path) -> None:
    """Also when it is the only one that an instance goes on with."""
    job = Paged(KINDS["first"], ManualClock(), tmp_path)
    job.process(0, batch_of(rows(100, at=1)))
    for time_us in (10, 50):
        job.instances[0].watermark(time_us)
        job.barrier()
        job.upload()
    job.restart(parallelism)
    assert parallelism == 1 or any(len(operator._stores.buckets) == 1 for operator in job.operators)
    job.process(0, batch_of(rows(100, at=30)))
    job.barrier()
    assert job.results.counters.late == 100


def test_watermarks_of_a_bucket_never_go_back_when_instances_were_at_different_times() -> None:
    told: list[int] = []

    class Told(Counting):
        def on_watermark(self, time_us: int) -> Iterable[Emission]:
            told.append(time_us)
            return ()

        def due_us(self) -> int | None:
            return START_OF_TIME_US

    sources = [
        source(Span(0, RING // 2), {"paging swept_us": 10, "w": 1}),
        source(Span(RING // 2, RING), {"paging swept_us": 20}),
    ]
    operator = PagedOperator(Told, ROOM, Shelves().open, sources)
    restored = [{"paging swept_us": swept_us, "paging passed_us": 10} for swept_us in (10, 20)]
    operator.open(context_of(ManualClock(), RowCounters(), COUNTING, restored=restored))
    for time_us in (15, 18, 30):
        list(operator.on_watermark(time_us))
    assert told == [15, 18, 30, 30]


def test_a_key_that_is_large_by_itself_is_not_cut_again_and_again() -> None:
    operator = paged(replace(ROOM, bucket_bytes=600, least_bucket_bytes=500))
    stores = operator._stores
    for number in range(50):
        list(operator.process(0, Batch(batch_of(rows(8 + number)))))
    assert len(stores.buckets) < 1_000
    assert sum(counts(operator).values()) == sum(8 + number for number in range(50))
