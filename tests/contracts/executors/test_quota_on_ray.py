"""Two jobs of a Ray cluster share a quota under Sage: together they have no more, and who ends gives back its part."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.engine.control.decision_replay import redecide
from penstock.engine.executors.ray.quota_actor import QuotaKeeperOnRay
from penstock.scheduler.shared_quota import Lease
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_whole_jobs import Burns, Sized
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

CORES = 1.2
WATCHER = Lease("watcher", 0.0, 0.0, priority=1)
"""A lease of nothing, which goes first, so that of others it is told what they have and not what they want."""


def test_what_a_job_that_ends_had_another_one_of_the_cluster_takes(tmp_path: Path, on_ray: RayCluster) -> None:
    ray = {"executor": "ray", "task_managers": 1}
    quota = {"quota": "team-of-jobs", "cores": CORES}
    large, small = Sized(tmp_path / "large", "large"), Sized(tmp_path / "small", "small")
    # It gives nothing up.
    keeps = {"parameters": {"sage.windows": 60.0}}
    has = large.start(50.0, Burns, {**quota, **keeps, "first_cores": 0.9}, **ray)
    keeper = QuotaKeeperOnRay("team-of-jobs")
    held: list[dict[str, float]] = [{}]

    def is_held(jobs: Sequence[str], least: float) -> bool:
        """Return whether these jobs have leases, the last one of so many cores, and look at all of them."""
        view = keeper.renew(WATCHER)
        if view is not None:
            held.append({other.name: other.cores for other in view.others})
        return sorted(held[-1]) == sorted(jobs) and held[-1][jobs[-1]] >= least

    def is_refused() -> bool:
        log = tmp_path / "small" / "actions.jsonl"
        return log.exists() and "the quota of all applications" in log.read_text()

    until(lambda: is_held(("large",), 0.85), has)
    wants = small.start(300.0, Burns, {**quota, "first_cores": 0.3}, **ray)
    until(lambda: is_held(("large", "small"), 0.3) and is_refused(), wants)
    large.over(has)
    until(lambda: is_held(("small",), 0.4) and bool(small.actions()), wants)
    small.over(wants)
    assert all(sum(each.values()) <= CORES + 1e-6 for each in held)
    # It begins with hardly any, and takes what it is to begin with.
    assert {round(each["small"], 6) for each in held if len(each) == 2} <= {0.1, 0.3}
    assert "CPU up" in small.actions()[0]
    seen = list(redecide(tmp_path / "small" / "actions.jsonl", "sage", {}))
    assert all(item.same for item in seen)
    both = [each.snapshot.applications for each in seen if len(each.snapshot.applications) > 1]
    assert both and all(each.cores is not None and each.cores.sum() <= CORES + 1e-6 for each in both)
    keeper.leave(WATCHER.job)
