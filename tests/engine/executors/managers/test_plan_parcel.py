"""Plans that go to another process and run there, and give what they give here."""

import importlib
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock import col
from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.dsl.job import Job
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.core.clock import SystemClock
from penstock.engine.dataflow.builder import build
from penstock.engine.dataflow.instance_services import InstanceServices
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.executors.managers.plan_parcel import pack_plan, pack_sinks, unpack_plan, with_sinks
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.planner import in_caller, plan
from penstock.model.config import LoopOptions
from penstock.model.errors import BugError, PlanError
from penstock.model.job_graph import AggregateSpec, SinkSpec, SourceSpec
from penstock.state.stores.memory_store import MemoryStore
from tests.benchmarks.oracle import QUERIES
from tests.benchmarks.same_rows import assert_same_rows
from tests.engine.executors.managers.elsewhere import read_rows, run_elsewhere
from tests.engine.executors.managers.every_operator import pipelines
from tests.operator_specs import spec_classes

ROWS = [{"key": "ab"[index % 2], "value": index} for index in range(100)]


def job_plan(job: Job, folder: Path, parallelism: int = 2) -> JobPlan:
    return JobPlan("job", plan(job.graph, parallelism, apart=True), LoopOptions(batch_rows=64), folder)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("events")
    write_dataset(directory, NexmarkConfig(events=10_000), row_group_rows=3_000)
    return directory


@pytest.mark.long("24 queries in processes; test_every_kind_of_operator_runs_elsewhere has each operator")
def test_every_nexmark_query_runs_elsewhere(events: Path, tmp_path: Path) -> None:
    parcels = []
    for query in (*QUERIES, "q12"):
        for place in ("here", "there"):
            job = Job()
            stream = load(query)(Events(job, events))
            stream.write_parquet(tmp_path / query / place, mode="changelog" if stream.updating else "append")
            made = job_plan(job, tmp_path / query / "job")
            if place == "here":
                EmbeddedJob(made).run()
            else:
                parcels.append(tmp_path / query / "parcel")
                parcels[-1].write_bytes(pack_plan(made))
    run_elsewhere(parcels)
    for query in QUERIES:
        here, there = read_rows(tmp_path / query / "here"), read_rows(tmp_path / query / "there")
        assert here.num_rows
        assert_same_rows(there, here)
    # Its windows go by the clock on the wall.
    bids = [pc.sum(read_rows(tmp_path / "q12" / place)["bid_count"]).as_py() for place in ("here", "there")]
    assert bids[0] == bids[1] > 0


def test_every_kind_of_operator_runs_elsewhere(tmp_path: Path) -> None:
    kinds: set[type] = set()
    for place in ("here", "there"):
        job = Job()
        pipelines(job, tmp_path / place)
        made = job_plan(job, tmp_path / "job")
        kinds |= {type(node.spec) for node in made.graph.graph.operators.values()}
        (tmp_path / "parcel").write_bytes(pack_plan(made))
        if place == "here":
            EmbeddedJob(made).run()
    run_elsewhere([tmp_path / "parcel"])
    assert kinds == set(spec_classes())
    for output in (tmp_path / "here").iterdir():
        here, there = read_rows(output), read_rows(tmp_path / "there" / output.name)
        assert here.num_rows, output.name
        assert_same_rows(there, here)


def test_the_generator_runs_elsewhere(tmp_path: Path) -> None:
    def dear(where: Path) -> JobPlan:
        job = Job()
        bids = ps.read_nexmark("bid", NexmarkConfig(events=5_000), job=job)
        bids.filter(col("price") > 5_000_000).select("auction", "price").write_parquet(where)
        return job_plan(job, tmp_path / "job")

    EmbeddedJob(dear(tmp_path / "here")).run()
    (tmp_path / "parcel").write_bytes(pack_plan(dear(tmp_path / "there")))
    run_elsewhere([tmp_path / "parcel"])
    assert_same_rows(read_rows(tmp_path / "there"), read_rows(tmp_path / "here"))


def held_by_the_caller(folder: Path) -> JobPlan:
    """Return a plan of which the ends are the caller's."""
    seen = threading.Lock()
    job = Job()
    kept = ps.read_iterable((row for row in ROWS), schema={"key": str, "value": int}, job=job)
    counts = kept.filter(col("value") > 3).key_by("key").agg(n=ps.count())
    counts.write(MemorySink(), mode="changelog")
    ps.read_memory(ROWS, job=job).for_each_batch(lambda rows: seen.acquire())
    kept.print()
    return job_plan(job, folder)


def test_what_the_caller_holds_is_left_there(tmp_path: Path) -> None:
    original = held_by_the_caller(tmp_path)
    copy = unpack_plan(pack_plan(original))
    assert [copy.graph.name(task) for task in copy.graph.tasks] == [
        original.graph.name(task) for task in original.graph.tasks
    ]
    assert (copy.name, copy.loop, copy.directory) == (original.name, original.loop, original.directory)
    stand_ins = 0
    for key, node in original.graph.graph.operators.items():
        mine, there = node.spec, copy.graph.node(key).spec
        assert in_caller(node) == in_caller(copy.graph.node(key))
        if isinstance(mine, SourceSpec) and isinstance(there, SourceSpec):
            assert there.source.schema == mine.source.schema
            assert there.source.describe() == mine.source.describe()
            assert there.source.bounded == mine.source.bounded
            parallelism = original.graph.task_of(key).parallelism
            assert list(there.source.partitions(parallelism)) == list(mine.source.partitions(parallelism))
            with pytest.raises(BugError, match="the process that started the job"):
                there.source.open("0/1", None)
            stand_ins += 1
        if isinstance(mine, SinkSpec) and isinstance(there, SinkSpec):
            assert (there.sink.describe(), there.sink.transactional) == (mine.sink.describe(), mine.sink.transactional)
            with pytest.raises(BugError, match="the process that started the job"):
                there.sink.open(pa.schema([]), 0, 1)
            stand_ins += 1
    assert stand_ins == 5


def test_the_rest_is_built_elsewhere(tmp_path: Path) -> None:
    copy = unpack_plan(pack_plan(held_by_the_caller(tmp_path)))
    graph = copy.graph
    held = {task.id for task in graph.tasks if in_caller(graph.node(task.head))}
    services = InstanceServices(
        SystemClock(),
        lambda operator, instance, image: MemoryStore(operator, None, image),
        DeadLetterWriter.for_graph(graph.graph, tmp_path),
        hosts=lambda task, index: task not in held,
    )
    built = build(graph, copy.loop, services)
    names = {instance.name for instance in built.instances}
    for instance in built.instances:
        for node in instance.nodes:
            node.operator.abort()
    assert names == {"filter-1[0]", "filter-1[1]", "agg-1[0]", "agg-1[1]"}


def test_expressions_stay_the_same_objects() -> None:
    job = Job()
    keyed = ps.read_memory(ROWS, job=job).key_by(k=col("value") % 7).agg(n=ps.count())
    keyed.write(MemorySink(), mode="changelog")
    copy = unpack_plan(pack_plan(job_plan(job, Path()))).graph
    (edge,) = [item for item in copy.edges if item.keys]
    spec = copy.node(edge.consumer).spec
    assert isinstance(spec, AggregateSpec)
    assert spec.keys[0][1] is edge.keys[0]
    assert edge in {edge: None}


def test_a_plan_that_is_not_one_is_refused() -> None:
    with pytest.raises(BugError, match="a dict came"):
        unpack_plan(pack_sinks(plan(_black_hole().graph, 1)))


def _black_hole() -> Job:
    job = Job()
    ps.read_memory(ROWS, job=job).write_black_hole()
    return job


ONLY_HERE = """
from penstock.engine.connectors.local.black_hole import BlackHoleSink

def double(row):
    return row

class Drain(BlackHoleSink):
    pass
"""


@pytest.fixture
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Yield a module of this process, which `forget` makes one of no process any more."""
    (tmp_path / "only_here.py").write_text(ONLY_HERE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("only_here")
    module.forget = lambda: (  # type: ignore[attr-defined]
        monkeypatch.delitem(sys.modules, "only_here"),
        monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)]),
    )
    yield module
    sys.modules.pop("only_here", None)


ABSENT = "No module named 'only_here'; the modules that it uses must be importable"


def test_who_needs_a_module_that_is_not_there_is_named_with_it(tmp_path: Path, only_here: ModuleType) -> None:
    job = Job()
    rows = ps.read_memory(ROWS, job=job).name("rows").filter(col("value") > 1).name("kept")
    rows.map(only_here.double).name("doubled").write_black_hole().name("out")
    data = pack_plan(job_plan(job, tmp_path))
    only_here.forget()
    file = re.escape(Path(__file__).name)
    with pytest.raises(PlanError, match=rf"^'doubled' \(.*{file}:\d+\) cannot be made again .*{ABSENT}"):
        unpack_plan(data)
    # Where no operator is at fault none is named.
    with pytest.raises(PlanError, match=r"^the plan cannot be made again"):
        unpack_plan(data[:20])


def test_a_sink_that_cannot_be_made_again_is_named(tmp_path: Path, only_here: ModuleType) -> None:
    job = Job()
    ps.read_nexmark("bid", NexmarkConfig(events=10), job=job).write(only_here.Drain()).name("out")
    made = job_plan(job, tmp_path)
    data = pack_sinks(made.graph)
    only_here.forget()
    with pytest.raises(PlanError, match=rf"^'out' \(.*\) cannot be made again .*{ABSENT}"):
        with_sinks(made, data)


def test_a_pipeline_that_was_run_here_goes_all_the_same(tmp_path: Path) -> None:
    job = Job()
    rows = ps.read_iterable(lambda: (row for row in ROWS), schema={"key": str, "value": int}, job=job)
    table = ps.lookup_table(lambda: [{"key": "a", "name": "A"}])
    found = rows.lookup(table, on="key").map(lambda row: row)
    found.write_parquet(tmp_path / "out")
    assert len(found.preview(3)) == 3
    EmbeddedJob(job_plan(job, tmp_path / "here")).run()
    (tmp_path / "parcel").write_bytes(pack_plan(job_plan(job, tmp_path / "there")))
    here = read_rows(tmp_path / "out")
    run_elsewhere([tmp_path / "parcel"])
    assert_same_rows(read_rows(tmp_path / "out"), here)
    assert here.num_rows == 50
