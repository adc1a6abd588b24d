"""The log of what was kept beside checkpoints: its files agree with what is published, whatever went wrong between."""

from pathlib import Path

import pytest

from penstock.engine.checkpoint.kept_files import KEPT, KeptFiles, read_kept_files
from penstock.engine.checkpoint.kept_stretches import KeptStretches
from penstock.engine.dataflow.checkpoint_port import CutTaken
from penstock.model.errors import RetryableError
from penstock.model.failpoints import arm
from penstock.replay.offset_log import kept_log_in
from penstock.shedding.kept_log import Stretch
from penstock.state.files.local_files import LocalFiles


def stretch(start: int, stop: int, source: str = "in", keep: float = 0.5) -> Stretch:
    return Stretch(source, None, "p", start, stop, keep)


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path)


def test_what_is_published_is_one_log_up_to_any_checkpoint(files: LocalFiles) -> None:
    kept = KeptFiles(files, "job", 7)
    for epoch, read in ((1, (0, 5)), (2, (5, 9)), (4, (9, 12))):
        kept.write(epoch, 3, [stretch(*read)])
        kept.published()
    assert files.list(KEPT) == [f"{epoch:010d}-0000000003.jsonl" for epoch in (1, 2, 4)]
    assert [read_kept_files(files, epoch) for epoch in (0, 1, 3, 9)] == [
        [], [stretch(0, 5)], [stretch(0, 9)], [stretch(0, 12)]
    ]  # fmt: skip


def test_an_epoch_that_was_not_published_leaves_nothing_in_the_log(files: LocalFiles) -> None:
    kept = KeptFiles(files, "job", 7)
    kept.write(1, 3, [stretch(0, 5)])
    kept.write(2, 3, [stretch(0, 9)])
    kept.published()
    assert read_kept_files(files, 9) == [stretch(0, 9)]
    kept.write(3, 3, [stretch(9, 11)])
    kept.write(4, 3, [])
    assert read_kept_files(files, 9) == [stretch(0, 9)]


def test_what_was_read_behind_a_restored_epoch_vanishes(files: LocalFiles) -> None:
    kept = KeptFiles(files, "job", 7)
    for epoch in (1, 2, 3):
        kept.write(epoch, 3, [stretch(epoch, epoch + 1), stretch(epoch, epoch + 1, "other")])
        kept.published()
    kept.write(4, 3, [stretch(4, 5), stretch(4, 5, "other")])
    again = KeptFiles(files, "job", 7)
    again.rewind(2, 3, {"in"})
    assert read_kept_files(files, 9) == [stretch(1, 3), stretch(1, 4, "other")]
    again.rewind(1, 3)
    assert read_kept_files(files, 9) == [stretch(1, 2), stretch(1, 2, "other")]
    again.rewind(0, 3)
    assert files.list(KEPT) == []


def test_stretches_wait_for_the_epoch_that_publishes_them_and_go_with_their_instances() -> None:
    kept = KeptStretches()
    for instance, epoch, read in (("a", 1, (0, 5)), ("a", 2, (5, 7)), ("b", 1, (0, 3))):
        kept.add(CutTaken(instance, epoch, stretches=(stretch(*read, source=instance),)))
    assert kept.due(1) == [stretch(0, 5, "a"), stretch(0, 3, "b")]
    assert kept.due(2) == [stretch(0, 7, "a"), stretch(0, 3, "b")]
    kept.begin(["b"])
    assert kept.due(2) == [stretch(0, 7, "a")]
    kept.published(1)
    assert kept.due(2) == [stretch(5, 7, "a")]


def written(files: LocalFiles, epochs: range) -> KeptFiles:
    """Return a log with a stretch for each of these epochs; every tenth has another rate."""
    kept = KeptFiles(files, "job", 7)
    for epoch in epochs:
        kept.write(epoch, 3, [stretch(epoch, epoch + 1, keep=0.25 if epoch % 10 == 0 else 0.5)])
        kept.published()
    return kept


def test_many_small_files_become_one_and_the_log_up_to_a_checkpoint_that_is_left_stays(files: LocalFiles) -> None:
    kept = written(files, range(1, 201))
    left = (70, 150, 199, 200)
    before = [read_kept_files(files, epoch) for epoch in left]
    kept.merge(lambda: left)
    assert files.list(KEPT)[:3] == [
        "0000000070-0000000003-0000000001.jsonl",
        "0000000150-0000000003-0000000071.jsonl",
        "0000000199-0000000003-0000000151.jsonl",
    ]
    assert len(files.list(KEPT)) == 4
    assert [read_kept_files(files, epoch) for epoch in left] == before
    # A file that was merged is merged again, and what was never published is not.
    kept = written(files, range(201, 301))
    kept.write(301, 3, [stretch(301, 302)])
    kept.merge(lambda: [70, 300])
    assert [name[-15:-6] for name in files.list(KEPT)] == ["000000001", "000000071", "000000003"]
    everything = read_kept_files(files, 300)
    assert (everything[0].start, everything[-1].stop, sum(item.stop - item.start for item in everything)) == (
        1,
        301,
        300,
    )
    kept.rewind(70, 300)
    assert read_kept_files(files, 999) == before[0]


@pytest.mark.parametrize("point", ["kept.before_merge", "kept.merged"])
def test_a_crash_while_files_are_merged_leaves_the_log_as_it_is(files: LocalFiles, point: str) -> None:
    def fail(name: str) -> None:
        if name == point:
            raise RetryableError("power is lost")

    written(files, range(1, 101))
    before = read_kept_files(files, 100)
    arm(fail)
    try:
        with pytest.raises(RetryableError, match="power is lost"):
            KeptFiles(files, "job", 7).merge(lambda: [100])
    finally:
        arm(None)
    assert len(files.list(KEPT)) == (101 if point == "kept.merged" else 100)
    assert read_kept_files(files, 100) == before
    log = kept_log_in(files, "log", KEPT)
    assert log is not None and sum(len(parts) for parts in log.stretches.values()) == len(before)
    KeptFiles(files, "job", 7).merge(lambda: [100])
    assert files.list(KEPT) == ["0000000100-0000000003-0000000001.jsonl"]
    assert read_kept_files(files, 100) == before
