"""Plans whose sources and sinks of the caller's process are tasks of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from penstock.dsl.job import Job
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.ledger import check_ledger, read_ledger
from penstock.engine.plan.planner import plan
from penstock.engine.plan.state_meanings import meanings_of
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph

ROWS = pa.table({"key": ["a", "b", "a", "c"] * 50, "value": list(range(200))})


def job_of(build: Callable[[ps.Stream], Any]) -> Job:
    job = Job()
    build(ps.read_memory(ROWS, job=job))
    return job


def tasks(graph: ExecutionGraph) -> list[str]:
    return [graph.name(task) for task in graph.tasks]


def edges(graph: ExecutionGraph) -> list[tuple[str, str, str, bool]]:
    return [(item.producer, item.consumer, item.exchange, item.chained) for item in graph.edges]


def run(graph: ExecutionGraph, folder: Path) -> EmbeddedJob:
    job = EmbeddedJob(JobPlan("apart", graph, LoopOptions(batch_rows=16), folder))
    job.run()
    check_ledger(read_ledger(job.build), ended=True)
    return job


def test_what_the_caller_holds_is_chained_unless_it_stands_apart() -> None:
    job = job_of(lambda rows: rows.filter(col("value") > 3).map(lambda row: row).collect())
    assert tasks(plan(job.graph, 2)) == ["source-1 -> filter-1 -> map-1 -> sink-1"]
    graph = plan(job.graph, 2, apart=True)
    assert tasks(graph) == ["source-1", "filter-1 -> map-1", "sink-1"]
    assert edges(graph) == [
        ("source-1", "filter-1", "forward", False),
        ("filter-1", "map-1", "forward", True),
        ("map-1", "sink-1", "forward", False),
    ]


def test_a_source_and_a_sink_of_the_caller_stand_apart_from_each_other() -> None:
    job = job_of(lambda rows: rows.print())
    assert tasks(plan(job.graph, 1, apart=True)) == ["source-1", "sink-1"]


def test_exchanges_are_those_of_the_plan_without() -> None:
    def build(rows: ps.Stream) -> None:
        counts = rows.key_by("key").agg(n=ps.count())
        counts.key_by("n").agg(m=ps.count()).write(MemorySink(), mode="changelog")
        counts.filter(col("n") > 1).parallelism(3).print(mode="changelog")
        rows.rebalance().for_each_batch(print)

    job = job_of(build)
    chained, apart = plan(job.graph, 2), plan(job.graph, 2, apart=True)
    assert [item[:3] for item in edges(apart)] == [item[:3] for item in edges(chained)]
    assert [apart.task_of(key).parallelism for key in apart.graph.operators] == [
        chained.task_of(key).parallelism for key in chained.graph.operators
    ]


def test_what_needs_rows_by_keys_or_all_of_them_has_an_exchange_before_it_though_it_is_single() -> None:
    def build(rows: ps.Stream) -> None:
        counts = rows.filter(col("value") > 3).key_by("key").agg(n=ps.count()).name("counts")
        counts.key_by("key").agg(most=ps.max_("n")).name("most").write(MemorySink(), mode="changelog")
        counts.agg(keys=ps.count()).name("all").write(MemorySink(), mode="changelog")

    job = job_of(build)
    for apart, keyed, all_rows in ((False, "forward", "forward"), (True, "hash", "rebalance")):
        graph = plan(job.graph, 1, apart=apart)
        ways = {graph.node(item.consumer).name: (item.exchange, item.chained) for item in graph.edges}
        assert ways["counts"] == (keyed, not apart)
        assert ways["all"] == (all_rows, not apart)
        # Its rows lie by its key already, as they do where there are several instances.
        assert ways["most"] == ("forward", True)


def test_what_travels_is_chained_all_the_same(tmp_path: Path) -> None:
    job = Job()
    rows = ps.read_iterable(lambda: iter([{"a": 1}]), schema={"a": int}, job=job)
    rows.filter(col("a") > 0).write_parquet(tmp_path / "out")
    rows.write_black_hole()
    chained, apart = plan(job.graph, 2), plan(job.graph, 2, apart=True)
    assert (tasks(apart), edges(apart)) == (tasks(chained), edges(chained))


def test_state_means_the_same_under_the_same_names() -> None:
    job = job_of(lambda rows: rows.key_by("key").agg(n=ps.count()).name("per key").collect().name("out"))
    assert meanings_of(plan(job.graph, 2, apart=True)) == meanings_of(plan(job.graph, 2))


def _changelog(rows: ps.Stream, sink: MemorySink) -> None:
    rows.key_by("key").agg(n=ps.count(), total=ps.sum_("value")).write(sink, mode="changelog")


def _upsert(rows: ps.Stream, sink: MemorySink) -> None:
    rows.key_by("key").agg(n=ps.count()).write(sink, mode="upsert", key="key")


def _dead_letters(rows: ps.Stream, sink: MemorySink) -> None:
    mapped = rows.map(lambda row: {"value": 10 // (row["value"] % 4)}, schema={"value": int})
    mapped.side_output("dead_letter").select("error", "operator").write(sink)
    mapped.write_black_hole()


def _split(rows: ps.Stream, sink: MemorySink) -> None:
    rows.split(small=col("value") < 50)["small"].write(sink)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("build", [_changelog, _upsert, _dead_letters, _split])
def test_rows_are_the_same(build: Callable[[ps.Stream, MemorySink], None], parallelism: int, tmp_path: Path) -> None:
    answers = []
    for apart in (False, True):
        sink = MemorySink("key" if build is _upsert else ())
        run(plan(job_of(lambda rows, sink=sink: build(rows, sink)).graph, parallelism, apart=apart), tmp_path)
        answers.append(sorted(map(repr, sink.rows())))
    assert answers[0] == answers[1] != []
