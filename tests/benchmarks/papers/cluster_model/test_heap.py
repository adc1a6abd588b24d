"""The heap: its formula, garbage that grows with what lives, kills and what they cost."""

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model import heap
from penstock.benchmarks.papers.cluster_model.curves import Steps
from tests.benchmarks.papers.cluster_model.small import application, cluster_spec, edge, ran, source, task


def test_garbage_costs_more_the_fuller_the_heap() -> None:
    live = np.array([100.0, 500.0, 900.0])
    got = heap.collection_s(np.full(3, 1e6), live, np.full(3, 1000.0), np.full(3, 1e-6))
    np.testing.assert_allclose(got, [1 / 9, 1.0, 9.0], rtol=1e-9)
    np.testing.assert_allclose(heap.collections(np.full(3, 1e6), live, np.full(3, 1000.0)), 1e6 / (1000 - live))
    assert heap.collection_s(np.array([1e6]), np.array([1.0]), np.array([np.inf]), np.array([1.0]))[0] == 0.0


def test_a_small_heap_slows_its_application_down() -> None:
    rows = []
    for heap_bytes in (1e9, 200e6, 110e6):
        app = application(
            heap_bytes=heap_bytes, live_base_bytes=100e6, allocated_bytes=1e5, gc_s_per_byte=1e-9, buffer_overhead=0.0
        )
        spec = cluster_spec(
            [task("read"), task("map", 1e-3)], [edge("read", "map")], [source("read", 1e4)], applications=[app]
        )
        cluster, run = ran(spec, 30)
        rows.append(run.series.task("processed", "map")[-1])
        garbage_s = 1e5 * 1e-9 * 100e6 / (heap_bytes - 100e6)
        # Both tasks allocate on the same core.
        assert rows[-1] == pytest.approx(1 / (1e-3 + 2 * garbage_s), rel=0.02)
        assert cluster.totals.gc_s[0] > 0
    assert rows[0] > rows[1] > rows[2]


def test_buffers_use_the_heap_and_kill_when_it_is_full() -> None:
    app = application(
        heap_bytes=150e6,
        live_base_bytes=100e6,
        buffer_overhead=2.0,
        restart_s=10.0,
        checkpoint_s=5.0,
        memory_bytes=1e9,
    )
    spec = cluster_spec(
        [task("read"), task("map", 1e-3, queue_rows=1e6)],
        [edge("read", "map", row_bytes=10_000.0)],
        [source("read", Steps([(0, 500.0), (60, 2000.0)]))],
        applications=[app],
    )
    cluster, run = ran(spec, 100)
    kills = np.array(run.series.table("kills"))[:, 0]
    assert kills[:60].sum() == 0 and kills[60:].sum() >= 1
    assert cluster.totals.machine_kills[0] == cluster.totals.application_kills[0]
    # What was read since the checkpoint comes again: more is fetched than the log's position says.
    assert cluster.log.fetched.sum() > cluster.log.position.sum()
    killed = int(np.flatnonzero(kills)[0])
    assert run.series.task("processed", "map")[killed + 2 : killed + 8].sum() == 0


def test_more_resident_than_was_given_kills() -> None:
    for memory_bytes, killed in ((400e6, False), (200e6, True)):
        app = application(memory_bytes=memory_bytes, nonheap_bytes=150e6, live_base_bytes=60e6)
        spec = cluster_spec([task("read")], (), [source("read", 10.0)], applications=[app])
        cluster, _ = ran(spec, 30)
        assert (cluster.totals.application_kills[0] > 0) == killed
        assert killed or cluster.resident[0] == pytest.approx(150e6 + 90e6 + 1e6)


def test_an_application_gets_no_more_cores_than_it_was_given() -> None:
    app = application(cores=0.5)
    spec = cluster_spec(
        [task("read"), task("map", 0.01)], [edge("read", "map")], [source("read", 1000.0)], applications=[app]
    )
    cluster, run = ran(spec, 50)
    assert run.series.task("processed", "map")[-1] == pytest.approx(50.0, rel=0.01)
    assert cluster.totals.throttled_s[0] == pytest.approx(25.0, rel=0.05)
