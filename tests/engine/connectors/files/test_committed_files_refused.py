"""Files that appear by checkpoints: what was given up goes with the next, and what is damaged or foreign is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.engine.connectors.files.sinks import CsvSink, JsonLinesSink, ParquetSink
from penstock.model.errors import BugError, FatalError, RetryableError, UserError
from penstock.model.failpoints import arm
from penstock.model.function_sink import FunctionSink
from penstock.model.sink_context import SinkContext
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.sink_folder import SinkFolder
from tests.engine.connectors.committing import SCHEMA, Job, rows, up_to

# A process that dies closes nothing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)


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


def test_other_sinks_flush_at_a_barrier(tmp_path: Path) -> None:
    got: list[int] = []
    sink = FunctionSink(lambda batch: got.extend(batch.column("a").to_pylist()))
    sink.check_transactional()
    context = SinkContext("job", "sink", 1, SinkFolder(LocalFiles(tmp_path), "sink"))
    assert sink.with_checkpoints(context) is sink and not sink.transactional
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
