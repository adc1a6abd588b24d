"""Files that appear by checkpoints: whatever step a crash comes before or after, each row is there exactly once."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.files.sinks import FileSink, ParquetSink
from penstock.model.failpoints import arm
from tests.engine.connectors.committing import INSTANCES, KINDS, SCHEMA, Death, Job, up_to, write

# A process that dies closes nothing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_files_appear_by_checkpoints(tmp_path: Path, kind: type[FileSink]) -> None:
    job = Job(tmp_path / "new" / "out", kind)
    job.run(4)
    assert job.visible() == up_to(4)
    assert sorted(path.name for path in job.path.iterdir()) == [
        "_penstock", "_staging",
        *(f"part-{name}{kind.suffix}" for name in ("00000-0000000001", "00000-0000000003", "00000-0000000004",
                                                   "00001-0000000003", "00001-0000000004")),
    ]  # fmt: skip
    assert list((job.path / "_staging").iterdir()) == []
    assert [path.name for path in (job.path / "_penstock").iterdir()] == ["manifest-0000000004.json"]
    listed = json.loads((job.path / "_penstock" / "manifest-0000000004.json").read_text())["manifest"]
    assert [(item["epoch"], len(item["files"])) for item in listed["epochs"]] == [(1, 1), (3, 2), (4, 2)]
    first = listed["epochs"][0]["files"][0]
    assert (first["rows"], first["bytes"]) == (2, (job.path / first["name"]).stat().st_size)


def test_nothing_is_seen_before_its_checkpoint_is_complete(tmp_path: Path) -> None:
    job = Job(tmp_path / "out", ParquetSink)
    sink = job.recover(None)
    writers = [sink.open(SCHEMA, instance, INSTANCES) for instance in range(INSTANCES)]
    write(writers, 1)
    receipts = [writer.prepare(1) for writer in writers]
    write(writers, 3)
    assert job.visible() == []
    sink.commit(1, receipts)
    assert job.visible() == up_to(1)
    sink.commit(1, receipts)
    assert job.visible() == up_to(1)
    for writer in writers:
        writer.abort()
    assert list((job.path / "_staging").iterdir()) == []
    assert pq.read_table(job.path / "part-00000-0000000001.parquet").num_rows == 2


def deaths(job: Job, act: Callable[[], object]) -> Iterator[list[str]]:
    """Let ``act`` die at its first, second ... failpoint, until it passes them all; yield what it passed each time."""
    for step in range(1000):
        job.crash_at(step)
        try:
            act()
        except Death:
            arm(None)
            yield job.passed
        else:
            arm(None)
            return
    raise AssertionError("it does not end")


def test_a_crash_at_every_point_of_a_life(tmp_path: Path) -> None:
    job = Job(tmp_path / "out")
    seen: set[str] = set()

    def live() -> None:
        job.complete = {}
        job.run(4)

    for passed in deaths(job, live):
        seen.update(passed)
        visible = job.visible()
        assert visible == sorted(set(visible)) and set(visible) <= set(up_to(4))
        job.recover(job.epoch)
        assert job.visible() == up_to(job.epoch or 0)
        assert list((job.path / "_staging").iterdir()) == []
        job.run(5)
        assert job.visible() == up_to(5)
    assert seen >= {
        *(f"sink.stage.{at}" for at in ("before", "synced", "renamed", "after")),
        *(f"sink.manifest.{at}" for at in ("before", "written", "synced", "renamed", "after")),
        *(f"sink.move.{at}" for at in ("before", "after", "synced")),
        *(f"sink.manifest.remove.{at}" for at in ("before", "after")),
        *(f"sink.commit.{at}" for at in ("before", "after")),
        *(f"sink.recover.{at}" for at in ("before", "after")),
    }


def test_what_is_renamed_is_on_disk_before_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    renamed: dict[Path, int] = {}
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        inode = os.fstat(descriptor).st_ino
        synced.add(inode)
        for path in [item for item, folder in renamed.items() if folder == inode]:
            del renamed[path]

    def watched_replace(source: Path, target: Path) -> Path:
        assert source.stat().st_ino in synced
        assert renamed == {} or target.parent == job.path
        renamed[target] = target.parent.stat().st_ino
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    job = Job(tmp_path / "out", ParquetSink)
    job.run(4)
    job.recover(2)
    job.run(3)
    assert renamed == {}


@pytest.mark.parametrize("back", [None, 1, 2, 3])
def test_a_crash_at_every_point_of_going_back(tmp_path: Path, back: int | None) -> None:
    """Committed epochs are taken back, and a life that begins anew replaces the old one."""
    job = Job(tmp_path / "out")
    job.run(4)
    complete = dict(job.complete)
    seen: set[str] = set()
    for passed in deaths(job, lambda: job.recover(back)):
        seen.update(passed)
        job.recover(back)
        assert job.visible() == up_to(back or 0)
        job.run(4)
        assert job.visible() == up_to(4)
        assert job.complete.keys() == complete.keys()
    assert job.visible() == up_to(back or 0)
    assert {"sink.rollback.remove", "sink.rollback.removed"} <= seen


def test_a_crash_while_another_is_recovered_from(tmp_path: Path) -> None:
    """Epoch 4 is prepared but not moved, epoch 5 is prepared in part; then recovery dies at each of its points."""
    job = Job(tmp_path / "out")

    def broken() -> None:
        job.run(3)
        sink = job.recover(3)
        writers = [sink.open(SCHEMA, instance, INSTANCES) for instance in range(INSTANCES)]
        write(writers, 4)
        receipts = [writer.prepare(4) for writer in writers]
        job.complete[4] = json.dumps(receipts)
        write(writers, 6)
        writers[0].prepare(6)
        arm(lambda name: _die_at(name, "sink.move.after"))
        with pytest.raises(Death):
            sink.commit(4, receipts)
        arm(None)

    broken()
    for _ in deaths(job, lambda: job.recover(4)):
        job.recover(4)
        assert job.visible() == up_to(4)
        job.complete = {}
        broken()
    assert job.visible() == up_to(4)


def _die_at(name: str, point: str) -> None:
    if name == point:
        raise Death


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 90), st.booleans()), max_size=5))
def test_random_crashes_and_returns(tmp_path_factory: pytest.TempPathFactory, faults: list[tuple[int, bool]]) -> None:
    job = Job(tmp_path_factory.mktemp("random") / "out")
    for step, fall_back in faults:
        if fall_back and len(job.complete) > 1:
            job.recover(sorted(job.complete)[-2])
            assert job.visible() == up_to(job.epoch or 0)
        job.crash_at(step)
        with suppress(Death):
            job.run((job.epoch or 0) + 3)
        arm(None)
    last = (job.epoch or 0) + 1
    job.run(last)
    assert job.visible() == up_to(last)
