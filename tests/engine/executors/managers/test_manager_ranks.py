"""Instances that need something are where it is, whatever else would be better, and wait until that is there."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.executors.managers.manager_ranks import ManagerRanks
from penstock.model.errors import RetryableError, WorkerLostError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from tests.engine.executors.managers.scripted_managers import Scene

EVERY = frozenset(map(TaskId, range(9)))


def needy() -> ExecutionGraph:
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job).name("bids")
    counts = bids.key_by("channel").agg(bids=ps.count()).name("counts").resources(num_gpus=1)
    counts.write_black_hole(mode="changelog")
    return job.plan(2, apart=True)


def test_instances_go_to_the_ranks_that_have_what_they_need() -> None:
    plan = needy()
    needing = [name for task in plan.tasks if "counts" in plan.name(task) for name in plan.instances(task)]
    ranks = ManagerRanks(3, {"tm-4": 1, "tm-5": 0}.get)
    assert ranks.places(plan, EVERY, ["tm-3", "tm-4", "tm-5"]) == dict(zip(needing, ["tm-5", "tm-4"], strict=True))
    assert not ranks.lack(plan, ["tm-4", "tm-5"])
    assert ranks.lack(plan, ["tm-3", "tm-4"])


def scene(folder: Path, ranks: ManagerRanks) -> Scene:
    """Return a scene of three task managers, whose job needs two ranks."""
    return Scene(folder, 3, graph=needy(), ranks=ranks)


def test_who_follows_one_that_is_lost_has_its_instances(tmp_path: Path) -> None:
    ranks = {"tm-1": 0, "tm-2": 1}
    staged = scene(tmp_path, ManagerRanks(3, ranks.get))
    with staged.head:
        attempt = staged.attempt()
        held = {place for name, place in attempt.places().items() if name.startswith("counts")}
        assert held == {"tm-1", "tm-2"}
        staged.launcher.kill("tm-1")
        while (struck := attempt.proceed(lambda: False, None, None)) is None:
            pass
        attempt.take_down(None, struck.error)
        # Task managers that live do not do: the one that comes has what is needed.
        ranks["tm-3"] = 0
        again = staged.attempt()
        assert {place for name, place in again.places().items() if name.startswith("counts")} == {"tm-2", "tm-3"}
        again.take_down(None, RetryableError("over"))


def test_without_one_that_has_it_no_attempt_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.executors.managers.head.JOIN_S", 0.3)
    staged = scene(tmp_path, ManagerRanks(3, {"tm-0": 0}.get))
    with staged.head, pytest.raises(WorkerLostError, match="no task manager that has what instances need came up"):
        staged.attempt()
