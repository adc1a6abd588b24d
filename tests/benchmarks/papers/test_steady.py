"""What policies want of a recorded job is counted once it is warm."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.benchmarks.papers.real.kept_case import FINISHED
from penstock.benchmarks.papers.real.seen import ACTIONS
from penstock.benchmarks.papers.real.steady import (
    CONTROL,
    acting_case,
    actions,
    every_s,
    is_calm,
    looks_of,
    main,
    plan_of,
    recorded,
    show,
    show_acting,
    steady_case,
)
from penstock.benchmarks.papers.real.steady_policies import (
    WARM_UP_S,
    PolicyLine,
    Recorded,
    Seen,
    Verdict,
    lines,
    looks,
)
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.policies import POLICIES
from penstock.engine.control.recorded_windows import ticks_of, wholes_of
from penstock.engine.control.steering import scaler
from penstock.model.control import Control
from penstock.model.plan import Cause, Move, NoChange, Placement, RescalePlan, ShedPlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import ActionLog
from tests.engine.control.recorded import second
from tests.scheduler.sage_applications import snapshot

SECONDS = 600


def minute(number: int) -> ClusterSnapshot:
    """Return what one that sizes whole jobs sees of a job in one minute, in which it is neither full nor idle."""
    return replace(snapshot(number, {"job": {"busy_threads": 0.9}}), number=number)


def test_policies_leave_a_steady_job_alone_and_act_on_one_that_is_not() -> None:
    calm = [second(number) for number in range(1, SECONDS)]
    wanted = [each for each in looks("ds2", calm, CONTROL) if each.is_warm]
    assert len(wanted) > 20 and not any(each.is_action for each in wanted)
    rising = [second(number, 50.0 if number < SECONDS / 2 else 250.0) for number in range(1, SECONDS)]
    acting = [each for each in looks("ds2", rising, CONTROL) if each.is_action]
    assert acting and acting[0].end_s >= SECONDS / 2


def test_every_policy_has_a_line() -> None:
    wholes = [minute(number) for number in range(1, 4)]
    seconds = [second(number) for number in range(1, 200)]
    steady = steady_case(60.0)
    # These seconds are of a job without a contract.
    plain = replace(steady, options={**steady.options, "contracts": {}})
    found = lines(Recorded(seconds, wholes, plan_of(plain)), CONTROL)
    assert [line.policy for line in found] == sorted(POLICIES)
    # One that looks every quarter of an hour has not looked.
    (seldom,) = [line for line in found if line.policy == "autoscaler"]
    assert seldom.looks == 0 and seldom.verdict is Verdict.NOT_SEEN and not is_calm(found)
    # The first minute is the warm-up, and so is what settles of it.
    assert {line.policy: (line.looks, line.measured) for line in found}["sage"] == (2, 2)


def test_what_changes_something_is_an_action_and_blindness_is_none() -> None:
    whole, less = (ShedPlan({0: rate}, {}, (rate,), "") for rate in (1.0, 0.5))
    blind = NoChange("not measured: lag", cause=Cause.NOT_MEASURED)
    size = RescalePlan("", tasks=(TaskSize(0, 2),))
    seen = {name: Seen(0.0, 1.0, each) for name, each in (("whole", whole), ("less", less), ("blind", blind))}
    assert not seen["whole"].is_action and not seen["less"].is_action and Seen(0.0, 1.0, size).is_action
    # What a policy wants to keep is set once rows wait.
    assert Seen(0.0, 1.0, less, (0.5,)).is_action and not Seen(0.0, 1.0, less, (1.0,)).is_action
    assert not seen["blind"].is_measured and not seen["blind"].is_action and seen["whole"].is_measured
    assert not Seen(WARM_UP_S - 1, WARM_UP_S + 1, size).is_warm


def test_a_run_is_calm_if_every_policy_saw_it_and_wanted_nothing() -> None:
    calm = PolicyLine("ds2", 10.0, 5, 5, 0, "")
    assert is_calm([calm]) and is_calm([replace(calm, looks=2, measured=2)])
    for line, verdict in (
        (replace(calm, actions=1), Verdict.ACTS),
        (replace(calm, measured=4), Verdict.NOT_MEASURED),
        (replace(calm, looks=0, measured=0), Verdict.NOT_SEEN),
        (replace(calm, looks=1, measured=1), Verdict.NOT_SEEN),
        (replace(calm, looks=1, measured=1, actions=1), Verdict.ACTS),
    ):
        assert line.verdict is verdict and not is_calm([calm, line])


@pytest.mark.slow
def test_a_job_is_recorded_and_decided_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = steady_case(8.0)
    run = recorded(short, tmp_path / "steady")
    ticks = [*ticks_of(run.folder / ACTIONS)]
    assert len(ticks) >= 8
    found = lines(Recorded(ticks, [*wholes_of(run.folder / ACTIONS)], plan_of(short)), CONTROL)
    assert [line.policy for line in found] == sorted(POLICIES)
    show(run, found)
    assert "placement" in capsys.readouterr().out
    assert run.capacity > 0


def test_what_an_acting_policy_begins_once_the_job_is_warm_is_counted(tmp_path: Path) -> None:
    ran: Any = SimpleNamespace(folder=tmp_path, bounds=[(0.0, 100.0)], job_begun_s=-25.0)
    (tmp_path / "job").mkdir()
    with ActionLog(tmp_path / ACTIONS, durable=False) as log:
        for time_s, outcome, detail in (
            (WARM_UP_S / 2, "begun", {}),
            (WARM_UP_S + 10, "recommended", {}),
            (WARM_UP_S + 20, "begun", {"expected": "more"}),
            (WARM_UP_S + 25, "applied", {"sources": {"lines": 1.0}}),
            (WARM_UP_S + 30, "applied", {"sources": {"lines": 0.5}}),
            # The load has ended.
            (WARM_UP_S + 66, "begun", {}),
        ):
            snapshot = replace(second(int(time_s)), time_s=time_s)
            log.snapshot(snapshot)
            log.result(snapshot, "ds2", outcome, detail)
    done = actions(ran)
    assert [line.partition(" s ")[0] for line in done] == ["at 80", "at 90"]
    assert "more" in done[0] and "0.5" in done[1]
    assert looks_of("ds2", ran) == 0


def test_instances_that_are_placed_or_moved_later_are_actions(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    with ActionLog(tmp_path / ACTIONS, durable=False) as log:
        for number, time_s in enumerate((WARM_UP_S - 1, WARM_UP_S + 1, WARM_UP_S + 2), 1):
            snapshot = replace(second(int(time_s)), time_s=time_s, number=number)
            log.snapshot(snapshot)
            log.decision(snapshot, "placement", Placement((Move(0, 0),), "it has room"))
            log.decision(snapshot, "qod", NoChange("it fits"))
        log.decision(snapshot, "placement", Placement((), "nothing to place"))
        log.result(snapshot, "qod", "applied", {"sources": {}, "moved": {"counts[0]": {"took_ms": 3.0}}})
    ran: Any = SimpleNamespace(folder=tmp_path, bounds=[(0.0, 100.0)], job_begun_s=0.0)
    assert [line.partition(" s ")[0] for line in actions(ran)] == ["at 61", "at 62", "at 62"]
    # The warm-up does not count.
    assert (looks_of("qod", ran), looks_of("placement", ran)) == (2, 3)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_can_act_and_looks_three_times_at_least(policy: str) -> None:
    for seconds in (60.0, 1_200.0):
        acting = acting_case(seconds, policy)
        control = Control(**acting.control)
        assert policy in control.policies and (control.may_shed or control.may_scale)
        if control.scalers:
            assert scaler(control).every_s == every_s(policy, acting.control)
        ((_, length_s),) = acting.loads
        assert length_s >= max(seconds, WARM_UP_S + 3 * every_s(policy, acting.control))
        assert length_s <= max(seconds, 600.0)


def test_who_acts_in_vain_and_who_is_not_seen_are_told_with_the_number_of_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job").mkdir()
    case = acting_case(600.0, "autoscaler")
    ran: Any = SimpleNamespace(folder=tmp_path, case=asdict(case), bounds=[(0.0, 600.0)], job_begun_s=0.0)

    def look(*times_s: float, outcome: str = "") -> None:
        with ActionLog(tmp_path / ACTIONS, durable=False) as log:
            for time_s in times_s:
                snapshot = replace(second(int(time_s)), time_s=time_s)
                log.snapshot(snapshot)
                log.decision(snapshot, "autoscaler", NoChange("capacity suffices"))
                if outcome:
                    log.result(snapshot, "autoscaler", outcome, {})

    look(60.0)
    assert show_acting("autoscaler", ran) == 1
    look(120.0)
    assert show_acting("autoscaler", ran) == 0
    look(180.0, outcome="begun")
    assert show_acting("autoscaler", ran) == 1
    said = capsys.readouterr().out
    assert "autoscaler: not seen, 0 actions in 1 looks, one each 60 s, in 10 minutes: none" in said
    assert "autoscaler: calm, 0 actions in 2 looks" in said and "autoscaler: acts, 1 actions in 3 looks" in said
    assert "All of its times are 0.0667 of what they are by default." in said


@pytest.mark.parametrize(
    ("policy", "said"), [("ds3", "there is no policy 'ds3'"), ("ds2", "has a run of another case: loads was")]
)
def test_what_cannot_be_run_is_refused_in_a_sentence(
    policy: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "steady-ds2"
    folder.mkdir()
    (folder / FINISHED).write_text(json.dumps({"case": asdict(acting_case(1_200.0, "ds2"))}))
    with pytest.raises(SystemExit) as refused:
        main(["--out", str(tmp_path), "--minutes", "10", "--act", policy])
    assert refused.value.code == 2 and said in " ".join(capsys.readouterr().err.split())


def test_there_is_something_to_shed() -> None:
    shedding = LoadShedding(plan_of(steady_case(60.0)), Control("qod", "act"), moves=False)
    assert min(shedding.scope.points.branches.values()) == 0.5


def test_cases_say_who_acts() -> None:
    sizing, shedding, placing = (acting_case(600.0, policy) for policy in ("ds2", "qod-paper", "placement"))
    assert (sizing.control["scale"], sizing.control["mode"]) == ("ds2", "act")
    assert (shedding.control["shed"], "scale" in shedding.control) == ("qod-paper", False)
    assert (placing.control["placement"], {"scale", "shed"} & placing.control.keys()) == ("placement", set())
    assert sizing.loads == steady_case(600.0).loads and not sizing.is_watched
    assert list(sizing.first) == list(sizing.topics)
