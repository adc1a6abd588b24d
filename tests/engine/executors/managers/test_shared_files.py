"""Local paths as a head and a task manager see them: the same, another folder of the same name, files that grow."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.managers.file_views import InputFile, SizeAndTime
from penstock.engine.executors.managers.messages import FilesSeen, LookAtFiles
from penstock.engine.executors.managers.shared_files import refusal, seen_files, what_to_look_at
from penstock.engine.jobs.leases import Leases, make_leases
from penstock.model.errors import BugError, UserError
from penstock.model.execution_graph import ExecutionGraph
from penstock.state.files.local_files import LocalFiles


@dataclass
class Host:
    """Folders of a job as one host has them; another has its own at the same paths."""

    folder: Path

    def graph(self) -> ExecutionGraph:
        """Return a plan that reads two files and a side table, and writes a directory and a file."""
        for name in ("in/one", "in/two", "side"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": [1, 2]}), self.folder / f"{name}.parquet")
        job = ps.Job()
        rows = ps.read_parquet(self.folder / "in", job=job).name("rows")
        rows.write_parquet(self.folder / "out").name("out")
        side = ps.lookup_table(self.folder / "side.parquet")
        rows.lookup(side, on="id").name("sided").write_json(self.folder / "lines.jsonl").name("lines")
        return job.plan(2, apart=True)

    def hold(self, graph: ExecutionGraph) -> Leases:
        """Hold the leases of a run."""
        checkpoints = LocalFiles(self.folder / "checkpoints")
        leases = make_leases("job", graph, SystemClock(), checkpoints, "checkpoints")
        leases.acquire(None, lambda seconds: None, lambda text: None, lambda: None)
        return leases

    def order(self, graph: ExecutionGraph) -> LookAtFiles:
        """Return what is looked at, as this host sees it."""
        return what_to_look_at(graph, LocalFiles(self.folder / "checkpoints"))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "job")


def moved(order: LookAtFiles, here: Path, there: Path) -> LookAtFiles:
    """Return the question with paths that lead to where another host has its files."""
    text = msgspec.json.encode(order).decode().replace(str(here), str(there))
    return msgspec.json.decode(text, type=LookAtFiles)


def test_a_task_manager_that_sees_the_same_files_is_not_refused(host: Host) -> None:
    graph = host.graph()
    leases = host.hold(graph)
    order = host.order(graph)
    assert [folder.kind for folder in order.folders] == ["checkpoint directory", "output", "output"]
    assert [Path(file.path).name for file in order.files] == ["one.parquet", "two.parquet", "side.parquet"]
    assert refusal("tm-0", order, seen_files(order), order) is None
    leases.release()


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        ("checkpoints", "the checkpoint directory '{here}/checkpoints' of the job is another one"),
        ("out", "the output '{here}/out' of the job is another one"),
        (".lines.jsonl.penstock", "the output '{here}/lines.jsonl' of the job is another one"),
        ("in/two.parquet", "the input file '{here}/in/two.parquet' is not there"),
        ("side.parquet", "the input file '{here}/side.parquet' is not there"),
    ],
)
def test_what_is_not_there_is_named_with_its_host_and_a_remedy(
    host: Host, tmp_path: Path, gone: str, named: str
) -> None:
    graph = host.graph()
    leases = host.hold(graph)
    order = host.order(graph)
    there = tmp_path / "there"
    copy(host.folder, there, gone)
    answer = seen_files(moved(order, host.folder, there))
    error = refusal("tm-1", order, answer, order)
    leases.release()
    assert isinstance(error, UserError)
    assert named.format(here=host.folder) in str(error)
    assert repr(answer.host) in str(error) and "'tm-1'" in str(error) and "s3://BUCKET" in str(error)


def test_a_folder_that_another_run_has_is_another_one(host: Host, tmp_path: Path) -> None:
    graph = host.graph()
    leases = host.hold(graph)
    other = Host(tmp_path / "there")
    theirs = other.hold(other.graph())
    order = host.order(graph)
    error = refusal("tm-1", order, seen_files(moved(order, host.folder, other.folder)), order)
    for held in (leases, theirs):
        held.release()
    assert error is not None and "the checkpoint directory" in str(error)


def test_a_folder_without_a_lease_is_a_bug(host: Host) -> None:
    with pytest.raises(BugError, match="its lease is not held"):
        host.order(host.graph())


STATES = st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(before=STATES, seen=STATES, after=STATES)
def test_a_file_that_is_written_meanwhile_may_be_seen_at_any_moment_between(
    before: SizeAndTime | None, seen: SizeAndTime | None, after: SizeAndTime | None
) -> None:
    order = LookAtFiles((), (InputFile("lines.jsonl", before),))
    again = LookAtFiles((), (InputFile("lines.jsonl", after),))
    error = refusal("tm-0", order, FilesSeen("host", (), (seen,)), again)
    if seen == before:
        assert error is None
    elif before is None or seen is None or after is None:
        assert error is not None
    else:
        is_between = all(low <= at <= high for low, at, high in zip(before, seen, after, strict=True))
        assert (error is None) is is_between


def copy(here: Path, there: Path, without: str) -> None:
    """Copy a folder with the times of its files, as a share would show it, without something."""
    shutil.copytree(here, there)
    left = there / without
    if left.is_dir():
        shutil.rmtree(left)
    else:
        left.unlink()
