"""Sage at its limits: what was refused is no change, and keeps nobody behind it waiting."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.engine.control.policies import make_policy
from penstock.model.plan import RescalePlan
from penstock.model.snapshot import ClusterSnapshot
from tests.scheduler.sage_applications import GB, QUIET, actions, simulate, snapshot


def guarded_sage(name: str = "sage", **limits: float) -> Any:
    return make_policy(name, {f"limits.{limit}": value for limit, value in limits.items()})


def fills(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
    """State fills the memory, whatever there is; 20 cores are needed."""
    return {
        "resident": has["memory"], "heap_used": 0.5 * has["heap"], "cpu": min(has["cores"], 20.0),
        "throttled": 4.0 if has["cores"] < 20 else 0.0, "backlog": 1e6, "consumed": 50.0 * has["cores"],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["sage", "sage-at-once"])
def test_cores_grow_where_memory_is_at_its_quota(name: str) -> None:
    """The quota is what the application has: more memory is refused again and again."""
    decided = simulate(guarded_sage(name, most_memory_bytes=8 * GB), 60, {"a": fills})
    free = simulate(guarded_sage(name), 60, {"a": lambda number, has: {**fills(number, has), "resident": GB}})
    sizes, others = (
        [(tick, size) for tick, it in all_of for size in getattr(it, "applications", ())] for all_of in (decided, free)
    )
    assert all(size.memory_bytes is None for _, size in sizes)
    raised, unhindered = ([(tick, size.cores) for tick, size in them if size.cores] for them in (sizes, others))
    assert raised[0][0] <= unhindered[0][0] + 1 and raised[-1][1] == pytest.approx(unhindered[-1][1], rel=0.1)
    assert raised[-1][1] > 2 * QUIET["cores"]


def test_cores_fall_where_memory_is_at_its_floor() -> None:
    def idles(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        return {"resident": GB, "heap_used": 3.4 * GB, "heap_committed": 3.5 * GB, "cpu": 1.0, "busy_threads": 7}

    done = actions(simulate(guarded_sage(least_memory_bytes=8 * GB), 120, {"a": idles}))
    assert {rule for _, rule in done} == {"CPU down"}


def asked_for_memory(policy: Any, now: Mapping[int, Mapping[str, float]], ticks: int) -> list[int]:
    """Return the ticks at which ``a`` asked for memory; ``b`` has what ``now`` says from a tick on."""
    memory, asked, others = policy.start(), [], dict[str, float]()
    for number in range(ticks):
        others |= now.get(number, {})
        one = snapshot(number, {"a": {"resident": QUIET["memory"]}, "b": {"memory": 8 * GB, **others}})
        decision, memory = policy.decide(one, memory)
        if "memory up" in decision.reason or any(it.what == "memory" for it in memory.refusals):
            asked.append(number)
    return asked


def test_a_refusal_is_not_remembered_for_ever() -> None:
    quota = guarded_sage(most_memory_bytes=16 * GB)
    first, *again = asked_for_memory(quota, {}, 60)
    assert first <= 5 and 15 < again[0] - first <= 17, "after three times the wait"
    # What somebody else gives up is asked for at once.
    assert asked_for_memory(quota, {10: {"memory": 4 * GB, "resident": 3 * GB}}, 14)[:2] == [first, 10]


def test_memory_grows_once_the_quota_does() -> None:
    policy: Any = guarded_sage(most_memory_bytes=8 * GB)
    memory, has = policy.start(), {"memory": 8 * GB}
    for number in range(40):
        if number == 10:
            policy = replace(policy, limits=replace(policy.limits, most_memory_bytes=16 * GB))
        one = snapshot(number, {"a": {"resident": has["memory"], **has}})
        decision, memory = policy.decide(one, memory)
        if isinstance(decision, RescalePlan):
            has["memory"] = decision.applications[0].memory_bytes or has["memory"]
    assert has["memory"] > 8 * GB


def test_who_comes_and_goes_takes_its_refusals_along() -> None:
    policy = guarded_sage(most_memory_bytes=8 * GB)
    memory = policy.start()
    full: Mapping[str, float] = {"resident": QUIET["memory"]}

    def seen(number: int, *names: str) -> ClusterSnapshot:
        return snapshot(number, {name: full if name == "a" else {"memory": 1.0, "heap": 1.0} for name in names})

    for number in range(8):
        _, memory = policy.decide(seen(number, "a"), memory)
    for number in range(8, 12):
        _, memory = policy.decide(seen(number, "b", "a"), memory)
    refused = memory.policy.changes.growth_refused_s
    assert np.isfinite(refused[1]).tolist() == [False, True] and not np.isfinite(refused[[0, 2, 3]]).any()
