"""What branches in chains and operators by keys drop is counted for the edges that the rows would have gone by."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.cluster_snapshot import cluster_snapshot
from penstock.engine.control.part_reading import DROPPED, PartReading, read_part
from penstock.engine.control.reading import ReadingMerger
from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.part_readings import part_of, said
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.keep_rates import KeepRates
from penstock.model.snapshot import ClusterSnapshot, MachineColumns
from penstock.scheduler.shed_rows import shed_shares
from tests.engine.control.readings import OPTIONS, SECOND_NS, machine

RATES = KeepRates({"numbers": 0.75}, {("numbers", "few"): 0.25})
MACHINE = MachineColumns(("here",), np.ones(1))


def plan() -> ExecutionGraph:
    """Two queries of one source, one of which loses more rows, behind an exchange."""
    job = ps.Job()
    numbers = ps.read(SteadySource(40_000, keys=1_000, seconds=0.5, partitions=2), job=job).name("numbers")
    few = numbers.rebalance().select("key", "due_ns").name("few")
    few.write_black_hole().name("rough").with_min_accuracy(0.1)
    numbers.select("key").name("keys").write_black_hole().name("fine").with_min_accuracy(0.5)
    return job.plan(2)


def shed(folder: Path) -> tuple[ExecutionGraph, PartReading]:
    """Return what was read of a job that shed from its beginning to its end."""
    graph = plan()
    job = EmbeddedJob(JobPlan("drops", graph, OPTIONS, folder), clock=SystemClock())
    job.attempt.set_keep(RATES)
    assert job.attempt.proceed(lambda: False, None, None) is None
    read = read_part(job.build, SystemClock().monotonic_ns())
    job.attempt.finish()
    return graph, read


def snapshot(graph: ExecutionGraph, read: PartReading, *, as_sent: bool = False) -> ClusterSnapshot:
    reading = ReadingMerger(graph, OPTIONS).merge(SECOND_NS, {"here": read})
    return cluster_snapshot("drops", 1, None, reading, MACHINE, "here", as_sent=as_sent)


def test_what_a_branch_sheds_is_counted_for_the_edge_behind_it(tmp_path: Path) -> None:
    graph, read = shed(tmp_path)
    edge = [graph.node(each.consumer).name for each in graph.edges if not each.chained].index("few")
    counted, sent = read.dropped[read.dropped["edge"] == edge], read.sent[read.sent["edge"] == edge]
    assert counted["kept"].tolist() == sent["rows"].tolist() and len(counted) == 2
    whole = snapshot(graph, read)
    assert whole.outputs.records_out is not None and whole.outputs.dropped is not None
    assert whole.instances.records_in is not None
    # A third of what the source kept went on.
    own = whole.outputs.edge == edge
    taken = whole.instances.records_in[whole.tasks.is_source[whole.instances.task]]
    assert whole.outputs.records_out[own].sum() == pytest.approx(taken.sum())
    assert whole.outputs.dropped[own].sum() == pytest.approx(counted["shed"].sum())
    few = [name.startswith("few") for name in whole.tasks.name].index(True)
    share = counted["shed"].sum() / taken.sum()
    assert shed_shares(whole)[few] == pytest.approx(share) and 0.6 < share < 0.73
    plain = snapshot(graph, read, as_sent=True).outputs
    assert plain.dropped is None and plain.records_out is not None
    assert plain.records_out[own].tolist() == sent["rows"].tolist()


def test_drops_travel(tmp_path: Path) -> None:
    _, read = shed(tmp_path)
    message = ms.decode_for_head(ms.encode(said(machine(1), read)))
    assert isinstance(message, ms.Readings)
    again = part_of(message)
    assert again is not None and again.dropped.tolist() == read.dropped.tolist() != []


def test_drops_are_those_of_the_window_and_of_filters_behind_a_branch_in_proportion(tmp_path: Path) -> None:
    graph, read = shed(tmp_path)
    edge = [graph.node(each.consumer).name for each in graph.edges if not each.chained].index("few")
    merger = ReadingMerger(graph, OPTIONS)
    first = merger.merge(0, {"here": replace(read, dropped=np.array([(edge, 0, 10.0, 30.0)], DROPPED))})
    # Until then nothing was dropped at the second instance; a filter passes one row of four that are kept.
    dropped = np.array([(edge, 0, 90.0, 110.0), (edge, 1, 8.0, 0.0)], DROPPED)
    sent, instances = read.sent.copy(), read.instances.copy()
    sent["rows"][(sent["edge"] == edge) & (sent["number"] == 0)] += 20
    instances["input_wait_ns"] += 5e9
    later = replace(read, time_ns=read.time_ns + 5 * SECOND_NS, instances=instances, sent=sent, dropped=dropped)
    last = merger.merge(5 * SECOND_NS, {"here": later})
    outputs = cluster_snapshot("drops", 2, first, last, MACHINE, "here").outputs
    own = outputs.edge == edge
    assert outputs.dropped is not None and outputs.records_out is not None
    assert outputs.dropped[own].tolist() == pytest.approx([20.0, 8.0])
    assert outputs.records_out[own].tolist() == pytest.approx([40.0, 8.0])


def test_what_is_dropped_by_keys_at_its_consumer_is_dropped_of_all_that_was_sent(tmp_path: Path) -> None:
    graph, read = shed(tmp_path)
    few = next(row for row, task in enumerate(graph.tasks) if graph.name(task).startswith("few"))
    instances = read.instances.copy()
    mine = instances["task"] == few
    instances["shed"][mine] = [30.0, 10.0]
    instances["records_in"][mine] = [50.0, 70.0]
    seen = snapshot(graph, replace(read, instances=instances, dropped=np.zeros(0, DROPPED)))
    assert seen.outputs.dropped is not None and seen.outputs.records_out is not None
    into = seen.edges.consumer[seen.outputs.edge] == few
    np.testing.assert_allclose(seen.outputs.dropped[into], 0.25 * seen.outputs.records_out[into])
    assert shed_shares(seen)[few] == pytest.approx(0.25)
