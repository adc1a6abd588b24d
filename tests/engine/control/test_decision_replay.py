"""Deciding again from a log alone, with a policy that is one file and one line: nothing else knows it."""

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.commands.cli import app
from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.policies import POLICIES, make_policy, parameters_of
from penstock.model.errors import OptionError
from penstock.model.snapshot import ApplicationColumns, ClusterSnapshot, InstanceColumns, MachineColumns, TaskColumns
from penstock.scheduler.action_log import ActionLog
from tests.sixth_policy import install

CPU_PERCENT = (50.0, 85.0, 90.0, 95.0, None, 81.0, 79.0)

ONE_TASK = {
    "applications": ApplicationColumns(("job",)),
    "tasks": TaskColumns(("count",), [0], [True], [True], [False], [False], [0], [0]),
    "instances": InstanceColumns([0], [0], [0], [True]),
}


@pytest.fixture
def threshold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return install(tmp_path, monkeypatch)


@pytest.fixture
def log(tmp_path: Path, threshold: str) -> Path:
    """A log of which the policy saw every snapshot but the first, and was started again in the middle."""
    policy = make_policy(threshold, {"patience": 3})
    path = tmp_path / "actions.jsonl"
    with ActionLog(path) as written:
        for number, percent in enumerate(CPU_PERCENT):
            measured = None if percent is None else [percent]
            machines = MachineColumns(("a",), [1.0], measured)
            snapshot = ClusterSnapshot(number, 5.0 * number, 5.0, **ONE_TASK, machines=machines)
            written.snapshot(snapshot)
            if number in (1, 5):
                written.policy(threshold, parameters_of(policy))
                memory = policy.start()
            if number:
                decision, memory = policy.decide(snapshot, memory)
                written.decision(snapshot, threshold, decision)
    return path


def test_the_same_policy_decides_the_same_again(log: Path, threshold: str) -> None:
    again = list(redecide(log, threshold, {}))
    assert [item.snapshot.number for item in again] == [1, 2, 3, 4, 5, 6]
    assert [item.same for item in again] == [True] * 6
    assert [type(item.decision).__name__ for item in again][:4] == ["NoChange", "NoChange", "RescalePlan", "NoChange"]
    assert again[3].decision.reason == "not measured: cpu_percent"


def test_a_changed_parameter_changes_some(log: Path, threshold: str) -> None:
    again = list(redecide(log, threshold, {"patience": "2"}))
    assert [item.same for item in again] == [False, False, False, True, False, False]


def test_a_policy_that_was_not_there_sees_every_snapshot(
    log: Path, threshold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "other", POLICIES[threshold])
    again = list(redecide(log, "other", {}))
    assert [(item.snapshot.number, item.same) for item in again] == [(number, None) for number in range(7)]


def test_what_does_not_exist_is_refused_by_naming_what_does(log: Path, threshold: str) -> None:
    with pytest.raises(OptionError, match=r"no policy 'thresh'; choose from .*threshold"):
        list(redecide(log, "thresh", {}))
    with pytest.raises(OptionError, match="no parameter 'most'; it has most_percent, patience, aggressive"):
        list(redecide(log, threshold, {"most": 3}))
    with pytest.raises(OptionError, match="is true or false, not 'maybe'"):
        list(redecide(log, threshold, {"aggressive": "maybe"}))


def test_the_command(log: Path, threshold: str) -> None:
    run = CliRunner().invoke
    same = run(app, ["decide", str(log), "--policy", threshold])
    assert same.exit_code == 0 and "6 decisions; 6 of 6 as recorded" in same.output
    changed = run(app, ["decide", str(log), "--policy", threshold, "--set", "patience=2", "--json"])
    assert changed.exit_code == 0 and '"same": false' in changed.output
    log.write_bytes(log.read_bytes().replace(b'"reason":"busy"', b'"reason":"idle"'))
    assert run(app, ["decide", str(log), "--policy", threshold]).exit_code == 1
    log.write_bytes(log.read_bytes()[:-20])
    cut = run(app, ["decide", str(log), "--policy", threshold])
    assert cut.exit_code == 1 and "actions.jsonl:16: the line is cut off" in cut.output


def test_without_a_name_the_policy_of_the_log_decides(log: Path, threshold: str, tmp_path: Path) -> None:
    run = CliRunner().invoke
    alone = run(app, ["decide", str(log)])
    assert alone.exit_code == 0 and "6 of 6 as recorded" in alone.output
    with ActionLog(log) as written:
        written.policy("ds2", {})
    several = run(app, ["decide", str(log)])
    assert several.exit_code == 2 and "decisions of ds2, " + threshold in several.output
    with ActionLog(tmp_path / "none.jsonl"):
        pass
    nobody = run(app, ["decide", str(tmp_path / "none.jsonl")])
    assert nobody.exit_code == 2 and "no policy" in nobody.output and "sage" in nobody.output


@pytest.mark.parametrize("name", [*POLICIES])
def test_every_policy_comes_back_from_its_parameters(name: str) -> None:
    plain = json.loads(json.dumps(parameters_of(make_policy(name, {})), allow_nan=False))
    assert make_policy(name, plain) == make_policy(name, {})


def test_parts_of_a_policy_have_parameters_too() -> None:
    policy = make_policy("ds2", {"pace.interval_s": "30", "factor": "0.5"})
    inner = policy.policy
    assert (inner.pace.interval_s, inner.factor, inner.target_rate_ratio) == (30, 0.5, math.inf)
    assert make_policy("ds2", {"limits.step_factor": "2"}).limits.step_factor == 2
    with pytest.raises(OptionError, match=r"it has pace\.interval_s, pace\.warm_up_s"):
        make_policy("ds2", {"pace": "30"})


def test_no_line_is_of_two_runs(threshold: str, tmp_path: Path) -> None:
    """Time begins anew with a run, so what both say would read as if it ran backwards."""
    log, policy = tmp_path / "twice.jsonl", make_policy(threshold, {})
    with ActionLog(log) as written:
        for _ in range(2):
            written.policy(threshold, parameters_of(policy))
            memory = policy.start()
            for number in (7, 8):
                machines = MachineColumns(("a",), [1.0], [50.0])
                snapshot = ClusterSnapshot(number, 5.0 * number, 5.0, **ONE_TASK, machines=machines)
                decision, memory = policy.decide(snapshot, memory)
                written.snapshot(snapshot)
                written.decision(snapshot, threshold, decision)
    said = CliRunner().invoke(app, ["decide", str(log)]).output
    assert said.count("7-8   35.0-40.0") == 2 and "4 of 4 as recorded" in said
