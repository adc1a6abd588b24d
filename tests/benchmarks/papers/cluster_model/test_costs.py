"""What rows cost: batches, imperfect scaling, warm-up."""

import pytest

from tests.benchmarks.papers.cluster_model.small import cluster_spec, edge, machine, ran, source, task


def test_a_batch_costs_once_for_all_its_rows() -> None:
    for batch_rows, per_row_s in ((100.0, 1e-5), (10.0, 1e-4), (1e6, 1e-3 / 200)):
        # A fifth of a second at 1,000 rows a second makes 200 rows.
        work = task("map", 1e-4, batch_rows=batch_rows, batch_cpu_s=1e-3, linger_s=0.2)
        _, run = ran(cluster_spec([task("read"), work], [edge("read", "map")], [source("read", 1000.0)]), 20)
        assert run.series.task("busy_s", "map")[-1] == pytest.approx(1000 * (1e-4 + per_row_s), rel=0.01)


@pytest.mark.parametrize("sigma", [0.0, 0.02, 0.04])
def test_capacity_is_that_of_ds2s_experiments(sigma: float) -> None:
    """p / (1 + sigma (p - 1)) times that of one instance (docs/design/papers/justin-ds2.md 3)."""
    for parallelism in (1, 4, 8):
        work = task("map", 0.01, parallelism=parallelism, sigma=sigma, queue_rows=50.0)
        spec = cluster_spec(
            [task("read"), work], [edge("read", "map")], [source("read", 5000.0)], [machine("tm", cores=16.0)]
        )
        _, run = ran(spec, 20)
        capacity = 100 * parallelism / (1 + sigma * (parallelism - 1))
        assert run.series.task("processed", "map")[-5:].mean() == pytest.approx(capacity, rel=0.01)


def test_a_task_is_slowed_down_by_its_own_instances_alone() -> None:
    above = task("wide", 1e-6, parallelism=20, sigma=0.04)
    below = task("narrow", 0.01, parallelism=4, sigma=0.04, queue_rows=50.0)
    edges = [edge("read", "wide"), edge("wide", "narrow")]
    spec = cluster_spec([task("read"), above, below], edges, [source("read", 5000.0)], [machine("tm", cores=32.0)])
    _, run = ran(spec, 20)
    assert run.series.task("processed", "narrow")[-5:].mean() == pytest.approx(400 / 1.12, rel=0.01)


def test_what_has_just_started_is_slow_at_first() -> None:
    work = task("map", 0.01, warm_up_factor=1.0, warm_up_s=10.0, queue_rows=50.0)
    _, run = ran(cluster_spec([task("read"), work], [edge("read", "map")], [source("read", 500.0)]), 60)
    rows = run.series.task("processed", "map")
    assert rows[1] == pytest.approx(52, rel=0.05) and rows[-1] == pytest.approx(100, rel=0.02)
