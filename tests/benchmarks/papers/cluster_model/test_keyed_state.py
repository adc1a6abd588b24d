"""State: it grows with keys, shrinks by retention; caches fill and are cold after a move; memtables stall."""

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.keyed_state import KeyedState
from penstock.model.memory_levels import MIB, split
from tests.benchmarks.papers.cluster_model.small import cluster_spec, edge, machine, ran, source, state, task

GB = 1e9


def one_task(rate: float, parallelism: int = 1, managed: float = 256 * MIB, cpu_s: float = 1e-5, **given: object):  # type: ignore[no-untyped-def]
    return cluster_spec(
        [
            task("read"),
            task(
                "count",
                cpu_s,
                parallelism=parallelism,
                is_keyed=True,
                initial_managed_bytes=managed,
                state=state(**given),
            ),
        ],
        [edge("read", "count", exchange="hash")],
        [source("read", rate)],
        [machine("tm", cores=8.0)],
    )


def test_state_grows_with_new_keys_and_shrinks_by_retention() -> None:
    spec = one_task(1000.0, new_key_share=0.5, most_keys=1e12, retention_s=50.0, key_bytes=100.0)
    cluster = Cluster(spec, 0, 1.0)
    cluster.advance(5)
    # 500 keys a second, of which few have gone again.
    assert cluster.states[1].keys.sum() == pytest.approx(500 * 50 * (1 - np.exp(-5 / 50)), rel=0.05)
    cluster.advance(400)
    assert cluster.states[1].keys.sum() == pytest.approx(500 * 50, rel=0.02)
    assert cluster.states[1].bucket_bytes.sum() == pytest.approx(500 * 50 * 100, rel=0.02)


def test_a_bounded_set_of_keys_is_never_exceeded() -> None:
    spec = one_task(10_000.0, new_key_share=1.0, most_keys=5000.0, retention_s=1e9, gets=0.0)
    cluster, _ = ran(spec, 60, step_s=1.0)
    assert 4900 < cluster.states[1].keys.sum() <= 5000 + 1e-6


def test_a_cache_fills_and_then_hits_as_its_curve_says() -> None:
    given = {"initial_keys": 100_000.0, "new_key_share": 0.0, "retention_s": 1e12, "miss_s": 1e-4, "puts": 0.0}
    spec = one_task(4000.0, **given)
    cluster, _ = ran(spec, 10, step_s=0.5)
    cold = cluster.access[1].hit_rate[0]
    cluster.advance(300)
    warm = cluster.access[1].hit_rate[0]
    room = cluster.states[1].room(np.array([256.0 * MIB]), np.array([100_000.0]))[0]
    assert cold < 0.5 < warm
    assert warm == pytest.approx(min(1.0, room / 100_000), abs=0.03)
    totals = cluster.totals
    assert totals.cache_hits.sum() + totals.cache_misses.sum() == pytest.approx(totals.records_in[32:].sum(), rel=1e-6)


def test_half_the_instances_with_twice_the_memory_hit_more() -> None:
    """(6; 316) against (12; 158): the share of each instance that is no use to keys comes half as often."""
    given = {"initial_keys": 1e6, "new_key_share": 0.0, "retention_s": 1e12, "key_bytes": 2000.0}
    spec = state(**given)
    rates = []
    for instances, managed in ((12, 158.0 * MIB), (6, 316.0 * MIB)):
        held = KeyedState(spec, np.full(120, 1 / 120), 12)
        owners = np.arange(120) % instances
        memory = np.full(instances, managed)
        held.cached_keys[:instances] = held.room(memory, held.keys_of(owners, instances))
        rates.append(held.costs(owners, memory).hit_rate.mean())
    assert rates[1] > rates[0] + 0.02


def test_the_memtable_bounds_writes_where_it_is_small() -> None:
    """128 MiB have a memtable of 32, from 256 MiB on it is 64 (docs/design/papers/justin-ds2.md 6); 32 stalls."""
    given = {"initial_keys": 1000.0, "new_key_share": 0.0, "retention_s": 1e12, "gets": 0.0, "put_s": 1e-6}
    rates = {}
    for mib in (128, 256, 512, 1024):
        cluster, run = ran(one_task(1e6, managed=mib * MIB, **given), 30, step_s=0.5)
        rates[mib] = run.series.task("processed", "count")[-10:].mean()
        memtable = float(split(np.array([float(mib * MIB)]))[0][0])
        written_s = cluster.spec.tasks[1].state.flush_s + memtable / cluster.spec.tasks[1].state.flush_bytes_per_s  # type: ignore[union-attr]
        assert rates[mib] == pytest.approx(memtable / 1000.0 / written_s, rel=0.01)
        stalled = cluster.totals.stall_s[32]
        assert 0 < stalled <= cluster.totals.busy_s[32]
    assert rates[128] < 0.85 * rates[256]
    assert rates[256] == pytest.approx(rates[512]) == pytest.approx(rates[1024])


def test_waits_for_storage_are_busy_but_take_no_core() -> None:
    given = {"initial_keys": 1e7, "new_key_share": 0.0, "retention_s": 1e12, "miss_s": 0.01, "puts": 0.0, "hit_s": 0.0}
    cluster, run = ran(one_task(1000.0, managed=64 * MIB, **given), 60, step_s=0.5)
    slot = cluster.top.slot[1]
    assert run.series.task("processed", "count")[-1] == pytest.approx(100.0, rel=0.05)
    assert cluster.totals.busy_s[slot] == pytest.approx(60, rel=0.05)
    assert cluster.totals.cpu_s[slot] < 0.1
