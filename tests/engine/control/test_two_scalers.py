"""Two scalers of one job: Sage gives it cores and memory, another one says the parallelism of its operators."""

from pathlib import Path

import pytest

from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.levers import Levers
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions, Mode
from penstock.model.errors import OptionError
from penstock.model.scaling_status import ScalingStatus, together
from tests.engine.control.readings import SECOND_NS
from tests.engine.control.test_scale_control import AGG, GRAPH, Running, lines, live, started

NAMES = ("sage", "ds2")
PARAMETERS = {"sage.windows": 1 / 60, "ds2": {"pace": {"interval_s": 5.0, "warm_up_s": 1.0}}}


def both(running: Running, folder: Path, *, acts: bool = True) -> tuple[JobPlan, ControlOptions, Levers]:
    mode: Mode = "act" if acts else "recommend"
    control = Control(scale=NAMES, mode=mode, cores=4, parameters=PARAMETERS, first_cores=1.0)
    running.memory.change(GRAPH, LoopOptions(), {AGG: 16 << 20}, paged=True)
    plan = JobPlan("shop", GRAPH, LoopOptions(state_bytes=16 << 20), folder)
    levers = Levers(sizes=running.actuator(4), memory=running.memory)
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
