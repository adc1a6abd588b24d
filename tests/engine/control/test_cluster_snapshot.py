"""An embedded run fills the metric contract: its times add up, and its rows are those of the ledger."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.dsl.aggregates import count
from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.control.cluster_snapshot import cluster_snapshot
from penstock.engine.control.reading import Reading, read_counters
from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.ledger import read_ledger
from penstock.model.config import LoopOptions
from penstock.model.expressions import col
from penstock.model.memory_levels import MAX_LEVEL, MIB, NO_LEVEL
from penstock.model.snapshot import ClusterSnapshot, MachineColumns
from penstock.model.snapshot_bytes import from_bytes, to_bytes

ROWS = 200_000
CLOCK = SystemClock()
OPTIONS = LoopOptions(batch_rows=2_000, channel_bytes=100_000)
MACHINE = MachineColumns(("here",), np.array([1.0]))
ACTIVITIES = ("busy_ns", "remote_wait_ns", "core_wait_ns", "input_wait_ns", "output_wait_ns")


def make(folder: Path, parallelism: int = 2, options: LoopOptions = OPTIONS) -> EmbeddedJob:
    """Three tasks: a source, a map behind a rebalance, and a keyed count with its sink."""
    job = Job()
    table = pa.table({"key": np.arange(ROWS) % 1000, "value": np.arange(ROWS)})
    sink = MemorySink()
    rows = read_memory(table, job=job).rebalance().map_batches(lambda batch: batch).filter(col("value") % 2 == 0)
    rows.key_by("key").agg(rows=count()).write(sink, mode="changelog").with_min_accuracy(0.7).with_priority(5)
    return EmbeddedJob(JobPlan("test", job.plan(parallelism), options, folder), clock=CLOCK)


def ran(folder: Path) -> tuple[EmbeddedJob, list[Reading]]:
    """Run to the end, reading after every so many steps of the loop."""
    job = make(folder)
    started_ns = CLOCK.monotonic_ns() - job.metrics().elapsed_ns
    readings: list[Reading] = []
    steps = 0

    def look() -> bool:
        nonlocal steps
        steps += 1
        if steps % 50 == 0:
            readings.append(read_counters(job.build, OPTIONS, started_ns, CLOCK.monotonic_ns()))
        return False

    assert job.attempt.proceed(look, None, None) is None
    job.attempt.finish()
    readings.append(read_counters(job.build, OPTIONS, started_ns, CLOCK.monotonic_ns()))
    return job, readings


def snapshots(readings: list[Reading]) -> list[ClusterSnapshot]:
    pairs = zip([None, *readings[:-1]], readings, strict=True)
    return [cluster_snapshot("test", number, before, after, MACHINE) for number, (before, after) in enumerate(pairs)]


def test_times_add_up_to_the_window(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    found = snapshots(readings)
    assert len(found) > 3
    walls = [sum(getattr(snapshot.instances, name) for name in ACTIVITIES) for snapshot in found]
    windows_ns = np.array([snapshot.window_s * 1e9 for snapshot in found])
    # A machine that stands still between the time and what is counted moves it from a window to the next.
    assert np.median([abs(wall / length - 1).max() for wall, length in zip(walls, windows_ns, strict=True)]) < 0.02
    np.testing.assert_allclose(np.sum(walls, axis=0), windows_ns.sum(), rtol=0.2)
    busy = sum(snapshot.instances.busy_ns for snapshot in found)  # type: ignore[misc]
    assert (busy > 0).all()


def test_rows_of_edges_add_up_with_the_ledger(tmp_path: Path) -> None:
    job, readings = ran(tmp_path)
    whole = cluster_snapshot("test", 1, None, readings[-1], MACHINE)
    ledger = read_ledger(job.build)
    sent = np.bincount(whole.outputs.edge, whole.outputs.records_out)
    offered = np.bincount(whole.inputs.edge, whole.inputs.offered)
    assert sent.tolist() == [line.sent for line in ledger.edges]
    assert offered.tolist() == [line.received for line in ledger.edges]
    rows_in = np.bincount(whole.instances.task, whole.instances.records_in)
    by_operator = {line.operator: line.rows_in for line in ledger.operators}
    heads = [name.split(" -> ")[0] for name in whole.tasks.name]
    assert rows_in.tolist() == [by_operator[head] for head in heads] == [ROWS, ROWS, ROWS / 2]
    assert (whole.instances.queue_rows == 0).all() and not whole.instances.is_running.any()
    # Windows add up to the whole.
    parts = sum(snapshot.outputs.records_out for snapshot in snapshots(readings))  # type: ignore[misc]
    np.testing.assert_array_equal(parts, whole.outputs.records_out)


def test_a_row_waits_and_is_worked_on_for_no_longer_than_it_can_have_been_there(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    whole = cluster_snapshot("test", 1, None, readings[-1], MACHINE)
    own = whole.instances
    assert own.latency_ms is not None and own.records_in is not None and own.busy_ns is not None
    assert ((own.latency_ms > 0) & (own.latency_ms < whole.window_s * 1e3)).all()
    # Of what is full rows wait as well: those of a source are only worked on.
    fed = ~whole.tasks.is_source[own.task]
    served_ms = own.busy_ns / own.records_in / 1e6
    assert (own.latency_ms > served_ms)[fed].all()
    reads_ns = (own.latency_ms * own.records_in * 1e6)[~fed]
    assert (reads_ns < (OPTIONS.batch_rows * (own.busy_ns + own.output_wait_ns + own.core_wait_ns))[~fed]).all()


def test_latency_is_the_time_of_all_rows_by_those_that_were_taken_or_wait(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    first, last = replace(readings[0], time_ns=0), readings[-1]
    row_ns, taken = first.row_ns.copy(), first.records_in.copy()
    # 40 rows spent 6 s in all; 10 of another wait, and none was taken; 40 of a third wait, and one was; nothing came to
    # a fourth.
    row_ns[[2, 3, 4]] += 6e9
    taken[2] += 40
    taken[4] += 1
    waiting = np.array([0.0, 0.0, 0.0, 10.0, 40.0, 0.0])
    spent_ns = first.spent_ns.copy()
    spent_ns[:, 3] += last.time_ns
    second = replace(first, time_ns=last.time_ns, spent_ns=spent_ns, row_ns=row_ns, records_in=taken)
    second = replace(second, read_ns=first.read_ns + last.time_ns, queue_rows=waiting)
    latency_ms = cluster_snapshot("test", 1, first, second, MACHINE).instances.latency_ms
    assert latency_ms is not None
    np.testing.assert_allclose(latency_ms, [np.nan, np.nan, 150.0, 600.0, 150.0, np.nan])


def test_what_waits_is_what_was_sent_and_not_taken(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    for reading in readings[:-1]:
        snapshot = cluster_snapshot("test", 1, None, reading, MACHINE)
        offered = np.bincount(snapshot.inputs.instance, snapshot.inputs.offered, len(snapshot.instances))
        fed = ~snapshot.tasks.is_source[snapshot.instances.task]
        taken = offered - snapshot.instances.queue_rows
        # A batch may have been taken that no operator has counted yet.
        late = taken - snapshot.instances.records_in
        assert ((late >= 0) & (late <= 4_000))[fed].all()


def test_the_contract_says_what_the_job_is(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    snapshot = cluster_snapshot("test", 7, readings[0], readings[1], MACHINE)
    assert snapshot.tasks.is_source.tolist() == [True, False, False]
    assert snapshot.tasks.is_sink.tolist() == [False, False, True]
    assert snapshot.tasks.is_keyed.tolist() == snapshot.tasks.is_stateful.tolist() == [False, False, True]
    assert snapshot.edges.is_free.tolist() == [True, False]
    assert snapshot.instances.task.tolist() == [0, 0, 1, 1, 2, 2]
    assert snapshot.queries.task.tolist() == [2]
    assert (snapshot.queries.priority[0], snapshot.queries.minimum_accuracy[0]) == (5, 0.7)
    stateful = snapshot.tasks.is_stateful[snapshot.instances.task]
    np.testing.assert_array_equal(np.isnan(snapshot.instances.state_bytes), ~stateful)  # type: ignore[arg-type]
    assert snapshot.tasks.key_groups.tolist() == [128, 128, 128]
    assert snapshot.tasks.memory_level.tolist() == [NO_LEVEL, NO_LEVEL, MAX_LEVEL - 1]
    assert from_bytes(to_bytes(snapshot)).as_dict() == snapshot.as_dict()


def test_a_budget_of_state_is_the_memory_that_an_instance_has(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    bounded = replace(readings[0], state_budget=np.array([np.nan, np.nan, np.nan, np.nan, 320 * MIB, 320 * MIB]))
    snapshot = cluster_snapshot("test", 1, None, bounded, MACHINE)
    assert snapshot.tasks.memory_level.tolist() == [NO_LEVEL, NO_LEVEL, 1]
    np.testing.assert_array_equal(snapshot.instances.managed_bytes, bounded.state_budget)  # type: ignore[arg-type]
    job = make(tmp_path / "bounded")
    options = replace(OPTIONS, state_bytes=100 * MIB, key_groups=1)
    read = read_counters(job.build, options, 0, CLOCK.monotonic_ns())
    np.testing.assert_array_equal(read.state_budget, [0.0] * 4 + [100.0 * MIB] * 2)
    assert read.key_groups.tolist() == [2, 2, 2]
    for budget, level in ((100, 0), (199, 0), (200, 1), (400, 2), (30, 0)):
        given = replace(read, state_budget=np.array([0.0] * 4 + [float(budget * MIB)] * 2))
        assert cluster_snapshot("test", 1, None, given, MACHINE).tasks.memory_level[2] == level
    assert job.attempt.proceed(lambda: False, None, None) is None
    job.attempt.finish()


def test_an_instance_that_was_built_anew_has_its_own_age_and_no_counts(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    first, last = readings[0], readings[-1]
    ages = cluster_snapshot("test", 1, first, last, MACHINE).instances.age_s
    np.testing.assert_allclose(ages, last.time_ns / 1e9, rtol=0.05)  # type: ignore[arg-type]
    # The second instance of the map began half way between the readings, and has read more rows than the old one.
    since = (last.time_ns - first.time_ns) // 2
    spent, records = last.spent_ns.copy(), last.records_in.copy()
    spent[3] *= since / spent[3].sum()
    records[3] = 10 * ROWS
    sent = np.array([*last.sent[:3], 10.0 * ROWS])
    snapshot = cluster_snapshot("test", 1, first, replace(last, spent_ns=spent, records_in=records, sent=sent), MACHINE)
    own = snapshot.instances
    assert own.age_s is not None and own.settled_s is not None and own.records_in is not None
    assert own.age_s[3] == own.settled_s[3] == pytest.approx(since / 1e9)
    assert np.isnan(own.records_in).tolist() == [False, False, False, True, False, False]
    assert own.busy_ns is not None and np.isnan(own.busy_ns).tolist() == np.isnan(own.records_in).tolist()
    assert np.isnan(snapshot.outputs.records_out).tolist() == [False, False, False, True]  # type: ignore[arg-type]


def test_counters_that_ran_backwards_were_not_measured(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    first, last = readings[0], readings[-1]
    behind = replace(last, records_in=np.array([-1.0, *last.records_in[1:]]))
    records = cluster_snapshot("test", 1, first, behind, MACHINE).instances.records_in
    assert records is not None and np.isnan(records).tolist() == [True] + [False] * 5


def test_the_machine_is_the_one_it_runs_on(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    machines = MachineColumns(("there", "here"), [1.0, 2.0])
    assert cluster_snapshot("test", 1, None, readings[0], machines, "here").instances.machine.tolist() == [1] * 6
    with pytest.raises(ValueError, match="say on which machine the job runs: there, here"):
        cluster_snapshot("test", 1, None, readings[0], machines)
    with pytest.raises(ValueError, match="no machine 'nowhere'; choose from there, here"):
        cluster_snapshot("test", 1, None, readings[0], machines, "nowhere")


def test_what_nobody_measures_is_none(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    plain = cluster_snapshot("test", 1, None, readings[0], MACHINE).as_dict()
    unmeasured = {name for name, values in plain["instances"].items() if values is None}
    assert unmeasured == {
        "cpu_ns",
        "get_ms",
        "get_p90_ms",
        "put_ms",
        "flush_stall_ns",
        "emit_latency_ms",
    }
    assert not any(plain["outputs"]["dropped"]) and plain["machines"]["cpu_percent"] is None
    assert plain["partitions"]["instance"] == []


def test_the_same_reading_twice_is_no_window(tmp_path: Path) -> None:
    _, readings = ran(tmp_path)
    with pytest.raises(ValueError, match="longer than 0 s"):
        cluster_snapshot("test", 1, readings[0], readings[0], MACHINE)
