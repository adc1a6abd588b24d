"""Known answers of the fluid: slopes of lag, conservation, shares of a core, where back-pressure stops."""

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant, Steps
from tests.benchmarks.papers.cluster_model.small import cluster_spec, edge, machine, ran, source, task


@pytest.mark.parametrize("step_s", [0.05, 0.25, 1.0])
@pytest.mark.parametrize(("first_s", "second_s"), [(0.010, 0.005), (0.005, 0.010), (0.0, 0.02), (0.010, 0.0099)])
def test_lag_grows_by_rate_less_capacity(first_s: float, second_s: float, step_s: float) -> None:
    spec = cluster_spec(
        [
            task("read"),
            task("map", first_s, queue_rows=100.0),
            task("count", second_s, is_keyed=True, queue_rows=100.0),
        ],
        [edge("read", "map"), edge("map", "count", exchange="hash")],
        [source("read", 100.0)],
    )
    _, run = ran(spec, 40 if step_s < 0.2 else 160, step_s=step_s)
    lag = run.series.task("lag", "read")
    slope = (lag[-1] - lag[-21]) / 20
    capacity = 1 / (first_s + second_s)
    assert slope == pytest.approx(100.0 - capacity, rel=0.005)
    assert run.series.task("processed", "count")[-20:].mean() == pytest.approx(capacity, rel=0.005)


def test_below_capacity_nothing_waits() -> None:
    spec = cluster_spec([task("read"), task("map", 0.01)], [edge("read", "map")], [source("read", 80.0)])
    _, run = ran(spec, 60)
    assert run.series.task("lag", "read")[-1] == pytest.approx(0.0, abs=1e-6)
    assert run.series.task("busy_s", "map")[-1] == pytest.approx(0.8, rel=1e-6)


def check_conservation(cluster: Cluster) -> None:
    """What came into each edge is in its consumers' inputs, on its way, or taken."""
    totals, top, stores = cluster.totals, cluster.top, cluster.stores
    for number, item in enumerate(cluster.spec.edges):
        first = cluster.graph.output_slot[number]
        slots = slice(first, first + cluster.spec.tasks[cluster.graph.producer[number]].most_parallelism)
        sent = totals.records_out[slots].sum() - totals.dropped[slots].sum()
        mine = top.input_edge == number
        waiting = (stores.queue + stores.flying)[mine].sum()
        consumed = cluster.consumed[cluster.graph.input_slot[number] :][
            : cluster.spec.tasks[cluster.graph.consumer[number]].most_parallelism
        ].sum()
        assert sent == pytest.approx(waiting + consumed, rel=1e-9, abs=1e-6), item
    for task_number, _ in enumerate(cluster.spec.tasks):
        mine = top.task == task_number
        rows = totals.records_in[top.slot[mine]].sum()
        if cluster.graph.is_source[task_number]:
            log = cluster.log
            ours = log.task == task_number
            assert (log.end_offset - log.position)[ours].min() >= -1e-6
            assert rows == pytest.approx(log.fetched[ours].sum(), rel=1e-9, abs=1e-6)
            continue
        edges = np.flatnonzero(cluster.graph.consumer == task_number)
        consumed = sum(
            cluster.consumed[cluster.graph.input_slot[number] :][
                : cluster.spec.tasks[task_number].most_parallelism
            ].sum()
            for number in edges
        )
        assert rows == pytest.approx(consumed, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_every_row_is_somewhere(seed: int) -> None:
    random = np.random.default_rng(seed)
    costs = random.uniform(0.0005, 0.004, 4)
    spec = cluster_spec(
        [
            task("a", parallelism=2),
            task("b"),
            task("join", costs[0], parallelism=3, is_keyed=True, zipf=1.0, queue_rows=200.0),
            task("left", costs[1], parallelism=2, queue_rows=100.0),
            task("right", costs[2], window_s=5.0, fire_cpu_s=0.001, queue_rows=100.0),
            task("end", costs[3], queue_rows=50.0),
        ],
        [
            edge("a", "join", exchange="hash", delay_s=0.02),
            edge("b", "join", exchange="hash", selectivity=2.0),
            edge("join", "left", selectivity=0.5),
            edge("join", "right"),
            edge("left", "end", delay_s=0.05),
            edge("right", "end", selectivity=0.1),
        ],
        [
            source("a", Steps([(0, random.uniform(50, 900)), (30, 100.0)]), (1.0, 1.2, 0.8), is_random=True),
            source("b", random.uniform(10, 300)),
        ],
        [machine("one", cores=1.0), machine("two", cores=2.0, foreign_cores=Constant(0.7))],
    )
    cluster, run = ran(spec, 40, seed=seed, step_s=float(random.choice([0.05, 0.2, 1.0])))
    check_conservation(cluster)
    cluster.edge_keep[2] = 0.4
    cluster.source_keep[1] = 1.0
    cluster.advance(50)
    check_conservation(cluster)
    capacity = cluster.capacity
    assert (cluster.stores.queue <= capacity * 1.0 + 1e-6).all() or (cluster.edge_keep < 1).any()
    assert run.series.task("processed", "end").sum() > 0


@pytest.mark.parametrize("seed", range(8))
def test_time_shares_add_up_to_the_wall_clock(seed: int) -> None:
    random = np.random.default_rng(seed)
    spec = cluster_spec(
        [
            task("read"),
            task("map", random.uniform(0.001, 0.02), parallelism=2, queue_rows=100.0),
            task("sum", random.uniform(0.001, 0.02), queue_rows=100.0, window_s=2.0, fire_cpu_s=0.002),
            task("end", random.uniform(0.001, 0.02), queue_rows=100.0),
        ],
        [edge("read", "map"), edge("map", "sum"), edge("sum", "end")],
        [source("read", random.uniform(10, 200))],
        [machine("tm", cores=float(random.integers(1, 3)))],
    )
    cluster, _ = ran(spec, 50, seed=seed)
    totals, slot = cluster.totals, cluster.top.slot
    parts = [totals.busy_s, totals.remote_s, totals.core_wait_s, totals.input_wait_s, totals.output_wait_s]
    for part in parts:
        assert (part[slot] >= -1e-9).all()
    np.testing.assert_allclose(sum(part[slot] for part in parts), 50.0, rtol=1e-9)
    assert totals.machine_cpu_s.sum() <= 50.0 * cluster.spec.machines[0].cores * (1 + 1e-9)


def test_four_hungry_instances_share_one_core() -> None:
    spec = cluster_spec(
        [task("read"), task("map", 0.01, parallelism=4, queue_rows=10.0)],
        [edge("read", "map")],
        [source("read", 1000.0)],
    )
    cluster, _ = ran(spec, 50)
    mine = cluster.top.slot[cluster.top.task == 1]
    busy, waited = cluster.totals.busy_s[mine] / 50, cluster.totals.core_wait_s[mine] / 50
    np.testing.assert_allclose(busy, 0.25, atol=0.005)
    # Busy alone never says that they are saturated.
    np.testing.assert_allclose(busy + waited, 1.0, atol=0.01)


def test_an_instance_has_one_core_at_most() -> None:
    spec = cluster_spec(
        [task("read"), task("map", 0.01)],
        [edge("read", "map")],
        [source("read", 1000.0)],
        [machine("tm", cores=4.0)],
    )
    _, run = ran(spec, 20)
    assert run.series.task("processed", "map")[-1] == pytest.approx(100.0, rel=1e-3)


def test_foreign_load_takes_its_share() -> None:
    tasks, edges = [task("read"), task("map", 0.01)], [edge("read", "map")]
    for foreign, rows in ((0.3, 70.0), (1.0, 50.0)):
        tm = machine("tm", foreign_cores=Constant(foreign))
        _, run = ran(cluster_spec(tasks, edges, [source("read", 1000.0)], [tm]), 20)
        assert run.series.task("processed", "map")[-1] == pytest.approx(rows, rel=1e-3)
        assert run.series.table("machine_cpu_s")[-1, 0] == pytest.approx(1.0, rel=1e-3)


def test_back_pressure_stops_all_outputs_above_the_bottleneck_and_nothing_else() -> None:
    spec = cluster_spec(
        [
            task("read"),
            task("split", 0.001, queue_rows=100.0),
            task("slow", 0.02, queue_rows=100.0),
            task("fast", 0.001, queue_rows=100.0),
            task("other"),
            task("free", 0.001),
        ],
        [edge("read", "split"), edge("split", "slow"), edge("split", "fast"), edge("other", "free")],
        [source("read", 200.0), source("other", 200.0)],
        [machine("tm", cores=8.0)],
    )
    cluster, run = ran(spec, 60)
    # The full edge to slow stops the edge to fast as well, and then the log grows.
    assert run.series.task("processed", "fast")[-1] == pytest.approx(50.0, rel=0.01)
    assert run.series.task("lag", "read")[-1] - run.series.task("lag", "read")[-11] == pytest.approx(1500, rel=0.01)
    assert run.series.task("processed", "free")[-1] == pytest.approx(200.0, rel=0.01)
    shares = cluster.totals.output_wait_s / cluster.time_s
    by_task = {item.name: shares[cluster.graph.task_slot[number]] for number, item in enumerate(spec.tasks)}
    assert by_task["split"] > 0.8 and by_task["read"] > 0.8
    assert by_task["slow"] == by_task["fast"] == by_task["other"] == 0.0


def test_shares_of_buckets_are_zipf() -> None:
    spec = cluster_spec(
        [task("read"), task("count", 0.0001, parallelism=4, is_keyed=True, zipf=1.2, key_groups=64)],
        [edge("read", "count", exchange="hash")],
        [source("read", 1000.0)],
    )
    cluster, _ = ran(spec, 50)
    weights = np.arange(1, 65) ** -1.2
    rows = np.sort(cluster.totals.bucket_records)[::-1]
    np.testing.assert_allclose(rows / rows.sum(), weights / weights.sum(), rtol=1e-6)
    mine = cluster.top.slot[cluster.top.task == 1]
    owned = np.bincount(cluster.layout.owners[1], cluster.totals.bucket_records, 4)
    np.testing.assert_allclose(cluster.totals.records_in[mine], owned, rtol=1e-6)


def test_the_hottest_instance_bounds_a_keyed_task() -> None:
    spec = cluster_spec(
        [task("read"), task("count", 0.01, parallelism=4, is_keyed=True, zipf=1.0, queue_rows=100.0)],
        [edge("read", "count", exchange="hash")],
        [source("read", 1000.0)],
        [machine("tm", cores=8.0)],
    )
    cluster, run = ran(spec, 60)
    hottest = cluster.top.input_share.max()
    assert run.series.task("processed", "count")[-20:].mean() == pytest.approx(100.0 / hottest, rel=0.01)


def test_windows_emit_at_their_ends() -> None:
    spec = cluster_spec(
        [task("read"), task("sum", 0.0001, window_s=10.0), task("end", 0.0001)],
        [edge("read", "sum"), edge("sum", "end", selectivity=0.5)],
        [source("read", 100.0)],
    )
    _, run = ran(spec, 61)
    ends = run.series.task("processed", "end")
    assert ends.sum() == pytest.approx(60 * 100 * 0.5, rel=0.01)
    assert np.flatnonzero(ends > 1).size <= 12


def test_a_shedder_drops_each_row_with_its_probability() -> None:
    spec = cluster_spec([task("read"), task("map", 0.0001)], [edge("read", "map")], [source("read", 1000.0)])
    cluster = Cluster(spec, 3, 0.1)
    cluster.source_keep[0] = 0.8
    cluster.edge_keep[0] = 0.5
    cluster.advance(100)
    kept = cluster.totals.records_in[cluster.top.slot[0]]
    assert abs(kept - 80_000) < 4 * np.sqrt(100_000 * 0.8 * 0.2) and kept != 80_000
    passed = cluster.totals.records_in[cluster.top.slot[1]]
    assert abs(passed - kept / 2) < 4 * np.sqrt(kept / 4)
    check_edges = cluster.totals.records_out.sum() - cluster.totals.dropped.sum()
    assert check_edges == pytest.approx(passed + cluster.stores.queue.sum(), rel=1e-9)


def test_arrivals_are_a_poisson_process_if_asked_for() -> None:
    spec = cluster_spec([task("read")], (), [source("read", 100.0, is_random=True)])
    _, run = ran(spec, 400, seed=5)
    rows = run.series.task("appended", "read")
    assert rows.mean() == pytest.approx(100.0, abs=2.0)
    assert rows.var() == pytest.approx(100.0, rel=0.25)


def use_of_what_bounds(seed: int, step_s: float, until_s: float) -> tuple[float, float]:
    """Return the rate of an overloaded chain on four machines, and the use of its busiest machine or instance."""
    random = np.random.default_rng(seed)
    spec = cluster_spec(
        [
            task("read", parallelism=2),
            task("parse", random.uniform(5e-4, 2e-3), parallelism=6, queue_rows=200.0),
            task("count", random.uniform(2e-4, 1e-3), parallelism=8, is_keyed=True, zipf=0.8, queue_rows=200.0),
            task("call", random.uniform(1e-4, 5e-4), parallelism=2, queue_rows=200.0),
            task("write", random.uniform(1e-4, 5e-4), parallelism=2, queue_rows=200.0),
        ],
        [edge("read", "parse"), edge("parse", "count", exchange="hash"), edge("count", "call"), edge("call", "write")],
        [source("read", 50_000.0, (1.0, 1.0))],
        [machine(f"tm{number}", cores=2.0) for number in range(4)],
    )
    cluster, run = ran(spec, until_s, seed=seed, step_s=step_s)
    machines = run.series.table("machine_cpu_s")[-5:].mean(axis=0) / 2.0
    before = cluster.totals.busy_s.copy()
    cluster.advance(until_s + 5)
    busiest = ((cluster.totals.busy_s - before) / 5).max()
    return float(run.series.task("processed", "write")[-5:].mean()), float(max(machines.max(), busiest))


def test_an_overloaded_cluster_uses_up_what_bounds_it() -> None:
    """Some machine or instance has no time left, whatever the steps; where shares swing a few percent may be lost."""
    short, long = (np.array([use_of_what_bounds(seed, *how) for seed in range(10)]) for how in ((0.1, 20), (1.0, 80)))
    for found in (short, long):
        assert found[:, 1].min() > 0.9 and np.median(found[:, 1]) > 0.99
    np.testing.assert_allclose(short[:, 0], long[:, 0], rtol=0.1)
