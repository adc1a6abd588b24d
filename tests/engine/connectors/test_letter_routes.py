"""Letters take their source's route, else the job's, else none; a target that failed is not asked again."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.readers import read
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.connectors.letter_routes import LetterRoutes
from penstock.engine.connectors.local.memory import MemorySource
from penstock.model.connectors import RawRecord
from penstock.model.dead_letters import DeadLetter, LetterTarget, LetterWriter
from penstock.model.errors import FatalError, RetryableError

ROWS = pa.RecordBatch.from_pylist([{"a": 1}, {"a": 2}])
TRACE = "Traceback (most recent call last):\n  File x\npkg.OddError: too odd\nfor us"


class Shelf(LetterTarget, LetterWriter):
    """A target that keeps letters, or fails from some call on."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.calls: list[str] = []
        self.broken: str | None = None

    def open(self, job: str) -> LetterWriter:
        self.calls.append(f"open {job}")
        return self

    def describe(self) -> str:
        return "shelf"

    def put(self, letters: Sequence[DeadLetter]) -> None:
        self._call("put")
        self.letters += letters

    def flush(self) -> None:
        self._call("flush")

    def close(self) -> None:
        self._call("close")

    def abort(self) -> None:
        self._call("abort")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.broken == name:
            raise FatalError(f"no {name}")


def routed(tmp_path: Path, own: Shelf | None, common: Shelf | None) -> tuple[DeadLetterWriter, LetterRoutes]:
    job = Job()
    rows = read(MemorySource([ROWS]), dead_letters=own, job=job).name("in")
    rows.map(lambda row: row, {"a": int}).name("op").write_black_hole()
    graph = job.plan().graph
    routes = LetterRoutes("j", graph, common, lambda: 7)
    return DeadLetterWriter.for_graph(graph, tmp_path, routes), routes


def test_letters_go_to_the_source_s_target_then_the_job_s_then_the_file(tmp_path: Path) -> None:
    own, common = Shelf(), Shelf()
    for at, targets in enumerate(((own, common), (None, common), (own, None), (None, None))):
        writer, routes = routed(tmp_path / str(at), *targets)
        routes.open()
        writer.reject_raw("in", [RawRecord(b"x", "f:1", "bad")])
        writer.reject("op", ROWS, [TRACE, "plain"])
        writer.close()
        lines = len(writer.path.read_text().splitlines()) if writer.path.exists() else 0
        assert lines == (0, 0, 2, 3)[at]
    assert [letter.stage for letter in own.letters] == ["decode", "decode"]
    assert [letter.operator for letter in common.letters] == ["op", "op", "in", "op", "op"]
    first, second = common.letters[:2]
    assert (first.stage, first.error_class, first.message) == ("udf", "pkg.OddError", "pkg.OddError: too odd\nfor us")
    assert first.traceback == TRACE and first.record.raw == b'{"a":1}'
    assert (second.error_class, second.message, second.traceback) == ("BadRecordError", "plain", None)


def test_one_target_is_opened_once_and_told_epoch_and_attempt(tmp_path: Path) -> None:
    shelf = Shelf()
    writer, routes = routed(tmp_path, shelf, shelf)
    routes.open()
    routes.begin(3)
    writer.reject_raw("in", [RawRecord(b"x", "f:1", "bad")])
    writer.flush()
    writer.close()
    assert shelf.calls == ["open j", "put", "flush", "close"]
    assert [(letter.attempt, letter.epoch, letter.job) for letter in shelf.letters] == [(3, 7, "j")]


@pytest.mark.parametrize("step", ["put", "flush", "close"])
def test_a_failure_is_kept_and_told(tmp_path: Path, step: str) -> None:
    shelf = Shelf()
    shelf.broken = step
    writer, routes = routed(tmp_path, None, shelf)
    routes.open()
    writer.reject_raw("in", [RawRecord(b"x", "f:1", "bad")])
    assert (writer.failure is not None) == (step == "put")
    if step != "close":
        with pytest.raises(FatalError, match=f"no {step}"):
            writer.flush()
    with pytest.raises(FatalError, match=f"no {step}"):
        writer.close()
    calls = len(shelf.calls)
    writer.reject_raw("in", [RawRecord(b"x", "f:1", "bad")])
    assert len(shelf.calls) == calls
    assert writer.counts == {"in": 2}


def test_no_checkpoint_counts_on_letters_of_an_attempt_that_failed(tmp_path: Path) -> None:
    shelf = Shelf()
    writer, routes = routed(tmp_path, None, shelf)
    routes.open()
    writer.reject_raw("in", [RawRecord(b"x", "f:1", "bad")])
    writer.abort()
    with pytest.raises(RetryableError, match="before its dead letters were written"):
        writer.flush()
    assert shelf.calls == ["open j", "put", "abort"]


def test_a_job_ends_with_what_its_letters_failed_of(tmp_path: Path) -> None:
    shelf = Shelf()
    shelf.broken = "put"
    job = Job()
    ps.read_memory([{"a": 0}] * 10, job=job).map(lambda row: {"b": 1 // row["a"]}, {"b": int}).write_black_hole()
    with pytest.raises(FatalError, match="no put"):
        job.run("j", directory=tmp_path, dead_letters=shelf)
    assert shelf.calls[-1] == "abort"


def test_a_checkpoint_waits_for_letters_and_fails_with_them(tmp_path: Path) -> None:
    class Once(Shelf):
        def flush(self) -> None:
            self.calls.append("flush")
            if self.calls.count("flush") == 1:
                raise RetryableError("not now")

    def run(shelf: Shelf, name: str) -> None:
        job = Job()
        rows = ps.read_memory([{"a": at} for at in range(10)], job=job).name("in")
        rows.map(lambda row: {"b": 1 // (row["a"] % 2)}, {"b": int}).write_json(tmp_path / name).name("out")
        job.run(
            name, directory=tmp_path, dead_letters=shelf, checkpoint_dir=str(tmp_path / "kept"), restart_delay="1ms"
        )

    shelf = Once()
    run(shelf, "once")
    assert len(shelf.letters) == 10 and {letter.attempt for letter in shelf.letters} == {1, 2}
    calls = [call for call in shelf.calls if call != "put"]
    assert calls[:5] == ["open once", "flush", "abort", "open once", "flush"]
    # How many checkpoints there are is a setting.
    assert set(calls[5:-1]) <= {"flush"} and calls[-1] == "close"
    broken = Shelf()
    broken.broken = "flush"
    with pytest.raises(FatalError, match="no flush"):
        run(broken, "never")
    assert not list((tmp_path / "kept" / "never" / "checkpoints").rglob("*.json"))


def test_a_preview_writes_no_letters(tmp_path: Path) -> None:
    shelf = Shelf()
    job = Job()
    source = MemorySource([pa.RecordBatch.from_pylist([{"t": None}], pa.schema([("t", pa.timestamp("us"))]))])
    assert len(read(source, time="t", dead_letters=shelf, job=job).preview()) == 0
    assert shelf.calls == []
