"""Remote services: one call after the other, several at a time, errors and retries, and the service's own limit."""

import pytest

from penstock.benchmarks.papers.cluster_model.curves import Constant, Steps
from penstock.benchmarks.papers.cluster_model.spec import ServiceSpec
from tests.benchmarks.papers.cluster_model.small import EXACT, cluster_spec, edge, ran, service, source, task


def calling(item: ServiceSpec, rate: float = 1000.0, in_flight: int = 0):  # type: ignore[no-untyped-def]
    return cluster_spec(
        [task("read"), task("call", 1e-4, service="s", calls=1.0, in_flight=in_flight, queue_rows=100.0)],
        [edge("read", "call")],
        [source("read", rate)],
        services=[item],
    )


def test_calls_one_after_the_other_bound_the_rate() -> None:
    cluster, run = ran(calling(service("s", Constant(0.02), sigma=0.0)), 30)
    assert run.series.task("processed", "call")[-1] == pytest.approx(1 / 0.0201, rel=0.01)
    slot = cluster.top.slot[1]
    assert cluster.totals.remote_s[slot] == pytest.approx(30 * 0.02 / 0.0201, rel=0.02)
    assert cluster.totals.calls[0] == pytest.approx(cluster.totals.records_in[slot], rel=0.05)


def test_several_calls_at_a_time_hide_the_latency() -> None:
    cluster, run = ran(calling(service("s", Constant(0.02), sigma=0.0), in_flight=10), 30)
    assert run.series.task("processed", "call")[-1] == pytest.approx(500.0, rel=0.02)
    assert cluster.totals.remote_s[cluster.top.slot[1]] == pytest.approx(30 * 0.95, rel=0.05)


def test_a_slow_service_makes_lag_and_no_load() -> None:
    slow = service("s", Steps([(0, 0.001), (30, 0.1)]), sigma=0.0)
    _, run = ran(calling(slow, rate=100.0), 60)
    lag = run.series.task("lag", "read")
    assert lag[28] < 1 and lag[-1] > 2000
    assert run.series.task("cpu_s", "call")[-1] < 0.01


def test_errors_are_called_again() -> None:
    item = EXACT.make(
        ServiceSpec,
        "service",
        name="s",
        application="app",
        latency_s=Constant(0.001),
        error_share=Constant(0.5),
        sigma=0.0,
    )
    cluster, _ = ran(calling(item, rate=10.0), 100)
    rows = cluster.totals.records_in[cluster.top.slot[1]]
    assert cluster.totals.calls[0] == pytest.approx(rows * (1 + 0.5 + 0.25 + 0.125), rel=0.05)
    assert cluster.totals.retries[0] == pytest.approx(cluster.totals.calls[0] - rows, rel=0.05)
    assert cluster.totals.errors[0] == pytest.approx(cluster.totals.calls[0] / 2, rel=0.05)


def test_a_service_answers_only_so_many() -> None:
    item = service("s", Constant(1e-5), sigma=0.0, most_calls_per_s=50.0)
    _, run = ran(calling(item, in_flight=100), 60)
    assert run.series.task("processed", "call")[-10:].mean() == pytest.approx(0.95 * 50, rel=0.05)
