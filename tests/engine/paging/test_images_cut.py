"""Checkpoints of operators that never had to page: files of buckets, and what they hold."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.elements import Batch
from penstock.engine.dataflow.cut import InstanceCut, OperatorCut
from penstock.engine.paging.bucket_files import INDEX_FILE, encode_index, read_images, read_index
from penstock.engine.paging.images_cut import ImagesCut
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.engine.paging.pages_cut import PagesCut
from penstock.model.errors import CheckpointError, RetryableError
from penstock.state.checkpoints.manifest import FileEntry
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.local_files import LocalFiles
from tests.engine.paging.counting import MB, ROOM, counts, everything, paged, rows, spread
from tests.engine.paging.kinds import batch_of
from tests.engine.paging.test_frozen_buckets import Halted, armed, stored_counts, work_off

IN_MEMORY = PagingOptions(None, 8_000, 4_000, inline_bytes=0)


class Store:
    """A repository whose epochs a test counts up."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory / "files"
        self.repository = CheckpointRepository(LocalFiles(directory))
        self._epochs = count(1)

    def write(self, cut: ImagesCut) -> tuple[FileEntry, ...]:
        return cut.write(self.repository.files_of(next(self._epochs)))

    def counts(self, entries: Sequence[FileEntry]) -> Counter[str]:
        """Return what the files of an instance hold."""
        read = self.repository.contents().read
        index = read_index(entries, read, "here")
        assert index is not None
        found: Counter[str] = Counter()
        for bucket in index:
            part = read_images(bucket, entries, read, "here")
            for batch in () if part is None else part.batches["counts"]:
                for key, number in zip(batch.column("key_0").to_pylist(), batch.column("n").to_pylist(), strict=True):
                    assert key not in found
                    found[key] = number
        return found


def images_cut(operator: PagedOperator, epoch: int = 1) -> ImagesCut:
    """Bring an operator that never paged to a barrier and cut it."""
    list(operator.on_barrier(epoch))
    cut = operator.cut().buckets
    assert isinstance(cut, ImagesCut)
    return cut


def feed(operator: PagedOperator, keys: Sequence[int]) -> None:
    list(operator.process(0, Batch(batch_of([(f"key {number}", 0, 1, "a") for number in keys]))))


def test_no_page_store_is_opened_and_the_files_hold_what_was_before(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(IN_MEMORY)
    stores = spread(operator)
    cut = images_cut(operator)
    before = counts(operator)

    def look() -> None:
        assert not stores.frozen(), "all is encoded before the first is brought to the files"
        assert not stores.writing_out() and operator.takes_barrier()
        list(operator.process(0, Batch(batch_of(rows(400)))))
        assert counts(operator) - before == everything(1), "rows are worked off and do not wait"

    with armed(Halted(look, "images.bucket.before_write")):
        entries = store.write(cut)
    assert not stores.has_pages
    assert store.counts(entries) == before, "the checkpoint holds what was before the barrier"
    assert store.counts(store.write(images_cut(operator, 2))) == counts(operator)


def test_rows_that_come_first_have_what_they_need_encoded(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(IN_MEMORY)
    stores = spread(operator)
    cut = images_cut(operator)
    before = counts(operator)
    feed(operator, [0])
    work_off(operator)
    assert counts(operator) - before == Counter({"key 0": 1}), "they are worked off and do not wait"
    assert stores.frozen(), "nobody asked for the other buckets"
    assert store.counts(store.write(cut)) == before


def test_what_has_not_changed_is_named_again(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(IN_MEMORY)
    stores = spread(operator)
    first = store.write(images_cut(operator))
    written: list[str] = []
    with armed(written.append):
        second = store.write(images_cut(operator, 2))
        assert "images.bucket.before_write" not in written
        feed(operator, [7])
        third = store.write(images_cut(operator, 3))
        assert written.count("images.bucket.before_write") == 1
    assert second == first
    (changed,) = {*third} - {*first}
    assert changed.name != INDEX_FILE, "an image alone: the list says the same"
    assert len(third) == len(stores.buckets) + 1
    assert store.counts(third) == everything(3) + Counter({"key 7": 1})


@pytest.mark.parametrize("seed", range(20))
def test_a_checkpoint_holds_what_was_before_its_barrier_whatever_comes_in_between(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    budgets = [None, None, MB + (1 << 30), MB + 120_000, MB + 80_000]
    clock = ManualClock()
    waiting_bytes, inline_bytes = rng.choice([1_000, 8_000, 1 << 20]), rng.choice([0, 3_000, 1 << 16])
    options = PagingOptions(rng.choice(budgets), 8_000, 4_000, waiting_bytes, inline_bytes=inline_bytes)
    store, operator = Store(tmp_path), paged(options, clock)
    stores = spread(operator)
    expected = everything(3)
    for epoch in range(1, 7):
        while not operator.takes_barrier():
            work_off(operator)
        list(operator.on_barrier(epoch))
        before = counts(operator)
        assert before == expected
        cut = operator.cut().buckets
        assert cut is not None

        def look() -> None:
            what = rng.random()
            if what < 0.4 and operator.has_room():
                some = rng.sample(range(800), rng.choice([1, 20, 200]))
                feed(operator, some)
                expected.update(f"key {number}" for number in some)
            elif what < 0.5:
                list(operator.on_watermark(clock.wall_us()))
            elif what < 0.55:
                rng.choice([stores.set_budget, stores.approach_budget])(rng.choice(budgets))
            elif what < 0.65:
                clock.advance_us(rng.choice([1, 2_000_000]))
            else:
                work_off(operator, slices=rng.randrange(4))

        for _ in range(rng.randrange(4)):
            look()
        if rng.random() < 0.2:
            cut.release()
            continue

        def look_in(name: str) -> None:
            # The loop itself comes by points of the page store, when it lets buckets go.
            if name in ("images.bucket.before_write", "pages.bucket.before_write"):
                look()

        with armed(look_in):
            if isinstance(cut, PagesCut):
                cut.write(tmp_path / str(epoch))
                found = stored_counts(stores, tmp_path / str(epoch))
            else:
                found = store.counts(store.write(cut))
        assert not stores.writing_out()
        assert found == before
        for _ in range(rng.randrange(3)):
            look()
    while operator.unanswered():
        clock.advance_us(2_000_000)
        work_off(operator)
    assert counts(operator) == expected


def test_a_cut_that_was_released_or_outlived_its_operator_is_not_written(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(IN_MEMORY)
    stores = spread(operator)
    for release in (True, False):
        feed(operator, [1])
        cut = images_cut(operator)
        assert stores.frozen()
        if release:
            cut.release()
            assert not stores.frozen()
        else:
            operator.abort()
        with pytest.raises(CheckpointError):
            store.write(cut)
        cut.release()


def fail() -> None:
    raise OSError("the disk is full")


def test_what_could_not_be_written_is_written_by_the_next_checkpoint(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(IN_MEMORY)
    spread(operator)
    cut = images_cut(operator)
    with armed(Halted(fail, "images.bucket.before_write")), pytest.raises(OSError, match="full"):
        store.write(cut)
    cut.release()
    assert operator.takes_barrier()
    assert store.counts(store.write(images_cut(operator, 2))) == counts(operator)


def test_what_has_ended_is_written_by_every_later_checkpoint(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(IN_MEMORY)
    spread(operator)
    cut = images_cut(operator)
    held = InstanceCut("op[0]", 1, (OperatorCut("op", 0, {}, {}, buckets=cut),), ended=True)
    with armed(Halted(fail, "images.bucket.before_write")), pytest.raises(OSError, match="full"):
        store.write(cut)
    held.release()
    first = store.write(cut)
    assert store.counts(first) == counts(operator)
    assert store.write(cut) == first
    for path in store.folder.iterdir():
        path.unlink()
    with pytest.raises(RetryableError):
        store.write(cut)
    assert store.counts(store.write(cut)) == counts(operator)


def test_a_file_that_is_gone_fails_one_checkpoint_and_is_written_by_the_next(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(IN_MEMORY)
    spread(operator)
    first = store.write(images_cut(operator))
    gone = next(entry for entry in first if entry.name != INDEX_FILE)
    (store.folder / gone.stored).unlink()
    cut = images_cut(operator, 2)
    with pytest.raises(RetryableError, match=r"1 files of .* the next checkpoint writes what was in them again"):
        store.write(cut)
    cut.release()
    assert store.counts(store.write(images_cut(operator, 3))) == everything(3)


def test_without_room_images_are_encoded_one_after_the_other(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(replace(ROOM, inline_bytes=0))
    stores = spread(operator)
    stores.set_budget(MB + stores.held_bytes() + 9_000)
    cut = images_cut(operator)
    limit = stores.options.held_bytes
    assert limit is not None
    before = counts(operator)
    ahead: list[int] = []

    def look(name: str) -> None:
        if name == "images.bucket.before_write":
            assert stores.held_bytes() + stores.image_bytes() <= limit + 9_000
            ahead.append(stores.image_bytes())

    with armed(look):
        entries = store.write(cut)
    assert len(ahead) == len(stores.buckets) and max(ahead) < sum(entry.bytes for entry in entries)
    assert store.counts(entries) == before


def test_small_images_lie_in_the_index(tmp_path: Path) -> None:
    store, operator = Store(tmp_path), paged(PagingOptions(None, 8_000, 4_000))
    stores = spread(operator)
    for epoch in range(1, 3):
        entries = store.write(images_cut(operator, epoch))
        assert [entry.name for entry in entries] == [INDEX_FILE] and len(stores.buckets) > 3
        assert store.counts(entries) == everything(3)


def test_damaged_lists_of_buckets_say_so(tmp_path: Path) -> None:
    operator = paged(IN_MEMORY)
    spread(operator)
    store = Store(tmp_path)
    entries = store.write(images_cut(operator))
    read = store.repository.contents().read
    with pytest.raises(CheckpointError, match="the list of buckets has files that are not there: bucket-"):
        read_index([entry for entry in entries if entry.name == INDEX_FILE], read, "here")
    with pytest.raises(CheckpointError, match="here: the list of buckets cannot be read"):
        read_index(entries, lambda _: encode_index([])[:0] + b"\xc1", "here")
