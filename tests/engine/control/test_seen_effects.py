"""What came of the actions of a scaler is in the log, with the decision that follows."""

import json
from pathlib import Path

from penstock.engine.control.decision_outcomes import outcomes_of
from penstock.engine.control.levers import Levers
from penstock.engine.control.scale_control import detail_of
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.plan import NoChange
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_effects import Expectation
from penstock.scheduler.loop_state import Action, Effect, LoopDecision
from tests.engine.control.test_scale_control import COUNT, GRAPH, Running, lines, live


def test_what_came_of_an_action_is_kept_with_the_next_decision(tmp_path: Path) -> None:
    running = Running()
    plan = JobPlan("shop", GRAPH, LoopOptions(), tmp_path)
    options = ControlOptions(tmp_path / "actions.jsonl", Control(scale="ds2", mode="act", cores=4))
    steered = start_control(plan, 0, options, lambda text: None, Levers(sizes=running.actuator()))
    live(steered, 130, running.turn)
    results = [entry["detail"] for entry in lines(tmp_path / "actions.jsonl", "ds2") if entry["kind"] == "result"]
    effects = [item for detail in results for item in detail.get("effects", ()) if COUNT in item["subject"]]
    # The job is as it was, whatever was said to be done.
    assert [(item["expected"], item["observed"]) for item in effects if item["figure"] == "instances"] == [(4.0, 2.0)]
    first = next(iter(outcomes_of(tmp_path / "actions.jsonl", "ds2")))
    told = [effect for effect in first.effects if effect.figure == "instances" and COUNT in effect.subject]
    assert [effect.observed for effect in told] == [2.0]


def test_a_figure_that_is_gone_is_null_in_the_log() -> None:
    expected = Expectation("test/count", "instances", 1.0, 2.0)
    action = Action("ds2", 1, frozenset({"test"}), frozenset(), (), (expected, expected), 0.0)
    decision = LoopDecision("ds2", ClusterSnapshot(2, 1.0, 1.0), NoChange(""), NoChange(""))
    detail = detail_of(decision, [Effect(action, (2.0, float("nan")))])
    assert [item["observed"] for item in detail["effects"]] == [2.0, None]
    json.dumps(detail, allow_nan=False)
