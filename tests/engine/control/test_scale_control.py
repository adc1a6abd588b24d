"""The scaler of a job that runs: it looks once per its interval, and recommends to the log, which decides again."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.levers import Levers
from penstock.engine.control.part_reading import SENT
from penstock.engine.control.scale_actuator import ScaleActuator
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.manager_orders import ManagerOrders, TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleOrders, RescaleSummary
from penstock.engine.jobs.route_orders import RouteOrders
from penstock.engine.jobs.running_memory import MemorySummary, RunningMemory
from penstock.engine.moves.move_orders import MoveOrders
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from tests.engine.control.readings import MANAGERS, SECOND_NS, graph, job_places, machine, part, ran

GRAPH = graph()
SOURCE, COUNT = (GRAPH.name(task) for task in GRAPH.tasks)
AGG = "agg-1"
"""The operator of the count, by whose keys its state lies."""

PLACES = {f"{task}[{number}]": name for number, name in enumerate(MANAGERS) for task in (SOURCE, COUNT)}
OFFERED, TAKEN, BUSY = 90.0, 50.0, 0.99
"""Rows a second that come to an instance of the source, and that one of the count takes in so much of its time."""


@dataclass(frozen=True)
class OneMore:
    """A policy of a user's."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism",)
    task: int = 1

    def start(self) -> int:
        return 0

    def decide(self, snapshot: ClusterSnapshot, memory: int) -> tuple[Decision, int]:
        return RescalePlan("one more", (TaskSize(self.task, 2),), numbers={"seen": memory}), memory + 1


@dataclass(frozen=True)
class Looks:
    """A policy of a user's that looks once a second, and changes nothing."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism",)
    period_s: float = 1.0

    def start(self) -> None:
        return None

    def decide(self, snapshot: ClusterSnapshot, memory: None) -> tuple[Decision, None]:
        return NoChange("it only looks"), None


@dataclass(frozen=True)
class ShedsToo(OneMore):
    """A policy of a user's that also sheds."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism", "keep rates")


@dataclass(frozen=True)
class MovesToo(OneMore):
    """A policy of a user's that also moves instances."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism", "moves of running instances")


@dataclass(frozen=True)
class SaysNothing(OneMore):
    """A policy of a user's that does not say what it decides on."""

    owns: ClassVar[tuple[str, ...]] = ()


def started(
    control: Control, folder: Path, log: str | None = "actions.jsonl", state_bytes: int | None = None
) -> JobControl:
    plan = JobPlan("shop", GRAPH, LoopOptions(state_bytes=state_bytes), folder)
    options = ControlOptions(None if log is None else folder / log, control)
    return start_control(plan, 0, options, lambda text: None)


def live(control: JobControl, seconds: int, meanwhile: Callable[[], None] = lambda: None, since: int = 0) -> None:
    """Let the job run up to so many seconds: more comes than the count can take."""
    for second in range(1 + since, 1 + seconds):
        meanwhile()
        taken = TAKEN * second
        for number, name in enumerate(MANAGERS):
            rows = {(0, number): ran(second, 0.1 * second, taken), (1, number): ran(second, BUSY * second, taken)}
            read = part(second, rows, {(0, number): (taken, (OFFERED - TAKEN) * second, OFFERED * second)})
            read = replace(read, sent=np.array([(0, number, taken)], SENT))
            control.hear(name, machine(second, 0.5 * second, [0.9 * second]), read, second * SECOND_NS)
        control.tick(job_places(PLACES), second * SECOND_NS)
    control.close()


def lines(path: Path, policy: str) -> list[Mapping[str, Any]]:
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [entry for entry in entries if entry.get("policy") == policy]


def test_a_job_that_cannot_keep_up_is_recommended_the_instances_that_it_needs(tmp_path: Path) -> None:
    live(started(Control(scale="ds2", cores=4, memory="4GB"), tmp_path, state_bytes=64_000_000), 60)
    entries = lines(tmp_path / "actions.jsonl", "ds2")
    begun, *rest = entries
    assert begun["parameters"]["limits.most_cores"] == 4 and begun["parameters"]["limits.most_memory_bytes"] == 4e9
    decided = [entry for entry in rest if entry["kind"] == "decision"]
    assert decided[0]["decision"]["kind"] == "RescalePlan", decided[0]
    # 180 rows a second come, and 50 take 0.99 of an instance.
    # So would the source, which is busy for a tenth of its time, do with one instance.
    assert {size["task"]: size["parallelism"] for size in decided[0]["decision"]["tasks"]} == {0: 1, 1: 4}
    (result,) = [entry for entry in rest if entry["kind"] == "result" and entry["snapshot"] == decided[0]["snapshot"]]
    assert result["outcome"] == "recommended"
    expected = {item["figure"]: item["after"] for item in result["detail"]["expected"] if COUNT in item["subject"]}
    assert expected["instances"] == 4 and expected["capacity"] == pytest.approx(4 * TAKEN / BUSY)
    again = list(redecide(tmp_path / "actions.jsonl", "ds2", {}))
    assert len(again) == len(decided) and all(item.same for item in again)


def test_it_looks_once_per_its_interval_at_all_of_it(tmp_path: Path) -> None:
    live(started(Control(scale="flink-er", parameters={"period_s": 30.0}), tmp_path), 125)
    seen = [item.snapshot for item in redecide(tmp_path / "actions.jsonl", "flink-er", {})]
    assert [(round(each.time_s), round(each.window_s)) for each in seen] == [(61, 30), (91, 30), (121, 30)]


def test_a_look_waits_for_readings_that_come_more_slowly_than_it(tmp_path: Path) -> None:
    """Task managers read every 1.25 s, and from 80 s on one of them is silent."""
    name, silent_s = f"{__name__}:Looks", 80.0
    control = started(Control(scale=name), tmp_path)
    read = 0
    for second in range(1, 91):
        while (at_s := 1.25 * (read + 1)) <= second:
            read += 1
            for number, manager in enumerate(MANAGERS[: 2 if at_s <= silent_s else 1]):
                rows = {(task, number): ran(at_s, 0.5 * at_s, 100.0 * at_s) for task in (0, 1)}
                of_now = part(at_s, rows, {(0, number): (100.0 * at_s, 0.0, 100.0 * at_s)})
                control.hear(manager, machine(at_s, 0.5 * at_s, [0.9 * at_s]), of_now, second * SECOND_NS)
        control.tick(job_places(PLACES), second * SECOND_NS)
    control.close()
    seen = [item.snapshot for item in redecide(tmp_path / "actions.jsonl", name, {})]
    steady = [each for each in seen if 40 <= each.time_s <= silent_s]
    # Of five seconds one has no reading.
    assert len(steady) == pytest.approx(0.8 * 40, abs=2)
    for each in steady:
        assert each.instances.records_in is not None
        assert (each.instances.records_in / each.window_s).tolist() == pytest.approx([100.0] * 4)
    lost = [each for each in seen if each.time_s > silent_s + 5]
    assert lost and all(each.instances.records_in is not None for each in lost)
    for each in lost:
        assert (
            each.instances.records_in is not None and np.isnan(each.instances.records_in).tolist() == [False, True] * 2
        )


def test_a_class_of_a_users_decides_by_its_parameters(tmp_path: Path) -> None:
    name = f"{__name__}:OneMore"
    live(started(Control(scale=name, parameters={"task": 1}), tmp_path), 70)
    decided = [entry for entry in lines(tmp_path / "actions.jsonl", name) if entry["kind"] == "decision"]
    assert decided[0]["decision"]["tasks"][0]["parallelism"] == 2
    assert all(item.same for item in redecide(tmp_path / "actions.jsonl", name, {}))


@pytest.mark.parametrize(
    ("control", "sentence"),
    [
        (Control(scale="ds3"), "there is no policy 'ds3'; choose from autoscaler, ds2, .* or name a class of yours as"),
        (
            Control(scale="ds2", parameters={"pace": {"every": 3}}),
            "'ds2' has no parameter 'pace.every'; it has pace.int",
        ),
        (
            Control(scale="qod"),
            "'qod' decides on keep rates and moves of running instances, and not on sizes: scale is aut",
        ),
        (
            Control("qod", scale=f"{__name__}:ShedsToo"),
            "'qod' and '.*ShedsToo' both decide on keep rates, and would undo",
        ),
        (
            Control(scale=f"{__name__}:ShedsToo"),
            "scale='.*ShedsToo' decides on keep rates, too, which who scales does not change: leave them out of",
        ),
        (
            Control(scale=f"{__name__}:MovesToo", mode="act"),
            "'.*MovesToo' decides on moves of running instances, too, .* sheds, as shed='qod', or a class of",
        ),
        (Control(scale="no.such:Thing"), "policy 'no.such:Thing' cannot be had: No module named 'no'"),
        (Control(scale="math:pi"), "'math:pi' is no policy: it is a frozen dataclass with"),
        (Control(scale=f"{__name__}:SaysNothing"), "does not say what it decides on: give its class an attribute owns"),
    ],
)
def test_what_there_is_not_is_refused_before_the_log_is_made(control: Control, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=sentence):
        started(control, tmp_path)
    assert not (tmp_path / "actions.jsonl").exists()


class Running:
    """A job that does what it is asked for: its orders, and what it was asked for."""

    def __init__(self) -> None:
        self.rescales, self.managers = RescaleOrders(), ManagerOrders()
        self.moves, self.routes = MoveOrders(), RouteOrders()
        self.moves.open()
        self.rescales.open(lambda: None)
        self.managers.open(lambda: None)
        self.managers.tell(TaskManagers(2, MANAGERS, warm=MANAGERS))
        self.memory = RunningMemory()
        self.asked: list[Mapping[str, int]] = []
        self.resized: list[int] = []

    def actuator(self, cores: float | None = None) -> ScaleActuator:
        def change(graph: ExecutionGraph, budgets: Mapping[str, int]) -> MemorySummary:
            return self.memory.change(graph, LoopOptions(), budgets, paged=True)

        return ScaleActuator(self.rescales, self.managers, cores, change, (self.moves, self.routes))

    def turn(self) -> None:
        """Let what was asked for be done."""
        while (order := self.managers.take()) is not None:
            self.resized.append(order.wanted)
            names = tuple(f"tm-{number}" for number in range(order.wanted))
            self.managers.tell(TaskManagers(order.wanted, names, warm=names))
        if (asked := self.rescales.take()) is not None:
            self.asked.append(asked.parallelism)
            asked.answer.set_result(RescaleSummary({}, asked.parallelism, 7, 1, 2, 3.0, 4.0))


def test_who_acts_gets_task_managers_first_and_then_instances(tmp_path: Path) -> None:
    running, control = Running(), Control(scale="ds2", mode="act", cores=3)
    actuator = running.actuator(3)
    plan = JobPlan("shop", GRAPH, LoopOptions(), tmp_path)
    options = ControlOptions(tmp_path / "actions.jsonl", control)
    steered = start_control(plan, 0, options, lambda text: None, Levers(sizes=actuator))
    live(steered, 62, running.turn)
    (asked,) = running.asked
    assert running.resized == [3] and set(asked) == {node.name for node in GRAPH.graph.operators.values()}
    # Four are wanted, and the quota has cores for three.
    assert max(asked.values()) == 3
    results = [entry for entry in lines(tmp_path / "actions.jsonl", "ds2") if entry["kind"] == "result"]
    assert [entry["outcome"] for entry in results] == ["begun", "applied"]
    assert results[1]["detail"]["epoch"] == 7
    status = steered.scaling_status()
    assert status is not None and (status.outcome, status.changes) == ("applied", 1)
    assert f"3 instances of {COUNT} (now 2), applied; 1 change so far" in status.sentence()
    assert "refused: " in status.sentence() and "the quota of cores, each of which works one" in status.sentence()
    # The controllers of the next plan know that the job settles, and leave it alone.
    after = start_control(plan, 62 * SECOND_NS, options, lambda text: None, Levers(sizes=actuator), before=steered)
    live(after, 80, running.turn, since=62)
    assert len(running.asked) == 1


def test_instances_come_to_a_job_whose_task_managers_have_nothing_free(tmp_path: Path) -> None:
    """With them comes a task manager, as far as the quota goes."""
    live(started(Control(scale="flink-er", cores=4), tmp_path), 60)
    plans = [entry["decision"] for entry in lines(tmp_path / "actions.jsonl", "flink-er") if "decision" in entry]
    wanted = [plan["tasks"] for plan in plans if plan["kind"] == "RescalePlan"]
    assert wanted and [(size["task"], size["parallelism"]) for size in wanted[0]] == [(1, 4)], plans[-1]


@pytest.mark.parametrize("detector", ["paper", "literal"])
def test_detectors_that_begin_with_the_network_say_so_on_a_job(tmp_path: Path, detector: str) -> None:
    live(started(Control(scale="flink-er", parameters={"detector": detector}), tmp_path), 60)
    said = {
        entry["decision"]["reason"] for entry in lines(tmp_path / "actions.jsonl", "flink-er") if "decision" in entry
    }
    assert said == {"not measured: machines.network_limit_bytes and edges.row_bytes"}


def test_what_cannot_be_done_is_kept_with_its_reason(tmp_path: Path) -> None:
    running = Running()
    running.rescales.close(OptionError("the job is over"))
    plan = JobPlan("shop", GRAPH, LoopOptions(), tmp_path)
    options = ControlOptions(tmp_path / "actions.jsonl", Control(scale="ds2", mode="act", cores=4))
    actuator = running.actuator()
    steered = start_control(plan, 0, options, lambda text: None, Levers(sizes=actuator))
    live(steered, 62, running.turn)
    assert running.resized == []
    results = [entry for entry in lines(tmp_path / "actions.jsonl", "ds2") if entry["kind"] == "result"]
    assert [(entry["outcome"], entry["detail"].get("failure")) for entry in results] == [
        ("begun", None),
        ("failed", "the job is over"),
    ]
    status = steered.scaling_status()
    assert status is not None and status.sentence().endswith("failed: the job is over")


def test_who_cannot_act_says_what_is_lacking(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="mode='act' changes parallelism and task managers: run the job with"):
        started(Control(scale="ds2", mode="act"), tmp_path)


def test_who_scales_recommends_beside_who_sheds_and_acts(tmp_path: Path) -> None:
    steered = started(Control("qod", scale="ds2", mode="shed"), tmp_path)
    assert steered.shedding is not None and steered.shedding.is_acting and steered.shedding.mode == "act"
    live(steered, 62)
    results = [entry for entry in lines(tmp_path / "actions.jsonl", "ds2") if entry["kind"] == "result"]
    assert [entry["outcome"] for entry in results] == ["recommended"]
    status = steered.scaling_status()
    assert status is not None and status.mode == "recommend"


def test_who_scales_acts_beside_who_sheds_and_recommends(tmp_path: Path) -> None:
    running = Running()
    options = ControlOptions(tmp_path / "actions.jsonl", Control("qod", scale="ds2", mode="scale", cores=4))
    plan, actuator = JobPlan("shop", GRAPH, LoopOptions(), tmp_path), running.actuator()
    steered = start_control(plan, 0, options, lambda text: None, Levers(sizes=actuator))
    assert steered.shedding is not None and not steered.shedding.is_acting and steered.shedding.mode == "recommend"
    live(steered, 62, running.turn)
    assert len(running.asked) == 1
    results = [entry for entry in lines(tmp_path / "actions.jsonl", "qod") if entry["kind"] == "result"]
    assert {entry["outcome"] for entry in results} <= {"recommended"}
    with pytest.raises(OptionError, match="or 'shed' to let who sheds act alone"):
        started(Control("qod", scale="ds2", mode="scale"), tmp_path / "other")


def test_recommendations_need_a_log(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="its recommendations go to the action log: say action_log='FILE'"):
        started(Control(scale="ds2"), tmp_path, None)
