"""A policy that a recorded job did not ask sees windows of its own time, and the log says what became of others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from penstock.commands.cli import app
from penstock.engine.control.decision_outcomes import outcomes_of
from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.policies import POLICIES, make_policy, parameters_of
from penstock.engine.control.recorded_windows import PLACEMENT, is_of_a_head, ticks_of
from penstock.model.errors import OptionError
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import ActionLog
from tests.engine.control.recorded import second
from tests.scheduler.scaling_jobs import Job, Task, measured

SECONDS = 100
NOTHING = NoChange("nothing waits")


@dataclass(frozen=True)
class Windows:
    """A policy of a user's that says how long the windows are that it sees."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism",)
    period_s: float = 10.0

    def start(self) -> int:
        return 0

    def decide(self, snapshot: ClusterSnapshot, memory: int) -> tuple[Decision, int]:
        return NoChange("seen", {"window_s": snapshot.window_s, "looks": memory}), memory + 1


@dataclass(frozen=True)
class Ownerless(Windows):
    """One that does not say what it decides on."""

    owns: ClassVar[tuple[str, ...]] = ()


WINDOWS, OWNERLESS = (f"{__name__}:{kind.__name__}" for kind in (Windows, Ownerless))


def ten_seconds(number: int) -> ClusterSnapshot:
    """Return what a scaler saw of the job in the ten seconds before."""
    job = Job([Task("lines", None), Task("count", 100.0)], [(0, 1, 1.0)], 50.0)
    return replace(measured(job, time_s=float(number), window_s=10.0), number=10_000 + number)


def record(path: Path, runs: Sequence[int] = (SECONDS,)) -> Path:
    """Write the log of a job: each run begins its times anew, and a scaler looks every ten seconds."""
    with ActionLog(path, durable=False) as log:
        for seconds in runs:
            log.policy(PLACEMENT, parameters_of(make_policy(PLACEMENT, {})))
            for number in range(1, seconds + 1):
                log.snapshot(second(number))
                log.decision(second(number), PLACEMENT, NOTHING)
                if number % 10 == 0:
                    log.snapshot(ten_seconds(number))
                    log.decision(ten_seconds(number), "ds2", NOTHING)
    return path


def seen(log: Path, **changes: object) -> list[tuple[float, float, float]]:
    """Return the end and the length of each window that the policy sees, and how often it had looked before."""
    found = redecide(log, WINDOWS, changes)
    return [(item.snapshot.time_s, item.decision.numbers["window_s"], item.decision.numbers["looks"]) for item in found]


def test_ticks_are_what_the_head_saw_each_second(tmp_path: Path) -> None:
    log = record(tmp_path / "log.jsonl")
    assert is_of_a_head(log)
    assert [tick.number for tick in ticks_of(log)] == [*range(1, SECONDS + 1)]


def test_windows_are_as_long_as_its_period_and_follow_each_other(tmp_path: Path) -> None:
    log = record(tmp_path / "log.jsonl")
    assert seen(log) == [(10.0 * (looks + 1), 10.0, float(looks)) for looks in range(10)]
    assert [window for _, window, _ in seen(log, period_s="25")] == [25.0] * 4
    assert {item.same for item in redecide(log, WINDOWS, {})} == {None}


def test_a_run_that_begins_anew_is_decided_on_from_its_beginning(tmp_path: Path) -> None:
    log = record(tmp_path / "log.jsonl", (45, SECONDS))
    found = [(end, looks) for end, _, looks in seen(log)]
    assert found == [(10.0 * (looks + 1), looks) for count in (4, 10) for looks in range(count)]


def test_a_policy_of_the_project_decides_as_it_would_on_the_job(tmp_path: Path) -> None:
    log = record(tmp_path / "log.jsonl")
    found = list(redecide(log, "flink-er", {"period_s": "20"}))
    assert [item.snapshot.window_s for item in found] == [20.0] * 5
    # The job says nothing of its partitions.
    assert {item.decision.reason[:13] for item in found} == {"not measured:"}


def test_who_does_not_say_what_it_owns_is_told_how(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="give its class an attribute owns"):
        list(redecide(record(tmp_path / "log.jsonl"), OWNERLESS, {}))


def acted(path: Path) -> Path:
    """Write the log of a policy that has grown a task, tried once more in vain, and failed in between."""
    grow = RescalePlan("more", tasks=(TaskSize(1, 2),))
    expected = [{"subject": "job/count", "figure": "instances", "before": 1.0, "after": 2.0}]
    effects = [{"subject": "job/count", "figure": "instances", "expected": 2.0, "observed": 2.0}]
    unseen = [{**effects[0], "observed": None}]
    withheld = [{"subject": "job/count", "what": "parallelism", "why": "it settles for 3 s more"}]
    detail = {"effects": [], "expected": [], "withheld": []}
    with ActionLog(path, durable=False) as log:
        for number, results in (
            (1, (("begun", {**detail, "expected": expected}), ("applied", {"epoch": 3}))),
            (2, (("recommended", {**detail, "effects": effects, "withheld": withheld}),)),
            (3, (("begun", {**detail, "expected": expected}), ("failed", {"failure": "no core is free"}))),
            (4, (("recommended", {**detail, "effects": unseen}),)),
            (5, ()),
        ):
            log.snapshot(second(number))
            log.decision(second(number), "scaler", grow)
            log.result(second(number), "other", "applied", {})
            for outcome, said in results:
                log.result(second(number), "scaler", outcome, said)
    return path


def test_what_became_of_decisions_stands_with_those_that_expected_it(tmp_path: Path) -> None:
    said = [outcome.sentence() for outcome in outcomes_of(acted(tmp_path / "log.jsonl"), "scaler")]
    assert said == [
        "begun, applied; job/count instances 1 -> 2, was 2",
        "recommended; withheld: job/count parallelism: it settles for 3 s more",
        "begun, failed: no core is free; job/count instances 1 -> 2",
        "recommended",
        "",
    ]


def test_moves_of_who_sheds_have_theirs_a_level_down(tmp_path: Path) -> None:
    expected = [{"subject": "job/count/0", "figure": "on tm-1", "before": 0.0, "after": 1.0}]
    with ActionLog(tmp_path / "log.jsonl", durable=False) as log:
        log.snapshot(second(1))
        log.decision(second(1), "qod", NOTHING)
        moves = {"effects": [], "expected": expected, "withheld": []}
        log.result(second(1), "qod", "applied", {"sources": {}, "branches": {}, "moves": moves})
        log.result(second(1), "qod", "applied", {"moved": {}, "failed": {}})
    (outcome,) = outcomes_of(tmp_path / "log.jsonl", "qod")
    assert outcome.sentence() == "applied, applied; job/count/0 on tm-1 0 -> 1"


def test_the_command_tells_outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "scaler", WINDOWS)
    monkeypatch.setenv("COLUMNS", "300")
    log = acted(tmp_path / "log.jsonl")
    with ActionLog(log, durable=False) as written:
        written.policy("scaler", {})
    shown = CliRunner().invoke(app, ["decide", str(log)])
    assert "begun, applied; job/count instances 1 -> 2, was 2" in shown.output, shown.output
    plain = CliRunner().invoke(app, ["decide", str(log), "--json"])
    assert '"observed": 2.0' in plain.output and '"results": ["begun", "applied"]' in plain.output, plain.output
