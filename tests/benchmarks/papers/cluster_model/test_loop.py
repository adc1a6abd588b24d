"""The loop: the same seed gives the same, any policy runs, and what was recorded replays."""

import time

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant, Lines, Steps
from penstock.benchmarks.papers.cluster_model.loop import run
from penstock.model.plan import RescalePlan, ShedPlan, TaskSize, as_dict
from tests.benchmarks.papers.cluster_model.policies import scripted
from tests.benchmarks.papers.cluster_model.small import cluster_spec, edge, machine, ran, service, source, state, task
from tests.benchmarks.papers.cluster_model.waves import Bursts, Sine
from tests.long_cases import but_for


def busy_cluster():  # type: ignore[no-untyped-def]
    """Twenty instances with all that a cluster can have."""
    wave = Sine(2000.0, 1500.0, 86_400.0)
    return cluster_spec(
        [
            task("read", parallelism=2),
            task("parse", 1e-3, parallelism=6),
            task(
                "count",
                5e-4,
                parallelism=8,
                is_keyed=True,
                zipf=0.8,
                state=state(most_keys=5e5),
                initial_managed_bytes=3e8,
            ),
            task("call", 1e-4, parallelism=2, service="s", calls=0.1, in_flight=20),
            task("write", 1e-4, parallelism=2, window_s=60.0),
        ],
        [edge("read", "parse"), edge("parse", "count", exchange="hash"), edge("count", "call"), edge("call", "write")],
        [source("read", Bursts(wave, 0.2, 60.0, 7), (1.0, 1.2, 0.8, 1.0), is_random=True)],
        [machine(f"tm{number}", cores=2.0, link_bytes_per_s=12.5e6) for number in range(4)],
        services=[service("s", Constant(0.005))],
        reports={"every_s": 10.0, "noise_share": 0.02, "missing_probability": 0.01},
    )


def test_the_same_seed_gives_the_same_and_another_one_does_not() -> None:
    def once(seed: int):  # type: ignore[no-untyped-def]
        script = scripted(
            ShedPlan({0: 0.7}, {}, (0.7,), "overload"), RescalePlan("more", tasks=(TaskSize(1, 7),)), period_s=50.0
        )
        return ran(busy_cluster(), 300, [script], seed=seed, step_s=1.0)[1]

    first, again, other = once(1), once(1), once(2)
    for left, right in zip(first.records, again.records, strict=True):
        assert left.snapshot.as_dict() == right.snapshot.as_dict()
        assert as_dict(left.decision) == as_dict(right.decision) and left.outcome == right.outcome
    for name, rows in first.series.rows.items():
        np.testing.assert_array_equal(rows, again.series.rows[name])
    assert first.records[-1].snapshot.as_dict() != other.records[-1].snapshot.as_dict()


def test_policies_run_side_by_side_each_in_its_period() -> None:
    policies = [scripted(period_s=5.0, name="fast"), scripted(period_s=12.0, name="slow")]
    _, result = ran(busy_cluster(), 60, policies, step_s=1.0)
    assert [record.time_s for record in result.decisions("slow")] == [12, 24, 36, 48, 60]
    # Reports come every 10 s: in between there is nothing new to see.
    assert [record.time_s for record in result.decisions("fast")] == [10, 20, 30, 40, 50, 60]


def test_decisions_follow_from_what_was_recorded() -> None:
    script = scripted(ShedPlan({0: 0.5}, {}, (0.5,), "overload"), period_s=10.0)
    _, result = ran(busy_cluster(), 60, [script], step_s=1.0)
    memory = script.policy.start()
    for record in result.records:
        decision, memory = script.policy.decide(record.snapshot, memory)
        assert as_dict(decision) == as_dict(record.decision)


def test_steps_grow_while_nothing_changes() -> None:
    spec = cluster_spec([task("read"), task("map", 0.001)], [edge("read", "map")], [source("read", 100.0)])
    steps = []
    cluster = Cluster(spec, 0, 0.1, 5.0)
    original = cluster._step
    cluster._step = lambda dt: (steps.append(dt), original(dt))[1]  # type: ignore[method-assign,func-returns-value]
    cluster.advance(100)
    assert max(steps) > 4 and len(steps) < 60
    assert cluster.totals.records_in[32] == pytest.approx(100 * 100, rel=0.01)


@pytest.mark.parametrize(
    "hours", but_for([1, pytest.param(24, marks=pytest.mark.slow)], [1], "a whole day of a cluster; one hour of it")
)
def test_a_day_of_twenty_instances_takes_seconds(hours: int) -> None:
    """33 s of a core for a day were measured, on two cores that thirty processes shared; the bound is thrice that."""
    cluster = Cluster(busy_cluster(), 0, 1.0, 10.0)
    assert cluster.top.count == 20
    began = time.process_time()
    result = run(cluster, [scripted(period_s=60.0)], 3600.0 * hours)
    assert time.process_time() - began < 4 * hours
    assert len(result.records) == 60 * hours
    assert result.series.task("lag", "read")[-1] < 1e5


def test_curves() -> None:
    assert [Steps([(0, 1.0), (10, 2.0)])(t) for t in (-1, 0, 9.9, 10, 50)] == [1, 1, 1, 2, 2]
    assert [Lines([(0, 0.0), (10, 20.0)])(t) for t in (-5, 5, 30)] == [0, 10, 20]
    assert Sine(5.0, 10.0, 100.0)(75.0) == 0.0 and Sine(5.0, 1.0, 100.0)(25.0) == pytest.approx(6.0)
    bursts = Bursts(Constant(10.0), 0.5, 1.0, 3)
    values = np.array([bursts(t) for t in range(4000)])
    assert values.mean() == pytest.approx(10.0, rel=0.05) and bursts(7.2) == bursts(7.9) == bursts(7.0)
