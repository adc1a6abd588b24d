"""Moves that load shedding wants: one decision at a time, beside who scales, and told what came of them."""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.job_loop import JobLoop
from penstock.engine.control.load_shedding import LoadShedding, ShedCycle
from penstock.engine.control.move_actuator import MoveActuator
from penstock.engine.control.move_control import PART, SHED, MoveControl, can_move
from penstock.engine.moves.move_orders import MoveOrders, MoveSummary
from penstock.model.control import Control
from penstock.model.errors import OptionError
from penstock.model.keep_rates import KeepRates
from penstock.model.plan import Move, ShedPlan
from penstock.model.shedding_status import SheddingStatus
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.place_hints import WantedMove
from tests.engine.control.readings import graph
from tests.scheduler.hostile_cases import changed, job

SECOND_NS = 1_000_000_000
DONE = MoveSummary(64, 2, 1_000, 5.0, 2.0, 3.0)
GRAPH = graph()
COUNT = GRAPH.name(GRAPH.tasks[1])


def seen(time_s: float, **columns: Any) -> ClusterSnapshot:
    """Return a snapshot of a job on tm0, tm1 and tm2."""
    return changed(job(int(time_s), time_s, 5.0), columns)


class Moved:
    """A job whose load shedding wants moves, and what was asked of it."""

    def __init__(self, folder: Path, control: Control | None = None) -> None:
        self.orders = MoveOrders()
        self.orders.open()
        self.log = folder / "actions.jsonl"
        shedding = LoadShedding(GRAPH, control or Control("qod", "act"), moves=True)
        self.written = DecisionLog(self.log, print)
        self.actuator = MoveActuator(self.orders)
        self.control = MoveControl(GRAPH, shedding, self.actuator, self.written)
        self.loop = JobLoop(self.control.beside(()), None)
        self.control.begin(self.loop)
        self.loop.now_s(0)
        self.now_s = 0.0

    def cycle(self, *moves: Move, **columns: Any) -> Mapping[str, Any]:
        """Let five seconds go by, and load shedding want these moves."""
        self.now_s += 5.0
        snapshot = self.control.prepared(seen(self.now_s, **columns))
        plan = ShedPlan({}, {}, (1.0,) * len(snapshot.queries), "minimums do not fit", moves)
        status = SheddingStatus("qod", "act", plan.reason)
        return self.control.judge(ShedCycle(snapshot, plan, KeepRates(), frozenset(), status), self.now_ns)

    @property
    def now_ns(self) -> int:
        return int(self.now_s * SECOND_NS)

    def end(self, error: Exception | None = None) -> str:
        """Let the move that was asked for first end, and return its instance."""
        asked = self.orders.take()
        assert asked is not None
        answer: Future[MoveSummary] = asked.answer
        answer.set_result(DONE) if error is None else answer.set_exception(error)
        self.control.turn(self.now_ns)
        return asked.order.instance

    def results(self) -> list[Mapping[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["kind"] == "result"]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Callable[..., Moved]]:
    """Make jobs whose logs are closed in the end."""
    made: list[Moved] = []

    def make(control: Control | None = None) -> Moved:
        made.append(Moved(tmp_path, control))
        return made[-1]

    yield make
    for each in made:
        each.written.close()


MOVE = Move(2, 2, flagged=True)
"""The count's first instance, which is to leave the third machine's neighbour."""


def test_a_move_is_asked_for_once_and_its_end_is_told(jobs: Callable[..., Moved]) -> None:
    moved = jobs()
    said = moved.cycle(MOVE)
    (record,) = moved.orders.records()
    assert (record.instance, record.task_manager) == (f"{COUNT}[0]", "tm2")
    assert said["moves"]["expected"][0]["figure"] == "on tm2"
    # Nothing else begins while it is under way.
    withheld = moved.cycle(MOVE)["moves"]["withheld"]
    assert withheld[0]["why"] == "an action is in flight" and len(moved.orders.records()) == 1
    assert moved.control.prepared(seen(moved.now_s)).refusals.subject == ("job/split/1",)
    assert moved.end() == f"{COUNT}[0]"
    (result,) = moved.results()
    assert result["outcome"] == "applied" and result["detail"]["moved"][f"{COUNT}[0]"]["key_groups"] == 64
    assert "it settles for" in moved.cycle(MOVE)["moves"]["withheld"][0]["why"]


def test_a_part_of_a_chain_does_not_move_and_is_not_asked_for_again(jobs: Callable[..., Moved]) -> None:
    """Who sheds sees what is behind a branch as an instance, behind the four that the job has."""
    part, moved = Move(4, 2, flagged=True), jobs()
    moved.cycle(part)
    assert not moved.orders.records()
    moved.control.turn(moved.now_ns)
    (result,) = moved.results()
    assert (result["outcome"], result["detail"]["failed"]) == ("failed", {"job/count/1": PART})
    moved.now_s += 60.0
    assert "was without effect before" in moved.cycle(part)["moves"]["withheld"][0]["why"]


def test_what_is_to_move_is_known_while_it_is_wanted_or_under_way(jobs: Callable[..., Moved]) -> None:
    moved = jobs()
    wanted = (WantedMove("split", 1, "tm2"),)
    moved.cycle(MOVE)
    assert moved.control.wanted == wanted
    moved.cycle()
    assert moved.control.wanted == wanted
    moved.end()
    assert moved.control.wanted == ()
    # The job settles: what is withheld is wanted nevertheless.
    assert moved.cycle(MOVE)["moves"]["withheld"] and moved.control.wanted == wanted
    moved.cycle()
    assert moved.control.wanted == ()
    recommending = jobs(Control("qod", "recommend"))
    recommending.cycle(MOVE)
    assert recommending.control.wanted == ()


def test_what_is_wanted_ends_with_shedding_but_for_what_is_under_way(jobs: Callable[..., Moved]) -> None:
    moved = jobs()
    moved.cycle(MOVE)
    moved.control.rest()
    assert moved.control.wanted == (WantedMove("split", 1, "tm2"),)
    moved.end()
    moved.cycle(MOVE)
    assert moved.control.wanted
    moved.control.rest()
    assert moved.control.wanted == ()


def test_the_control_of_the_next_plan_is_told_how_a_move_has_ended(jobs: Callable[..., Moved]) -> None:
    moved = jobs()
    moved.cycle(MOVE)
    shedding = LoadShedding(GRAPH, Control("qod", "act"), moves=True)
    after = MoveControl(GRAPH, shedding, moved.actuator, moved.written)
    after.beside(())
    after.begin(moved.loop)
    after.follow(moved.control)
    moved.control = after
    assert moved.end(OptionError("it left")) == f"{COUNT}[0]"
    (result,) = moved.results()
    assert result["outcome"] == "failed" and after.wanted == () and not moved.loop.state.in_flight


def test_what_an_instance_had_is_seen_to_have_gone(jobs: Callable[..., Moved]) -> None:
    moved = jobs()
    moved.cycle(MOVE)
    moved.end()
    effects: list[Any] = []
    empty = {"instances.records_in": [10.0, 10.0, 0.0, 10.0, 10.0], "instances.machine": [0, 2, 1, 2, 1]}
    for _ in range(10):
        effects += moved.cycle(**empty).get("moves", {}).get("effects", [])
    assert [(item["figure"], item["observed"]) for item in effects] == [("on tm2", 1.0)]
    assert not moved.loop.state.fruitless


def test_a_move_that_cannot_be_made_is_not_tried_again_as_things_are(jobs: Callable[..., Moved]) -> None:
    moved = jobs()
    moved.cycle(MOVE)
    moved.end(OptionError("it has a single instance"))
    (result,) = moved.results()
    assert result["outcome"] == "failed" and result["detail"]["failed"] == {f"{COUNT}[0]": "it has a single instance"}
    whys = {moved.cycle(MOVE)["moves"]["withheld"][0]["why"].split(" for ")[0] for _ in range(12)}
    assert whys == {"it settles", "it was without effect before, and nothing has changed"}
    assert len(moved.orders.records()) == 1


def test_who_only_recommends_moves_nothing(jobs: Callable[..., Moved]) -> None:
    moved = jobs(Control("qod", "recommend"))
    assert moved.cycle(MOVE)["moves"]["expected"][0]["figure"] == "on tm2"
    assert not moved.orders.records() and not moved.loop.state.busy


@pytest.mark.parametrize("parallelism", [1, 2])
def test_moves_are_on_where_something_can_move(parallelism: int) -> None:
    orders = MoveActuator(MoveOrders())
    assert can_move(graph(parallelism), orders) is (parallelism == 2)
    assert not can_move(graph(2), None)
    shedding = LoadShedding(graph(2), Control("qod", "act"), moves=True)
    assert shedding.policy.policy.moves and replace(shedding.policy.policy, moves=False) != shedding.policy.policy
    assert not LoadShedding(graph(2), Control("qod", "act")).policy.policy.moves
    assert SHED == "qod"
