"""Sinks whose writers are in another process: what they prepare there is committed here."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.connectors.files.sinks import CsvSink, FileSink, JsonLinesSink, ParquetSink
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.managers.plan_parcel import pack_plan, pack_sinks, unpack_plan, with_sinks
from penstock.engine.executors.managers.stand_ins import StandInSink
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.leases import make_leases
from penstock.engine.plan.planner import plan
from penstock.engine.restore.restorer import recover_sinks, with_checkpoints
from penstock.model.config import LoopOptions
from penstock.model.connectors import Sink, Writer
from penstock.model.errors import BugError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SinkSpec
from penstock.model.sink_context import OutputRun, RunMark, SinkContext
from penstock.state.files.local_files import LocalFiles
from tests.engine.executors.managers.elsewhere import run_elsewhere

WRITE = """
import json, sys
from pathlib import Path
import pyarrow as pa
paths, (plan, sinks) = json.loads(sys.argv[1])
sys.path[:] = paths
from penstock.engine.executors.managers.plan_parcel import unpack_plan, with_sinks
made = with_sinks(unpack_plan(Path(plan).read_bytes()), Path(sinks).read_bytes())
receipts = {}
for node in made.graph.graph.operators.values():
    if node.kind == "sink" and not node.spec.sink.in_caller:
        writer = node.spec.sink.open(pa.schema({"a": pa.int64()}), 1, 2)
        writer.write(pa.record_batch({"a": [1, 2, 3]}))
        receipts[node.name] = writer.prepare(1)
        writer.close()
print(json.dumps(receipts))
"""


class Noted(Sink):
    """A user's sink: notes in a file what it is told and what its writers get."""

    transactional = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run: OutputRun | None = None
        self.context: SinkContext | None = None

    def exclusive(self) -> Path:
        return self.folder

    def begin_run(self, run: OutputRun) -> None:
        self.run = run

    def with_checkpoints(self, context: SinkContext) -> "Noted":
        copy = Noted(self.folder)
        copy.context = context
        return copy

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        return NotedWriter(self)

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        assert self.context is not None
        for receipt in receipts:
            (self.folder / "committed").write_bytes(b"".join(self.context.kept.chunks(receipt["file"])))


class NotedWriter(Writer):
    def __init__(self, sink: Noted) -> None:
        self.sink = sink
        self.rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows

    def prepare(self, epoch: int) -> Any:
        run, context = self.sink.run, self.sink.context
        assert run is not None and context is not None
        run.check()
        context.kept.write("rows", str(self.rows).encode())
        return {"file": "rows", "run": [run.number, run.token], "kind": type(run).__name__}


def bound(folder: Path) -> tuple[ExecutionGraph, ExecutionGraph]:
    """Return a plan with sinks of every kind, as it was made and as it is once they have recovered."""
    job = Job()
    rows = ps.read_iterable(lambda: iter([{"a": 1}]), schema={"a": int}, job=job)
    for name, sink in sinks_by_name(folder).items():
        rows.write(sink).name(name)
    rows.write(MemorySink()).name("memory")
    graph = plan(job.graph, 2, apart=True)
    files = LocalFiles(folder / "checkpoints")
    ready = with_checkpoints(graph, "job", files)
    leases = make_leases("job", ready, SystemClock(), files, "checkpoints")
    leases.acquire(None, lambda _: None, lambda _: None, lambda: None)
    recover_sinks(ready, None)
    leases.release()
    return graph, ready


def sinks_by_name(folder: Path) -> dict[str, Sink]:
    kinds: Sequence[type[FileSink]] = (ParquetSink, JsonLinesSink, CsvSink)
    return {kind.__name__: kind(folder / kind.__name__) for kind in kinds} | {"noted": Noted(folder / "noted")}


def sink_of(graph: ExecutionGraph, name: str) -> Sink:
    spec = next(node.spec for node in graph.graph.operators.values() if node.name == name)
    assert isinstance(spec, SinkSpec)
    return spec.sink


def test_what_writers_elsewhere_prepare_is_committed_here(tmp_path: Path) -> None:
    graph, ready = bound(tmp_path)
    (tmp_path / "plan").write_bytes(pack_plan(JobPlan("job", graph, LoopOptions(), tmp_path)))
    (tmp_path / "sinks").write_bytes(pack_sinks(ready))
    receipts = json.loads(run_elsewhere([tmp_path / "plan", tmp_path / "sinks"], code=WRITE))
    assert set(receipts) == set(sinks_by_name(tmp_path))
    for name, receipt in receipts.items():
        sink_of(ready, name).commit(1, [receipt])
    for kind in (ParquetSink, JsonLinesSink, CsvSink):
        (file,) = (tmp_path / kind.__name__).glob("part-*")
        assert file.stat().st_size
        assert not list((tmp_path / kind.__name__ / "_staging").rglob("part-*"))
    assert (tmp_path / "noted" / "committed").read_text() == "3"
    noted = sink_of(ready, "noted")
    assert isinstance(noted, Noted) and noted.run is not None
    assert receipts["noted"]["run"] == [noted.run.number, noted.run.token]
    assert receipts["noted"]["kind"] == RunMark.__name__


def test_sinks_of_the_caller_stay_there(tmp_path: Path) -> None:
    graph, ready = bound(tmp_path)
    made = with_sinks(unpack_plan(pack_plan(JobPlan("job", graph, LoopOptions(), tmp_path))), pack_sinks(ready))
    memory = sink_of(made.graph, "memory")
    assert isinstance(memory, StandInSink)
    with pytest.raises(BugError, match="the process that started the job"):
        memory.commit(1, ())
    # The plan is the same but for the sinks.
    assert [made.graph.name(task) for task in made.graph.tasks] == [graph.name(task) for task in graph.tasks]
    assert sink_of(made.graph, "noted") is not sink_of(graph, "noted")


def test_sinks_without_checkpoints_go_as_they_are(tmp_path: Path) -> None:
    job = Job()
    ps.read_iterable(lambda: iter([{"a": 1}]), schema={"a": int}, job=job).write_parquet(tmp_path / "out").name("out")
    graph = plan(job.graph, 1)
    made = with_sinks(unpack_plan(pack_plan(JobPlan("job", graph, LoopOptions(), tmp_path))), pack_sinks(graph))
    sink = sink_of(made.graph, "out")
    assert isinstance(sink, ParquetSink)
    assert sink.path == tmp_path / "out"
