"""Checkpoints of paged operators: what they hold, and what waits for them."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.dataflow.cut import InstanceCut, OperatorCut
from penstock.engine.paging.bucket_pages import headers, read_bucket
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.model.errors import CheckpointError, StateCorruptionError
from penstock.model.failpoints import arm
from tests.engine.paging.counting import (
    COUNTING,
    LITTLE,
    MB,
    ROOM,
    Counting,
    counts,
    everything,
    on_pages,
    paged,
    pages_cut,
    rows,
)
from tests.engine.paging.driving import Paged, context_of
from tests.engine.paging.kinds import KINDS, batch_of
from tests.engine.paging.shelves import RocksShelves, Shelves


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
    operator = paged(LITTLE)
    on_pages(operator)
    for release in (True, False):
        list(operator.process(0, Batch(batch_of(rows(1)))))
        list(operator.on_barrier(1))
        pages = pages_cut(operator)
        assert operator._stores.frozen()
        if release:
            pages.release()
            assert not operator._stores.frozen()
        else:
            operator.abort()
        with pytest.raises(CheckpointError):
            pages.write(tmp_path / "cut")
        pages.release()


def test_what_is_not_changed_is_not_written_again(tmp_path: Path) -> None:
    operator = paged(LITTLE)
    stores = on_pages(operator)
    for epoch in range(3):
        list(operator.on_watermark(epoch))
        list(operator.on_barrier(epoch))
        cut = pages_cut(operator)
        unstored = sum(bucket.dirty for bucket in stores.buckets)
        cut.write(tmp_path / str(epoch))
        cut.release()
        assert unstored <= (len(stores.buckets) if epoch == 0 else 0)
        assert all(bucket.stored and not bucket.dirty for bucket in stores.buckets)


@pytest.mark.parametrize("seed", range(3))
def test_rows_may_come_while_another_thread_writes(seed: int, tmp_path: Path) -> None:
    job = Paged(COUNTING, ManualClock(), tmp_path, RocksShelves(tmp_path / "rocks"))
    job.process(0, batch_of(rows(400)))
    for times in range(2, 6):
        job.barrier()
        writer = threading.Thread(target=job.upload)
        writer.start()
        for _ in range(seed):
            for driven in job.instances:
                driven.timers(idle=True)
                driven.operator.context.state.bytes_used()
        while not job.operators[0].has_room():
            pass
        list(job.operators[0].process(0, Batch(batch_of(rows(400)))))
        while not job.operators[0].takes_barrier():
            job.instances[0].timers()
        list(job.operators[0].on_barrier(100 + times))
        writer.join()
        assert counts(job.operators[0]) == everything(times)
    job.operators[0].close()


@contextmanager
def armed(action: Callable[[str], None]) -> Iterator[None]:
    arm(action)
    try:
        yield
    finally:
        arm(None)


class Halted:
    """Lets a test look in at a point: when the first bucket is about to be put into the page store."""

    def __init__(self, look: Callable[[], None], point: str = "pages.bucket.before_write") -> None:
        self._look: Callable[[], None] | None = look
        self._point = point

    def __call__(self, name: str) -> None:
        look = self._look
        if name == self._point and look is not None:
            self._look = None
            look()


def test_without_a_budget_rows_are_worked_off_while_pages_are_written(tmp_path: Path) -> None:
    operator = paged(PagingOptions(None, 8_000, 4_000))
    stores = on_pages(operator)
    assert len(stores.buckets) > 1
    list(operator.on_barrier(1))
    cut = pages_cut(operator)
    assert stores.frozen()
    before = counts(operator)

    def look() -> None:
        assert not stores.frozen() and stores.writing_out()
        assert operator.has_room() and not operator.takes_barrier()
        list(operator.process(0, Batch(batch_of(rows(400)))))
        assert counts(operator) - before == everything(1), "they are worked off and do not wait"

    with armed(Halted(look)):
        cut.write(tmp_path / "cut")
    assert not stores.writing_out() and operator.takes_barrier()
    kept = stored_counts(stores)
    assert kept == before, "the checkpoint holds what was before the barrier"
    assert any(bucket.dirty for bucket in stores.buckets), "what came meanwhile is for the next one"
    list(operator.on_barrier(2))
    cut = pages_cut(operator)
    cut.write(tmp_path / "next")
    assert stored_counts(stores) == counts(operator)


@pytest.mark.parametrize("options", [PagingOptions(None, 8_000, 4_000), ROOM], ids=["in memory", "room"])
def test_what_rows_need_is_encoded_before_anything_is_written(tmp_path: Path, options: PagingOptions) -> None:
    operator = paged(options)
    stores = on_pages(operator)
    list(operator.on_barrier(1))
    before = counts(operator)
    cut = pages_cut(operator)
    assert stores.frozen()
    few = rows(1)
    list(operator.process(0, Batch(batch_of(few))))
    work_off(operator)
    assert counts(operator) - before == Counter({"key 0": 1}), "they are worked off and do not wait"
    assert stores.frozen(), "nobody asked for the other buckets"
    cut.write(tmp_path / "cut")
    assert stored_counts(stores) == before, "the checkpoint holds what was before the barrier"
    assert [bucket.dirty for bucket in stores.buckets].count(True) == 1


def test_with_a_budget_buckets_are_used_once_they_are_encoded(tmp_path: Path) -> None:
    operator = paged(ROOM)
    stores = on_pages(operator)
    list(operator.on_barrier(1))
    before = counts(operator)
    cut = pages_cut(operator)

    def look() -> None:
        assert stores.writing_out() and not stores.frozen()
        list(operator.process(0, Batch(batch_of(rows(400)))))
        assert counts(operator) - before == everything(1)

    with armed(Halted(look)):
        cut.write(tmp_path / "cut")
    assert stored_counts(stores) == before


def test_without_room_a_bucket_waits_for_the_page_store_and_others_go_on(tmp_path: Path) -> None:
    operator = paged(PagingOptions(MB + 52_000, 8_000, 4_000, 1_000))
    stores = on_pages(operator)
    list(operator.on_barrier(1))
    limit = stores.options.held_bytes
    assert limit is not None
    frozen = [bucket for bucket in stores.buckets if bucket.is_resident and (bucket.dirty or not bucket.stored)]
    before = counts(operator)
    cut = pages_cut(operator)
    assert len(frozen) > 5
    done: list[int] = []

    def look(name: str) -> None:
        if name != "pages.bucket.before_write":
            return
        if not done:
            list(operator.process(0, Batch(batch_of(rows(400)))))
        work_off(operator)
        assert stores.held_bytes() + stores.image_bytes() <= limit
        done.append((counts(operator) - before).total())

    with armed(look):
        cut.write(tmp_path / "cut")
    assert len(done) == len(frozen)
    assert 0 < done[0] < done[len(done) // 2] < 400, "one bucket after the other"
    assert stored_counts(stores, tmp_path / "cut") == before
    work_off(operator)
    assert not operator.unanswered() and counts(operator) - before == everything(1)


@pytest.mark.parametrize("seed", range(10))
def test_a_checkpoint_holds_what_was_before_its_barrier_whatever_comes_in_between(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    budget = rng.choice([None, None, MB + 20_000, MB + 40_000, MB + 80_000, MB + (1 << 30)])
    clock = ManualClock()
    operator = paged(PagingOptions(budget, 8_000, 4_000, rng.choice([1_000, 8_000, 1 << 20])), clock)
    stores = on_pages(operator)
    expected = everything(3)
    for epoch in range(1, 5):
        while not operator.takes_barrier():
            work_off(operator)
        list(operator.on_barrier(epoch))
        before = counts(operator)
        assert before == expected
        cut = pages_cut(operator)

        def look(_: str = "") -> None:
            what = rng.random()
            if what < 0.4 and operator.has_room():
                some = rng.sample(range(800), rng.choice([1, 20, 200]))
                list(operator.process(0, Batch(batch_of([(f"key {number}", 0, 1, "a") for number in some]))))
                expected.update(f"key {number}" for number in some)
            elif what < 0.5:
                list(operator.on_watermark(clock.wall_us()))
            elif what < 0.6:
                clock.advance_us(rng.choice([1, 2_000_000]))
            else:
                work_off(operator, slices=rng.randrange(4))

        for _ in range(rng.randrange(4)):
            look()
        if rng.random() < 0.2:
            cut.release()
            continue
        with armed(look):
            cut.write(tmp_path / str(epoch))
        assert not stores.writing_out()
        assert stored_counts(stores, tmp_path / str(epoch)) == before
        for _ in range(rng.randrange(3)):
            look()
    while operator.unanswered():
        clock.advance_us(2_000_000)
        work_off(operator)
    assert counts(operator) == expected


def test_what_has_ended_is_written_by_the_next_checkpoint_if_it_could_not_be_by_this_one(tmp_path: Path) -> None:
    operator = paged(PagingOptions(None, 8_000, 4_000))
    stores = on_pages(operator)
    list(operator.on_barrier(1))
    cut = pages_cut(operator)
    held = InstanceCut("op[0]", 1, (OperatorCut("op", 0, {}, {}, buckets=cut),), ended=True)

    def fail() -> None:
        raise OSError("the disk is full")

    with armed(Halted(fail)), pytest.raises(OSError, match="full"):
        cut.write(tmp_path / "cut")
    held.release()
    cut.write(tmp_path / "next")
    cut.write(tmp_path / "last")
    assert stored_counts(stores) == counts(operator)


def test_what_could_not_be_written_is_written_by_the_next_checkpoint(tmp_path: Path) -> None:
    operator = paged(PagingOptions(None, 8_000, 4_000))
    stores = on_pages(operator)
    list(operator.on_barrier(1))
    cut = pages_cut(operator)

    def fail() -> None:
        raise OSError("the disk is full")

    with armed(Halted(fail)), pytest.raises(OSError, match="full"):
        cut.write(tmp_path / "cut")
    cut.release()
    assert operator.takes_barrier()
    list(operator.on_barrier(2))
    cut = pages_cut(operator)
    cut.write(tmp_path / "next")
    assert stored_counts(stores) == counts(operator)


@pytest.mark.parametrize("options", [PagingOptions(None, 8_000, 4_000), LITTLE], ids=["in memory", "little room"])
def test_a_bit_that_is_flipped_between_write_and_upload_is_noticed(tmp_path: Path, options: PagingOptions) -> None:
    operator = PagedOperator(Counting, options, RocksShelves(tmp_path / "rocks").open)
    operator.open(context_of(ManualClock(), RowCounters(), COUNTING))
    stores = on_pages(operator)
    list(operator.on_barrier(1))
    cut = pages_cut(operator)

    def flip(name: str) -> None:
        if name == "pages.snapshot.done":
            data = max((tmp_path / "cut").glob("*.*t"), key=lambda path: path.stat().st_size)
            content = bytearray(data.read_bytes())
            content[len(content) // 3] ^= 4
            data.write_bytes(content)

    with armed(flip), pytest.raises(StateCorruptionError):
        cut.write(tmp_path / "cut")
    cut.release()
    assert not stores.frozen() and operator.takes_barrier()
    operator.abort()


def work_off(operator: PagedOperator, slices: int = 1_000) -> None:
    """Do as the loop does: let it go on as long as it has a due timer."""
    clock = operator.context.clock
    for _ in range(slices):
        due_ns = operator.timer_ns()
        if due_ns is None or due_ns > clock.monotonic_ns():
            return
        list(operator.on_timer(clock.monotonic_ns()))
        operator.released_watermark()


def stored_counts(stores: BucketStores, copy: Path | None = None) -> Counter[str]:
    """Return what the page store, or a copy of it, holds of all buckets."""
    pages = stores.pages if copy is None else Shelves().restore(copy)
    found: Counter[str] = Counter()
    for header in headers(pages):
        part = read_bucket(pages, header.low).part
        for batch in () if part is None else part.batches["counts"]:
            found.update(dict(zip(batch.column("key_0").to_pylist(), batch.column("n").to_pylist(), strict=True)))
    return found
