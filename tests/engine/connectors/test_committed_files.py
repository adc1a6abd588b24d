"""Files that appear by checkpoints: whatever step a crash comes before or after, each row is there exactly once."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.csv_files import CsvSource
from penstock.engine.connectors.file_sinks import CsvSink, FileSink, JsonLinesSink, ParquetSink
from penstock.engine.connectors.json_lines import JsonLinesSource
from penstock.engine.connectors.parquet import ParquetSource
from penstock.model.connectors import FunctionSink, Sink, Source, Writer
from penstock.model.errors import BugError, FatalError, RetryableError, UserError
from penstock.model.failpoints import arm
from tests.engine.connectors.reading import read_all

# A process that dies closes nothing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
INSTANCES = 2
KINDS: list[tuple[type[FileSink], Callable[[Path, pa.Schema], Source]]] = [
    (ParquetSink, ParquetSource),
    (JsonLinesSink, JsonLinesSource),
    (CsvSink, CsvSource),
]


class Death(BaseException):
    """The process is no more."""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)


def numbers(epoch: int, instance: int) -> list[int]:
    """What an instance writes between two checkpoints: nothing in every third, and the second instance in the first."""
    return [] if epoch % 3 == 2 or (epoch == 1 and instance) else [1000 * epoch + 10 * instance + row for row in (1, 2)]


def up_to(epoch: int) -> list[int]:
    return sorted(x for known in range(1, epoch + 1) for instance in range(INSTANCES) for x in numbers(known, instance))


def rows(values: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"a": value, "s": f"no. {value}"} for value in values], schema=SCHEMA)


class Job:
    """A job that writes to one directory, with its checkpoints; `crash_at` counts failpoints to its death."""

    def __init__(self, path: Path, kind: type[FileSink] = JsonLinesSink) -> None:
        self.path = path
        self.kind = kind
        self.complete: dict[int, str] = {}
        self.passed: list[str] = []

    @property
    def epoch(self) -> int | None:
        """The latest complete checkpoint."""
        return max(self.complete, default=None)

    def crash_at(self, step: int | None) -> None:
        self.passed = []

        def pass_by(name: str) -> None:
            self.passed.append(name)
            if len(self.passed) - 1 == step:
                raise Death

        arm(pass_by)

    def recover(self, epoch: int | None) -> Sink:
        """Start a process that goes on from a checkpoint: nothing is left of the last one but its files."""
        sink = self.kind(self.path).with_checkpoints()
        self.complete = {known: text for known, text in self.complete.items() if epoch is not None and known <= epoch}
        sink.recover(epoch, [] if epoch is None else json.loads(self.complete[epoch]))
        return sink

    def run(self, last: int) -> None:
        """Recover from the latest checkpoint and write on until checkpoint ``last`` is committed."""
        sink = self.recover(self.epoch)
        writers = [sink.open(SCHEMA, instance, INSTANCES) for instance in range(INSTANCES)]
        for epoch in range((self.epoch or 0) + 1, last + 1):
            write(writers, epoch)
            text = json.dumps([writer.prepare(epoch) for writer in writers])
            self.complete[epoch] = text
            sink.commit(epoch, json.loads(text))
        for writer in writers:
            writer.close()

    def visible(self) -> list[int]:
        """What a plain glob sees: every line whole, every file readable on its own."""
        found = [path for path in self.path.glob("*") if path.is_file()] if self.path.is_dir() else []
        if self.kind is JsonLinesSink:
            return sorted(json.loads(line)["a"] for path in found for line in path.read_text().splitlines())
        source = dict(KINDS)[self.kind]
        return sorted(value for path in found for value in read_all(source(path, SCHEMA)).column("a"))


def write(writers: Sequence[Writer], epoch: int) -> None:
    for instance, writer in enumerate(writers):
        for value in numbers(epoch, instance):
            writer.write(rows([value]))
        writer.write(rows([]))
        writer.flush()


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


def test_receipts_of_a_checkpoint_that_was_given_up_go_with_the_next(tmp_path: Path) -> None:
    job = Job(tmp_path / "out")
    sink = job.recover(None)
    writer = sink.open(SCHEMA, 0, 1)
    writer.write(rows([1]))
    given_up = writer.prepare(1)
    writer.write(rows([2]))
    receipt = writer.prepare(2)
    with pytest.raises(FatalError, match="checkpoint 2 does not know of, and would be lost"):
        sink.commit(2, [receipt])
    sink.commit(2, [receipt, given_up])
    assert job.visible() == [1, 2]
    job.complete[2] = json.dumps([receipt, given_up])
    job.recover(2)
    assert job.visible() == [1, 2]


def test_a_staged_file_that_is_damaged_or_gone_is_never_published(tmp_path: Path) -> None:
    job = Job(tmp_path / "out", ParquetSink)
    job.run(1)
    sink = job.recover(1)
    writer = sink.open(SCHEMA, 0, 1)
    writer.write(rows([7]))
    receipt = writer.prepare(2)
    staged = job.path / "_staging" / receipt[0]["name"]
    good = staged.read_bytes()
    for place in (0, len(good) // 2, len(good) - 1):
        staged.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        with pytest.raises(FatalError, match="is damaged"):
            sink.commit(2, [receipt])
    staged.write_bytes(good[:-1])
    with pytest.raises(FatalError, match=f"holds {len(good) - 1} bytes that differ from the {len(good)}"):
        sink.commit(2, [receipt])
    staged.unlink()
    with pytest.raises(FatalError, match="is gone"):
        sink.commit(2, [receipt])
    assert job.visible() == up_to(1)
    staged.write_bytes(good)
    sink.commit(2, [receipt])
    assert job.visible() == [7, *up_to(1)]


def test_a_manifest_that_is_cut_or_changed_is_noticed(tmp_path: Path) -> None:
    job = Job(tmp_path / "out")
    job.run(3)
    path = job.path / "_penstock" / "manifest-0000000003.json"
    good = path.read_bytes()
    for place in range(len(good)):
        for broken in (good[:place], good[:place] + bytes([good[place] ^ (1 << place % 7)]) + good[place + 1 :]):
            path.write_bytes(broken)
            with pytest.raises(FatalError, match="damaged"):
                job.recover(3)
    path.write_bytes(good)
    path.rename(path.with_name("manifest-0000000009.json"))
    with pytest.raises(FatalError, match="it was renamed"):
        job.recover(3)


def test_output_of_another_job_is_refused(tmp_path: Path) -> None:
    job = Job(tmp_path / "out")
    job.run(3)
    other = Job(tmp_path / "other")
    other.complete = dict(job.complete)
    with pytest.raises(FatalError, match="holds other output than that of checkpoint 3"):
        other.recover(3)
    changed = json.loads(job.complete[3])
    changed[0][0]["rows"] = 99
    job.complete[3] = json.dumps(changed)
    with pytest.raises(FatalError, match="holds other output than that of checkpoint 3"):
        job.recover(3)
    other.kind = CsvSink
    other.complete = {}
    sink = other.recover(None)
    JsonLinesSink(other.path).with_checkpoints().recover(None, [])
    with pytest.raises(FatalError, match="give every sink a directory of its own"):
        sink.commit(1, [])


@pytest.mark.parametrize(
    "receipt",
    [
        None,
        [{"name": "../part-00000-0000000001.jsonl", "rows": 1, "bytes": 1, "digest": ""}],
        [{"name": "part-00000-0000000001.csv", "rows": 1, "bytes": 1, "digest": ""}],
        [{"name": "part-00000-0000000009.jsonl", "rows": 1, "bytes": 1, "digest": ""}],
        [{"name": "part-00000-0000000001.jsonl", "rows": 1, "bytes": 1, "digest": ""}] * 2,
        [{"name": "part-00000-0000000001.jsonl", "rows": "1", "bytes": 1, "digest": ""}],
    ],
)
def test_receipts_are_checked(tmp_path: Path, receipt: Any) -> None:
    sink = Job(tmp_path / "out").recover(None)
    with pytest.raises(FatalError, match="receipts of checkpoint 1"):
        sink.commit(1, [receipt])


def test_a_sink_is_checked_when_the_job_is_built(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"out.parquet' with checkpoints, as each of them adds files: give a directory"):
        ParquetSink(tmp_path / "out.parquet").with_checkpoints()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to the file"):
        ParquetSink(tmp_path / "file").check_transactional()
    (tmp_path / "v1.2").mkdir()
    ParquetSink(tmp_path / "v1.2").check_transactional()
    plain = ParquetSink(tmp_path / "out")
    assert plain.transactional
    with pytest.raises(BugError, match="opened without checkpoints"):
        plain.recover(None, [])
    with pytest.raises(BugError, match="epochs count from 1"):
        plain.with_checkpoints().commit(0, [])
    with pytest.raises(RetryableError, match="cannot write to"):
        Job(tmp_path / "file" / "below").recover(None)


def test_rows_after_the_last_checkpoint_are_a_bug(tmp_path: Path) -> None:
    sink = Job(tmp_path / "out").recover(None)
    writer = sink.open(SCHEMA, 0, 1)
    writer.write(rows([1]))
    with pytest.raises(BugError, match="1 rows were written after the last checkpoint"):
        writer.close()


def test_runs_with_and_without_checkpoints_replace_each_other(tmp_path: Path) -> None:
    job = Job(tmp_path / "out")
    for _ in range(2):
        writer = JsonLinesSink(job.path).open(SCHEMA, 0, 1)
        writer.write(rows([5]))
        writer.close()
        assert job.visible() == [5]
        job.complete = {}
        job.run(1)
        assert job.visible() == up_to(1)


def test_other_sinks_flush_at_a_barrier() -> None:
    got: list[int] = []
    sink = FunctionSink(lambda batch: got.extend(batch.column("a").to_pylist()))
    sink.check_transactional()
    assert sink.with_checkpoints() is sink and not sink.transactional
    sink.recover(None, [])
    writer = sink.open(SCHEMA, 0, 1)
    writer.write(rows([1]))
    assert writer.prepare(1) is None
    sink.commit(1, [None])
    assert got == [1]


def test_receipts_are_plain_data(tmp_path: Path) -> None:
    sink = Job(tmp_path / "out").recover(None)
    writer = sink.open(SCHEMA, 3, 4)
    writer.write(rows([1]))
    receipt = writer.prepare(12)
    assert json.loads(json.dumps(receipt)) == receipt == msgspec.json.decode(msgspec.json.encode(receipt))
    assert [receipt[0][name] for name in ("name", "rows")] == ["part-00003-0000000012.jsonl", 1]
