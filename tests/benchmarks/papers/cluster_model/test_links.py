"""Links: their limit, their delay, who shares them, and that rows on one machine use none."""

import numpy as np
import pytest

from tests.benchmarks.papers.cluster_model.small import cluster_spec, edge, machine, ran, source, task


def pair(rate: float, link: float = 1e6, delay_s: float = 0.0, consumer: str = "two"):  # type: ignore[no-untyped-def]
    return cluster_spec(
        [task("read", machines=("one",)), task("map", 1e-6, machines=(consumer,))],
        [edge("read", "map", row_bytes=1000.0, delay_s=delay_s)],
        [source("read", rate)],
        [machine(name, link_bytes_per_s=link, heartbeat_bytes_per_s=0.0) for name in ("one", "two")],
    )


def test_a_link_carries_what_it_can() -> None:
    cluster, run = ran(pair(2000.0), 60)
    assert run.series.task("processed", "map")[-10:].mean() == pytest.approx(1000.0, rel=0.01)
    assert run.series.task("lag", "read")[-1] == pytest.approx(60_000, rel=0.05)
    assert cluster.totals.network_data_bytes[0] == pytest.approx(60e6, rel=0.05)
    np.testing.assert_allclose(cluster.totals.network_data_bytes[0], cluster.totals.network_data_bytes[1])


def test_below_its_limit_a_link_stops_nothing() -> None:
    _, run = ran(pair(900.0), 60)
    assert run.series.task("processed", "map")[-10:].mean() == pytest.approx(900.0, rel=0.001)


def test_rows_on_one_machine_use_no_link() -> None:
    cluster, run = ran(pair(2000.0, consumer="one"), 30)
    assert run.series.task("processed", "map")[-1] == pytest.approx(2000.0, rel=0.001)
    assert cluster.totals.network_data_bytes.sum() == 0


def test_two_edges_share_a_link_max_min() -> None:
    spec = cluster_spec(
        [
            task("few", machines=("one",)),
            task("many", machines=("one",)),
            task("a", 1e-6, machines=("two",)),
            task("b", 1e-6, machines=("two",)),
        ],
        [edge("few", "a", row_bytes=1000.0), edge("many", "b", row_bytes=1000.0)],
        [source("few", 200.0), source("many", 5000.0)],
        [machine(name, link_bytes_per_s=1e6, heartbeat_bytes_per_s=0.0) for name in ("one", "two")],
    )
    _, run = ran(spec, 60)
    assert run.series.task("processed", "a")[-10:].mean() == pytest.approx(200.0, rel=0.02)
    assert run.series.task("processed", "b")[-10:].mean() == pytest.approx(800.0, rel=0.02)


@pytest.mark.parametrize("delay_s", [0.05, 0.5])
@pytest.mark.parametrize("step_s", [0.1, 1.0])
def test_rate_times_delay_rows_are_on_their_way(delay_s: float, step_s: float) -> None:
    cluster, _ = ran(pair(400.0, delay_s=delay_s), 30, step_s=step_s)
    assert cluster.stores.flying.sum() == pytest.approx(400.0 * delay_s, rel=0.01)
