"""The scaler of a job that runs: it looks once per its interval, and recommends to the log, which decides again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.part_reading import SENT, PartReading
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.errors import OptionError
from penstock.model.plan import Decision, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from tests.engine.control.readings import MANAGERS, SECOND_NS, graph, job_places, machine, part, ran

GRAPH = graph()
SOURCE, COUNT = (GRAPH.name(task) for task in GRAPH.tasks)
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
class ShedsToo(OneMore):
    """A policy of a user's that also sheds."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism", "keep rates")


@dataclass(frozen=True)
class SaysNothing(OneMore):
    """A policy of a user's that does not say what it decides on."""

    owns: ClassVar[tuple[str, ...]] = ()


def started(control: Control, folder: Path, log: str | None = "actions.jsonl") -> JobControl:
    plan = JobPlan("shop", GRAPH, LoopOptions(), folder)
    options = ControlOptions(None if log is None else folder / log, control)
    return start_control(plan, 0, options, lambda text: None)


def live(control: JobControl, seconds: int) -> None:
    """Let the job run for so many seconds: more comes than the count can take."""
    for second in range(1, 1 + seconds):
        taken = TAKEN * second
        for number, name in enumerate(MANAGERS):
            rows = {(0, number): ran(second, 0.1 * second, taken), (1, number): ran(second, BUSY * second, taken)}
            read = part(second, rows, {(0, number): (taken, (OFFERED - TAKEN) * second, OFFERED * second)})
            sent = pa.table([pa.array([value]) for value in (0, number, taken)], SENT)
            read = PartReading(read.time_ns, read.instances, sent, read.received, read.partitions)
            control.hear(name, machine(second, 0.5 * second, [0.9 * second]), read, second * SECOND_NS)
        control.tick(job_places(PLACES), second * SECOND_NS)
    control.close()


def lines(path: Path, policy: str) -> list[Mapping[str, Any]]:
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [entry for entry in entries if entry.get("policy") == policy]


def test_a_job_that_cannot_keep_up_is_recommended_the_instances_that_it_needs(tmp_path: Path) -> None:
    live(started(Control(scale="ds2", cores=4, memory="4GB"), tmp_path), 60)
    entries = lines(tmp_path / "actions.jsonl", "ds2")
    begun, *rest = entries
    assert begun["parameters"]["limits.most_cores"] == 4 and begun["parameters"]["limits.most_memory_bytes"] == 4e9
    decided = [entry for entry in rest if entry["kind"] == "decision"]
    assert decided[0]["decision"]["kind"] == "RescalePlan", decided[0]
    # 180 rows a second come, and 50 take 0.99 of an instance.
    (size,) = decided[0]["decision"]["tasks"]
    assert (size["task"], size["parallelism"]) == (1, 4)
    (result,) = [entry for entry in rest if entry["kind"] == "result" and entry["snapshot"] == decided[0]["snapshot"]]
    assert result["outcome"] == "recommended"
    expected = {item["figure"]: item["after"] for item in result["detail"]["expected"]}
    assert expected["instances"] == 4 and expected["capacity"] == pytest.approx(4 * TAKEN / BUSY)
    again = list(redecide(tmp_path / "actions.jsonl", "ds2", {}))
    assert len(again) == len(decided) and all(item.same for item in again)


def test_it_looks_once_per_its_interval_at_all_of_it(tmp_path: Path) -> None:
    live(started(Control(scale="flink-er"), tmp_path), 125)
    seen = [item.snapshot for item in redecide(tmp_path / "actions.jsonl", "flink-er", {})]
    assert [(round(each.time_s), round(each.window_s)) for each in seen] == [(61, 30), (91, 30), (121, 30)]


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
        (Control(scale="no.such:Thing"), "policy 'no.such:Thing' cannot be had: No module named 'no'"),
        (Control(scale="math:pi"), "'math:pi' is no policy: it is a frozen dataclass with"),
        (Control(scale=f"{__name__}:SaysNothing"), "does not say what it decides on: give its class an attribute owns"),
    ],
)
def test_what_there_is_not_is_refused_before_the_log_is_made(control: Control, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=sentence):
        started(control, tmp_path)
    assert not (tmp_path / "actions.jsonl").exists()


def test_recommendations_need_a_log(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="its recommendations go to the action log: say action_log='FILE'"):
        started(Control(scale="ds2"), tmp_path, None)
