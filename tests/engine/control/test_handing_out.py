"""Work that a scaler hands out anew among the instances that there are: key groups, and shares of free rows."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import penstock as ps
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.levers import Levers
from penstock.engine.control.scale_actuator import HandedOut
from penstock.engine.control.size_orders import order_of
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.moves.move_orders import AskedMove, GroupsOrder, MoveSummary
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions, Mode
from penstock.model.errors import OptionError
from penstock.model.plan import BucketMove, Decision, RescalePlan, Route
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.loop_state import WITHOUT_EFFECT
from tests.engine.control.test_scale_control import COUNT, GRAPH, OneMore, Running, lines, live


@dataclass(frozen=True)
class HandsOut(OneMore):
    """A policy of a user's that gives key groups of the count to its second instance, and rows of the free edge."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism", "owners of buckets", "routes")
    groups: int = 3

    def decide(self, snapshot: ClusterSnapshot, memory: int) -> tuple[Decision, int]:
        buckets = tuple(BucketMove(self.task, bucket, 1) for bucket in range(self.groups))
        return RescalePlan("hand out", buckets=buckets), memory + 1


def handing_out(running: Running, folder: Path, mode: Mode) -> tuple[JobControl, str]:
    name = f"{__name__}:HandsOut"
    options = ControlOptions(folder / "actions.jsonl", Control(scale=name, mode=mode))
    plan = JobPlan("shop", GRAPH, LoopOptions(), folder)
    return start_control(plan, 0, options, lambda text: None, Levers(sizes=running.actuator())), name


def test_key_groups_are_handed_out_on_the_running_job(tmp_path: Path) -> None:
    running, taken = Running(), list[AskedMove]()
    steered, name = handing_out(running, tmp_path, "act")

    def turn() -> None:
        running.turn()
        if (asked := running.moves.take()) is not None:
            taken.append(asked)
            asked.answer.set_result(MoveSummary(3, 1, 10, 1.0, 1.0, 1.0))

    live(steered, 66, turn)
    (asked,) = taken
    assert asked.order == GroupsOrder(COUNT, ((0, 1), (1, 1), (2, 1)))
    assert not running.asked and not running.resized
    results = [entry for entry in lines(tmp_path / "actions.jsonl", name) if entry["kind"] == "result"]
    assert [entry["outcome"] for entry in results] == ["begun", "applied"]
    (moved,) = results[1]["detail"]["moved"].values()
    assert moved["key_groups"] == 3
    status = steered.scaling_status()
    assert status is not None and f"3 key groups of {COUNT} go to other instances, applied" in status.sentence()


def test_who_recommends_says_which_key_groups_and_moves_none(tmp_path: Path) -> None:
    running = Running()
    steered, _ = handing_out(running, tmp_path, "recommend")
    live(steered, 66, running.turn)
    assert running.moves.take() is None
    status = steered.scaling_status()
    assert status is not None and (status.moves, status.outcome) == (((COUNT, 3),), "recommended")


def test_key_groups_that_cannot_move_are_not_tried_again_as_things_are(tmp_path: Path) -> None:
    running = Running()
    running.moves.close(OptionError("it meets a broadcast side"))
    steered, name = handing_out(running, tmp_path, "act")
    live(steered, 140, running.turn)
    results = [entry for entry in lines(tmp_path / "actions.jsonl", name) if entry["kind"] == "result"]
    outcomes = [(entry["outcome"], entry["detail"].get("failure")) for entry in results]
    assert outcomes[:2] == [("begun", None), ("failed", "it meets a broadcast side")]
    assert [outcome for outcome, _ in outcomes[2:]] == ["recommended"] * (len(outcomes) - 2) and len(outcomes) > 2
    assert {each["why"] for entry in results[2:] for each in entry["detail"]["withheld"]} <= {WITHOUT_EFFECT}


def test_shares_of_rows_are_said_to_producers() -> None:
    job = ps.Job()
    rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job).rebalance().map_batches(lambda batch: batch)
    rows.name("mapped").write_black_hole()
    plan, running = job.plan(2, apart=True), Running()
    running.routes.open(ExitStack(), "shop")
    order = order_of(RescalePlan("", routes=(Route(0, (0.25, 0.75)),)), plan, ClusterSnapshot(1, 1.0, 1.0))
    actuator = running.actuator()
    actuator.begin(order, 0)
    result = actuator.turn(1)
    assert result is not None and isinstance(result.summary, HandedOut)
    assert running.routes.of(plan) == {"mapped": (0.25, 0.75)} == result.summary.routes
