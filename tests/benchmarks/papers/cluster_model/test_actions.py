"""Actions: how long they take, whom they pause, what they leave behind, and what is refused."""

from typing import Any

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.loop import run
from penstock.model.memory_levels import MIB, managed_bytes
from penstock.model.plan import ApplicationSize, BucketMove, Move, Placement, RescalePlan, Route, ShedPlan, TaskSize
from tests.benchmarks.papers.cluster_model.policies import scripted
from tests.benchmarks.papers.cluster_model.small import cluster_spec, edge, machine, ran, source, state, task

KEYS, KEY_BYTES = 64_000.0, 1000.0


def counting(parallelism: int = 2, **actions: Any):  # type: ignore[no-untyped-def]
    held = state(
        initial_keys=KEYS, new_key_share=0.0, retention_s=1e12, key_bytes=KEY_BYTES, hit_s=0.0, put_s=0.0, miss_s=0.0
    )
    count = task(
        "count",
        1e-3,
        parallelism=parallelism,
        is_keyed=True,
        key_groups=64,
        state=held,
        initial_managed_bytes=512.0 * MIB,
    )
    given = {
        "scope": "task",
        "restores": "moved",
        "fixed_s": 2.0,
        "access_s": 0.01,
        "accesses_per_bucket": 1.0,
        "accesses_per_instance": 0.0,
        "restore_bytes_per_s": 1e6,
        "owners": "sticky",
    }
    return cluster_spec(
        [task("read"), task("map", 1e-5), count],
        [edge("read", "map"), edge("map", "count", exchange="hash")],
        [source("read", 500.0)],
        [machine("one", cores=4.0), machine("two", cores=4.0)],
        actions=given | actions,
    )


def test_an_action_takes_its_fixed_time_its_accesses_and_its_bytes() -> None:
    plan = RescalePlan("more", tasks=(TaskSize(2, 4),))
    _, result = ran(counting(), 60, [scripted(plan)])
    outcome = result.records[0].outcome
    # 2 -> 4 instances: each new one gets 16 of 64 buckets, and restores them beside the other.
    assert outcome.result == "begun" and outcome.accesses == 32
    assert outcome.bytes == pytest.approx(KEYS * KEY_BYTES / 2)
    assert outcome.duration_s == pytest.approx(2.0 + 16 * 0.01 + KEYS * KEY_BYTES / 4 / 1e6)
    running = [record.time_s for record in result.records if record.snapshot.instances.is_running.all()]
    assert set(running) == {5.0} | {t for t in np.arange(5.0, 61.0, 5.0) if t > 5.0 + outcome.duration_s}
    assert result.records[-1].snapshot.instances.task.tolist().count(2) == 4


@pytest.mark.parametrize(
    ("scope", "restores", "owners", "share"),
    [("task", "all", "sticky", 1.0), ("task", "moved", "ranges", 0.5), ("task", "moved", "modulo", 0.75)],
)
def test_what_is_restored_depends_on_the_owners(scope: str, restores: str, owners: str, share: float) -> None:
    plan = RescalePlan("more", tasks=(TaskSize(2, 4),))
    start = 3 if owners != "sticky" else 2
    _, result = ran(counting(start, scope=scope, restores=restores, owners=owners), 20, [scripted(plan)])
    moved = result.records[0].outcome.bytes / (KEYS * KEY_BYTES)
    assert moved == pytest.approx(share, abs=0.15)


def test_the_scope_says_who_stands_still() -> None:
    stopped = {}
    for scope in ("application", "task", "live"):
        plan = RescalePlan("more", tasks=(TaskSize(2, 4),))
        _, result = ran(counting(scope=scope, restore_bytes_per_s=1e9, fixed_s=6.0), 30, [scripted(plan)])
        during = result.records[1].snapshot.instances
        stopped[scope] = {
            name: not during.is_running[during.task == number].any()
            for number, name in enumerate(("read", "map", "count"))
        }
    assert stopped["application"] == {"read": True, "map": True, "count": True}
    assert stopped["task"] == {"read": False, "map": False, "count": True}
    assert stopped["live"] == {"read": False, "map": False, "count": False}


def test_rows_wait_in_the_log_meanwhile_and_are_drained_afterwards() -> None:
    plan = RescalePlan("more", tasks=(TaskSize(2, 4),))
    spec = counting(scope="application", restore_bytes_per_s=1e9, fixed_s=10.0)
    cluster, result = ran(spec, 60, [scripted(plan)])
    lag = result.series.task("lag", "read")
    assert lag[3] < 1 and lag[13] > 4000 and lag[-1] < 1
    assert result.series.task("processed", "count").sum() == pytest.approx(60 * 500, rel=0.01)
    assert cluster.layout.parallelism(2) == 4


def test_caches_of_what_moved_are_cold() -> None:
    cluster = Cluster(counting(), 0, 0.5)
    cluster.advance(100)
    warm = cluster.states[2].cached_keys[:2].copy()
    # 250 accesses a second to 32,000 keys each.
    np.testing.assert_allclose(warm, KEYS / 2 * (1 - np.exp(-25_000 / (KEYS / 2))), rtol=0.02)
    elsewhere = 1 - cluster.layout.machines[2][1]
    result = run(cluster, [scripted(Placement((Move(3, elsewhere),), "elsewhere"), period_s=1.0)], 101.0)
    duration_s = result.records[0].outcome.duration_s
    assert duration_s == pytest.approx(2 + 32 * 0.01 + KEYS * KEY_BYTES / 2 / 1e6)
    run(cluster, [], 101.0 + duration_s + 1e-3)
    assert cluster.layout.machines[2][1] == elsewhere
    # The action's scope is the task: all of it restarted.
    assert (cluster.states[2].cached_keys[:2] < 0.1 * warm).all()
    assert cluster.access[2].hit_rate.max() < 0.1


def test_a_move_brings_an_instance_elsewhere_and_warms_up() -> None:
    spec = counting(restore_bytes_per_s=1e9)
    from_ = Cluster(spec, 0, 0.5).layout.machines[2][1]
    snapshot_row = 3
    cluster, result = ran(spec, 40, [scripted(Placement((Move(snapshot_row, 1 - from_, flagged=True),), "full"))])
    assert cluster.layout.machines[2][1] == 1 - from_
    last = result.records[-1].snapshot.instances
    assert last.machine[snapshot_row] == 1 - from_
    assert last.settled_s[snapshot_row] < last.settled_s[1]  # type: ignore[index]


def test_one_action_at_a_time_for_an_application() -> None:
    plans = [RescalePlan("more", tasks=(TaskSize(2, count),)) for count in (4, 8)]
    _, result = ran(counting(fixed_s=20.0), 60, [scripted(*plans)])
    assert [record.outcome.result for record in result.records[:3]] == ["begun", "refused", "nothing"]


def test_what_cannot_be_had_is_capped_and_said() -> None:
    _, result = ran(counting(), 20, [scripted(RescalePlan("much more", tasks=(TaskSize(2, 1000),)))])
    outcome = result.records[0].outcome
    assert outcome.result == "capped" and "at most 32 instances" in outcome.why


def test_memory_levels_change_what_instances_manage() -> None:
    plan = RescalePlan("more memory", tasks=(TaskSize(2, 2, memory_level=1),))
    cluster, result = ran(counting(restore_bytes_per_s=1e9), 30, [scripted(plan)])
    assert cluster.managed[2] == managed_bytes(1) and cluster.level[2] == 1
    last = result.records[-1].snapshot
    assert last.tasks.memory_level[2] == 1
    assert last.instances.managed_bytes[last.instances.task == 2].tolist() == [managed_bytes(1)] * 2  # type: ignore[index]


def test_buckets_and_routes_can_be_set() -> None:
    plan = RescalePlan("one hot bucket", buckets=(BucketMove(2, 0, 1),))
    cluster, _ = ran(counting(restore_bytes_per_s=1e9), 20, [scripted(plan)])
    assert cluster.layout.owners[2][0] == 1
    spec = cluster_spec(
        [task("read"), task("map", 1e-4, parallelism=2)], [edge("read", "map")], [source("read", 100.0)]
    )
    cluster, result = ran(spec, 25, [scripted(RescalePlan("unequal", routes=(Route(0, (0.9, 0.1)),)))])
    last = result.records[-1].snapshot.instances
    assert last.records_in[1:].tolist() == pytest.approx([450.0, 50.0], rel=0.01)  # type: ignore[index]


def test_shedders_keep_what_a_plan_says_at_once() -> None:
    plan = ShedPlan({0: 0.5}, {1: 0.2}, (0.1,), "too much")
    _, result = ran(counting(), 20, [scripted(plan, ShedPlan({}, {}, (1.0,), "enough again"))])
    assert result.records[0].outcome.result == "done"
    second, third = result.records[1].snapshot, result.records[2].snapshot
    assert second.instances.records_in[0] == pytest.approx(1250, rel=0.1)  # type: ignore[index]
    assert second.outputs.dropped[1] == pytest.approx(1000, rel=0.1)  # type: ignore[index]
    assert third.instances.records_in[0] == pytest.approx(2500, rel=0.01)  # type: ignore[index]


def test_applications_get_what_they_are_given() -> None:
    plan = RescalePlan(
        "larger", applications=(ApplicationSize(0, cores=2.0, heap_bytes=1e9, memory_bytes=2e9, threads=8),)
    )
    cluster, result = ran(counting(restore_bytes_per_s=1e9), 30, [scripted(plan)])
    given = result.records[-1].snapshot.applications
    assert (given.cores[0], given.heap_bytes[0], given.memory_bytes[0], given.threads[0]) == (2.0, 1e9, 2e9, 8.0)  # type: ignore[index]
    assert cluster.parallelism.tolist() == [2, 2, 4]


def test_without_a_place_an_instance_waits_for_a_placement() -> None:
    plan = RescalePlan("more", tasks=(TaskSize(2, 3),))
    spec = counting(places="policy", restore_bytes_per_s=1e9)
    placing = Placement((Move(4, 1),), "roomiest")
    _, result = ran(spec, 40, [scripted(plan, ShedPlan({}, {}, (), "nothing"), placing)])
    assert not result.records[2].snapshot.instances.is_running[4]
    assert result.records[-1].snapshot.instances.is_running.all()
    assert result.records[-1].snapshot.instances.machine[4] == 1
