"""Two scalers of one job: Sage gives it cores and memory, another one says the parallelism of its operators."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.levers import Levers
from penstock.engine.control.quota_file import QuotaFile
from penstock.engine.control.quota_share import QuotaShare
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions, Mode
from penstock.model.errors import OptionError
from penstock.model.scaling_status import ScalingStatus, together
from penstock.scheduler.shared_quota import Lease
from tests.engine.control.readings import SECOND_NS
from tests.engine.control.test_scale_control import AGG, GRAPH, Running, lines, live, started

NAMES = ("sage", "ds2")
STATE_BYTES = 16 << 20
MOST_BYTES = 92 << 20
PARAMETERS = {"sage.windows": 1 / 60, "ds2": {"pace": {"interval_s": 5.0, "warm_up_s": 1.0}}}


def both(
    running: Running, folder: Path, *, acts: bool = True, quota: QuotaFile | None = None
) -> tuple[JobPlan, ControlOptions, Levers]:
    mode: Mode = "act" if acts else "recommend"
    given: dict[str, Any] = {} if quota is None else {"quota": "team", "memory": MOST_BYTES}
    control = Control(scale=NAMES, mode=mode, cores=4, parameters=PARAMETERS, first_cores=1.0, **given)
    share = None if quota is None else QuotaShare(quota, "shop", 0, control.cores, control.memory_bytes)
    running.memory.change(GRAPH, LoopOptions(), {AGG: STATE_BYTES}, paged=True)
    plan = JobPlan("shop", GRAPH, LoopOptions(state_bytes=STATE_BYTES), folder)
    levers = Levers(sizes=running.actuator(4), memory=running.memory, quota=share)
    return plan, ControlOptions(folder / "actions.jsonl", control), levers


def test_each_acts_on_its_own_and_one_at_a_time(tmp_path: Path) -> None:
    running = Running()
    plan, options, levers = both(running, tmp_path)
    steered = start_control(plan, 0, options, lambda text: None, levers)
    live(steered, 40, running.turn)
    log = tmp_path / "actions.jsonl"
    for name in NAMES:
        results = [entry for entry in lines(log, name) if entry["kind"] == "result"]
        outcomes = [entry["outcome"] for entry in results]
        # What one has begun is not told to the other as done.
        assert "begun" in outcomes and outcomes.count("begun") - outcomes.count("applied") in (0, 1), outcomes
        assert all(item.same for item in redecide(log, name, {}))
    assert levers.sizes is not None and levers.sizes.cores.wanted is not None and levers.sizes.cores.wanted > 1.0
    assert running.asked and max(running.asked[0].values()) > 2
    done = [entry["detail"] for entry in lines(log, "sage") if entry.get("outcome") == "applied"]
    assert all(set(detail) == {"cores", "task_managers"} for detail in done)
    status = steered.scaling_status()
    assert status is not None and status.scale == "sage + ds2" and status.changes >= 2
    assert "sage: " in status.reason and "ds2: " in status.reason
    # The controllers of the next plan know what either has done.
    after = start_control(plan, 40 * SECOND_NS, options, lambda text: None, levers, before=steered)
    kept = after.scaling_status()
    assert kept is not None and kept.changes == status.changes
    after.close()


@pytest.mark.parametrize(("others_bytes", "most"), [(0, 4), (36 << 20, 3), (60 << 20, 2)])
def test_instances_that_one_adds_take_of_the_quota_what_others_leave(
    others_bytes: int, most: int, tmp_path: Path
) -> None:
    """The count has two instances of 16 MB each, and wants four."""
    running, now = Running(), [0.0]
    keeper = QuotaFile("team", tmp_path / "book", lambda: now[0])
    other = Lease("other", 0.0, others_bytes)
    keeper.renew(other)
    plan, options, levers = both(running, tmp_path, quota=keeper)
    live(start_control(plan, 0, options, lambda text: None, levers), 40, running.turn)
    assert [order.get(AGG, 2) for order in running.asked][:1] == [most]
    kept = json.loads((tmp_path / "book" / "team.json").read_text(encoding="utf-8"))
    (held,) = [lease for lease in kept["leases"] if lease["job"] == "shop"]
    # Once it is done the two of these readings are seen again.
    assert 2 * STATE_BYTES <= held["memory_bytes"] <= min(most * STATE_BYTES, MOST_BYTES - others_bytes)
    # What it did not get is kept for it from those of less weight.
    assert held["wants_memory_bytes"] == (4 * STATE_BYTES if most < 4 else 0.0)
    log = tmp_path / "actions.jsonl"
    assert all(item.same for name in NAMES for item in redecide(log, name, {}))
    refused = [entry["decision"]["reason"] for entry in lines(log, "ds2") if entry["kind"] == "decision"]
    assert any("shop memory: the quota of all applications" in reason for reason in refused) == (most < 4), refused


def test_a_quota_is_shared_only_by_who_sizes_whole_jobs(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="shared by jobs that are sized as a whole: say scale='sage', or"):
        started(Control(scale="ds2", quota="team", cores=4), tmp_path)


def test_both_recommend_to_one_log(tmp_path: Path) -> None:
    running = Running()
    plan, options, _ = both(running, tmp_path, acts=False)
    live(start_control(plan, 0, options, lambda text: None), 40)
    for name in NAMES:
        assert "recommended" in [entry.get("outcome") for entry in lines(tmp_path / "actions.jsonl", name)], name
    assert running.asked == [] and running.resized == []


@pytest.mark.parametrize(
    ("scale", "sentence"),
    [
        (("justin", "ds2"), "control: 'justin' and 'ds2' both decide on parallelism, and would undo each other's"),
        (("sage", "sage-at-once"), "control: 'sage' and 'sage-at-once' both decide on cores and memory of applicat"),
        (("ds2", "ds2"), "control: scale names a policy twice: ds2, ds2"),
        (("sage", "ds3"), "there is no policy 'ds3'; choose from "),
    ],
)
def test_two_that_decide_on_the_same_are_refused_before_anything_runs(
    scale: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError) as refused:
        started(Control(scale=scale), tmp_path)
    assert str(refused.value).startswith(sentence) and not (tmp_path / "actions.jsonl").exists()


def test_what_two_do_is_said_together() -> None:
    ds2 = ScalingStatus("ds2", "act", "rates ask for it", (("sum", 1, 2),), "begun", changes=1)
    sage = ScalingStatus("sage", "act", "CPU up, 1 -> 1.5", withheld="it settles", changes=2)
    assert together([]) is None and together([ds2]) is ds2
    said = together([sage, ds2])
    assert said is not None and said.sentence() == (
        "sage + ds2: sage: CPU up, 1 -> 1.5; ds2: rates ask for it; 2 instances of sum (now 1), ds2 begun; "
        "withheld: sage: it settles; 3 changes so far"
    )
