"""What reporters do to the truth: windows, delay, noise, gaps, and lag as a Kafka client has it."""

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.curves import Constant, Steps
from penstock.benchmarks.papers.cluster_model.spec import QuerySpec
from penstock.model.snapshot_bytes import from_bytes, to_bytes
from tests.benchmarks.papers.cluster_model.policies import scripted
from tests.benchmarks.papers.cluster_model.small import (
    application,
    cluster_spec,
    edge,
    machine,
    ran,
    service,
    source,
    state,
    task,
)


def three(rate: object = 100.0, reports: dict[str, float] | None = None, **given: object):  # type: ignore[no-untyped-def]
    return cluster_spec(
        [
            task("read", parallelism=2),
            task("map", 0.004, parallelism=2, service="s", calls=0.1),
            task("count", 0.002, is_keyed=True, state=state(), initial_managed_bytes=158 * 2.0**20),
        ],
        [edge("read", "map"), edge("map", "count", exchange="hash")],
        [source("read", rate, (1.0, 0.8, 1.2), target_rate=True)],  # type: ignore[arg-type]
        [machine("one"), machine("two")],
        [application(cores=2.0, memory_bytes=2e9, heap_bytes=1e9)],
        reports=reports,
        services=[service("s", Constant(0.001))],
        queries=[QuerySpec(name="q", task="count", priority=2.0, minimum_accuracy=0.4)],
        **given,
    )


def test_a_snapshot_has_every_column_and_survives_its_journey() -> None:
    _, run = ran(three(), 40, [scripted()])
    snapshot = run.records[-1].snapshot
    assert from_bytes(to_bytes(snapshot)).as_dict() == snapshot.as_dict()
    plain = snapshot.as_dict()
    for group, columns in plain.items():
        if isinstance(columns, dict) and group not in ("buffers", "affinities", "refusals"):
            missing = {name for name, values in columns.items() if values is None}
            # A thread of this cluster works as long as its instances do.
            assert missing <= {"working_ns"}, (group, missing)
    assert snapshot.tasks.is_source.tolist() == [True, False, False]
    assert snapshot.tasks.is_sink.tolist() == [False, False, True]
    assert snapshot.tasks.target_rate[0] == 100.0 and np.isnan(snapshot.tasks.target_rate[1])  # type: ignore[index]
    assert snapshot.number == len(run.records) and snapshot.window_s == 5.0


def test_figures_are_those_of_the_window() -> None:
    _, run = ran(three(), 40, [scripted(period_s=10.0)])
    instances = run.records[-1].snapshot.instances
    assert instances.records_in.sum() == pytest.approx(3 * 1000, rel=0.01)  # type: ignore[union-attr]
    wall = sum(
        getattr(instances, name)
        for name in ("busy_ns", "remote_wait_ns", "core_wait_ns", "input_wait_ns", "output_wait_ns")
    )
    np.testing.assert_allclose(wall, 1e10, rtol=1e-9)
    partitions = run.records[-1].snapshot.partitions
    np.testing.assert_allclose(partitions.appended, np.array([1.0, 0.8, 1.2]) / 3 * 1000, rtol=1e-6)  # type: ignore[arg-type]
    np.testing.assert_allclose(partitions.consumed, partitions.appended, rtol=0.01)  # type: ignore[arg-type]
    assert partitions.instance.tolist() == [0, 1, 0]


def test_cpu_is_what_was_obtained_not_what_was_wanted() -> None:
    spec = cluster_spec(
        [task("read"), task("map", 0.01, parallelism=4)], [edge("read", "map")], [source("read", 1000.0)]
    )
    _, run = ran(spec, 60, [scripted()])
    snapshot = run.records[-1].snapshot
    assert snapshot.machines.cpu_percent[0] == pytest.approx(100.0, rel=0.01)  # type: ignore[index]
    assert snapshot.instances.cpu_ns[1:].tolist() == pytest.approx([1.25e9] * 4, rel=0.01)  # type: ignore[index]


def test_reports_are_late() -> None:
    rate = Steps([(0, 100.0), (30, 200.0)])
    for late_s, first in ((0.0, 35.0), (6.0, 40.0)):
        _, run = ran(three(rate, {"late_s": late_s}), 60, [scripted()])
        risen = [r.time_s for r in run.records if r.snapshot.instances.records_in[:2].sum() > 550]  # type: ignore[index]
        assert risen[0] == first
        assert run.records[-1].snapshot.time_s == 60.0 - late_s


def test_figures_are_off_by_the_noise() -> None:
    _, run = ran(three(reports={"noise_share": 0.05}), 800, [scripted()], step_s=1.0)
    rows = np.array([record.snapshot.instances.records_in[4] for record in run.records[10:]])  # type: ignore[index]
    assert rows.mean() == pytest.approx(500, rel=0.02)
    assert rows.std() == pytest.approx(25, rel=0.2)


def test_as_many_reports_are_missing_as_are_said_to_be() -> None:
    _, run = ran(three(reports={"missing_probability": 0.1}), 800, [scripted()], step_s=1.0)
    gone = np.array([np.isnan(record.snapshot.instances.busy_ns) for record in run.records])  # type: ignore[arg-type]
    count = gone.size
    assert abs(gone.sum() - 0.1 * count) < 4 * np.sqrt(count * 0.09)
    # All figures of an instance are in one report.
    for record in run.records[:50]:
        instances = record.snapshot.instances
        np.testing.assert_array_equal(np.isnan(instances.busy_ns), np.isnan(instances.records_in))  # type: ignore[arg-type]


def test_the_lag_of_a_client_is_its_largest_of_the_last_windows() -> None:
    rate = Steps([(0, 2000.0), (20, 0.0)])
    spec = cluster_spec(
        [task("read", poll_rows_per_s=1000.0)], (), [source("read", rate)], reports={"lag_window_s": 30.0}
    )
    _, run = ran(spec, 120, [scripted(period_s=1.0)])
    lag = {record.time_s: record.snapshot.partitions.lag_max[0] for record in run.records}  # type: ignore[index]
    truth = dict(zip(run.series.times_s, run.series.task("lag", "read"), strict=True))
    assert lag[15.0] == pytest.approx(truth[15.0], rel=0.05)
    # The log is empty again after 40 s, and the client still shows what was there before 30 s.
    assert truth[45.0] == 0 and lag[45.0] == pytest.approx(20_000, rel=0.05)
    assert lag[59.0] == pytest.approx(20_000, rel=0.05) and lag[61.0] < 11_000
    assert lag[100.0] == 0
    # A reporter averages what the client shows.
    _, averaged = ran(spec, 30, [scripted(period_s=10.0)])
    assert averaged.records[0].snapshot.partitions.lag_max[0] == pytest.approx(5500, rel=0.05)  # type: ignore[index]


def test_machines_and_applications_appear_when_they_join() -> None:
    spec = cluster_spec(
        [task("read"), task("late", 0.001, application="second")],
        (),
        [source("read", 10.0), source("late", 10.0)],
        [machine("one"), machine("two", joins_s=22.0)],
        [application("app"), application("second", starts_s=12.0)],
    )
    _, run = ran(spec, 40, [scripted()])
    machines = [len(record.snapshot.machines) for record in run.records]
    tasks = [len(record.snapshot.tasks) for record in run.records]
    assert machines == [1, 1, 1, 1, 2, 2, 2, 2]
    assert tasks == [1, 1, 2, 2, 2, 2, 2, 2]
    assert run.records[-1].snapshot.instances.age_s[1] == pytest.approx(28.0)  # type: ignore[index]


def test_latency_is_queue_and_service() -> None:
    spec = cluster_spec(
        [task("read", linger_s=0.0), task("map", 0.01, queue_rows=100.0)],
        [edge("read", "map")],
        [source("read", 200.0)],
    )
    _, run = ran(spec, 60, [scripted()])
    instances = run.records[-1].snapshot.instances
    assert instances.latency_ms[1] == pytest.approx(100 / 100 * 1e3 + 10, rel=0.02)  # type: ignore[index]
    assert instances.emit_latency_ms[1] >= instances.latency_ms[1]  # type: ignore[index]


def test_sampled_distances_tell_what_a_cache_of_any_size_hits() -> None:
    held = state(
        initial_keys=1e5, new_key_share=0.0, retention_s=1e12, access_zipf=0.8, hit_s=0.0, miss_s=0.0, put_s=0.0
    )
    spec = cluster_spec(
        [
            task("read"),
            task("count", 1e-6, parallelism=2, is_keyed=True, state=held, initial_managed_bytes=128 * 2.0**20),
        ],
        [edge("read", "count", exchange="hash")],
        [source("read", 5000.0)],
    )
    cluster, run = ran(spec, 300, [scripted(period_s=60.0)], step_s=1.0)
    seen = run.records[-1].snapshot
    hits = seen.reuse.distance_bytes <= cluster.states[1].cached_keys[0] * held.key_bytes  # type: ignore[operator]
    estimated = seen.reuse.accesses[hits].sum() / seen.reuse.accesses.sum()  # type: ignore[index,union-attr]
    instances = seen.instances
    counted = instances.cache_hits[1] / (instances.cache_hits[1] + instances.cache_misses[1])  # type: ignore[index]
    assert seen.reuse.accesses.sum() == pytest.approx(300_000, rel=0.1)  # type: ignore[union-attr]
    assert 0.2 < counted < 0.95 and estimated == pytest.approx(counted, abs=0.05)
