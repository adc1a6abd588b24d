"""Sources and sinks let go of what they hold beside readers and writers when the job is over, wherever these were."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.connectors.local.memory import MemorySource
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.model.sink_context import SinkContext


class Released(MemorySink):
    """Counts how often it was released; its copies with checkpoints count here, too."""

    def __init__(self) -> None:
        super().__init__()
        self.releases: list[str] = []

    def with_checkpoints(self, context: SinkContext | None = None) -> "Released":
        copy = Released()
        copy.releases, copy._contents, copy._holds_back = self.releases, self._contents, True
        return copy

    def release(self) -> None:
        self.releases.append("released")


class ReleasedRows(MemorySource):
    """Notes that it was released where the sink does."""

    def __init__(self, sink: Released) -> None:
        super().__init__([{"a": 1}, {"a": 0}])
        self.releases = sink.releases

    def release(self) -> None:
        self.releases.append("rows released")


def run(sink: Released, folder: Path, *, fails: bool) -> None:
    job = Job()
    rows = ps.read(ReleasedRows(sink), job=job).name("in")
    rows.map(lambda row: {"a": 1 // row["a"]}, schema={"a": int}, on_error="fail" if fails else "dead_letter").name(
        "divided"
    ).write(sink).name("out")
    job.run("released", checkpoint_dir=folder / "checkpoints", directory=folder / "job", restarts=0)


def test_they_are_released_once_at_the_end(tmp_path: Path) -> None:
    sink = Released()
    run(sink, tmp_path, fails=False)
    assert sink.rows() == [{"a": 1}]
    assert sink.releases == ["rows released", "released"]


def test_they_are_released_once_when_the_job_has_failed(tmp_path: Path) -> None:
    sink = Released()
    with pytest.raises(ps.PenstockError, match="divi"):
        run(sink, tmp_path, fails=True)
    assert sink.releases == ["rows released", "released"]
