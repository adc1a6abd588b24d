"""Memory of operators changes on a job that runs, as its scaler says: what falls first, what rises last."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.levers import Levers
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from tests.engine.control.test_scale_control import AGG, GRAPH, OneMore, Running, lines, live


@dataclass(frozen=True)
class OtherMemory(OneMore):
    """A policy of a user's that gives the count other memory, once, and so many instances."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism", "memory of operators")
    instances: int = 2
    memory: int = 8 << 20
    once: bool = True

    def decide(self, snapshot: ClusterSnapshot, memory: int) -> tuple[Decision, int]:
        if memory and self.once:
            return NoChange("it has it"), memory
        return RescalePlan("other memory", (TaskSize(self.task, self.instances, managed_bytes=self.memory),)), 1


def acting(
    running: Running, folder: Path, parameters: Mapping[str, Any], memory: str | None = None
) -> tuple[JobControl, str]:
    """Return the controllers of a job whose memory a policy changes, and the name of that."""
    name = f"{__name__}:OtherMemory"
    control = Control(scale=name, mode="act", cores=3, memory=memory, parameters=parameters)
    options = ControlOptions(folder / "actions.jsonl", control)
    bounded = LoopOptions(state_bytes=None if memory is None else 4 << 20)
    plan, actuator = JobPlan("shop", GRAPH, bounded, folder), running.actuator()
    return start_control(plan, 0, options, lambda text: None, Levers(sizes=actuator, memory=running.memory)), name


def test_memory_changes_in_place_without_other_instances(tmp_path: Path) -> None:
    running = Running()
    steered, name = acting(running, tmp_path, {})
    live(steered, 125, running.turn)
    assert running.memory.wanted == {AGG: 8 << 20} and not running.asked and not running.resized
    results = [entry for entry in lines(tmp_path / "actions.jsonl", name) if entry["kind"] == "result"]
    assert [entry["outcome"] for entry in results][:2] == ["begun", "applied"]
    assert results[1]["detail"]["operators"] == [
        {"operator": AGG, "instances": 2, "before_bytes": None, "after_bytes": 8 << 20}
    ]
    # Who decides next sees what holds.
    seen = [item.snapshot for item in redecide(tmp_path / "actions.jsonl", name, {"once": False})]
    managed = seen[-1].instances.managed_bytes
    assert managed is not None and managed[seen[-1].instances.task == 1].tolist() == [8 << 20, 8 << 20]


def test_memory_that_rises_comes_behind_other_instances_and_what_falls_before(tmp_path: Path) -> None:
    running = Running()
    running.memory.change(GRAPH, LoopOptions(), {AGG: 4 << 20}, paged=True)
    steered, _ = acting(running, tmp_path, {"instances": 1})
    seen: list[Mapping[str, int | None]] = []

    def turn() -> None:
        if running.rescales.is_waiting():
            seen.append(running.memory.wanted)
        running.turn()

    live(steered, 66, turn)
    assert seen == [{AGG: 4 << 20}] and running.memory.wanted == {AGG: 8 << 20}
    assert [order[AGG] for order in running.asked] == [1]
    running, seen, other = Running(), [], tmp_path / "other"
    other.mkdir()
    running.memory.change(GRAPH, LoopOptions(), {AGG: 16 << 20}, paged=True)
    steered, _ = acting(running, other, {"instances": 3})
    live(steered, 66, turn)
    assert seen == [{AGG: 8 << 20}] and [order[AGG] for order in running.asked] == [3]


def test_memory_beyond_the_quota_is_not_given(tmp_path: Path) -> None:
    running = Running()
    steered, name = acting(running, tmp_path, {}, memory="10MB")
    live(steered, 62, running.turn)
    assert not running.memory.wanted
    decided = [entry for entry in lines(tmp_path / "actions.jsonl", name) if entry["kind"] == "decision"]
    assert "memory: the quota of memory" in decided[0]["decision"]["reason"]
    assert running.memory.quota_bytes == 10_000_000


def test_memory_of_what_has_no_state_is_said_to_be_none(tmp_path: Path) -> None:
    running = Running()
    steered, name = acting(running, tmp_path, {"task": 0})
    live(steered, 62, running.turn)
    results = [entry for entry in lines(tmp_path / "actions.jsonl", name) if entry["kind"] == "result"]
    assert results[1]["detail"]["failure"] == "none of these tasks has state by keys, whose memory could change"
