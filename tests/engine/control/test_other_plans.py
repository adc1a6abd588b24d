"""A job comes to another plan while its policies and their guards go on: what they have seen still counts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from penstock.engine.control.decision_replay import Redecided, redecide
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.levers import Levers
from penstock.engine.control.part_reading import SENT
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.running_memory import RunningMemory
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.memory_levels import managed_bytes
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import GOES_ON, EntryKind, read_log
from tests.engine.control.readings import MANAGERS, SECOND_NS, graph, job_places, machine, part, ran
from tests.engine.control.test_scale_control import AGG, COUNT, GRAPH, PLACES, SOURCE, Running, live

EVERY_S = 10
AT_ONCE = {"pace.interval_s": float(EVERY_S), "pace.warm_up_s": 0.0}
OFFERED = 90.0

Figures = Mapping[str, float]
"""What an instance of the count does in a second, beside being busy; "rows" are those that it takes."""


class Steered:
    """A job under a control, whose plan is changed by hand, and memory of its count, too."""

    def __init__(self, control: Control, folder: Path) -> None:
        self.log = folder / "actions.jsonl"
        self.name = control.scalers[0]
        self._options, self._folder = ControlOptions(self.log, control), folder
        self._memory = RunningMemory()
        self._second, self._began = 0, 0
        self.give(managed_bytes(0))
        self._count = 2
        self.control = self._start(None)

    def _start(self, before: JobControl | None) -> JobControl:
        plan = JobPlan("shop", graph(self._count), LoopOptions(), self._folder)
        levers, now_ns = Levers(memory=self._memory), self._second * SECOND_NS
        return start_control(plan, now_ns, self._options, lambda text: None, levers, before)

    def give(self, size: int) -> None:
        """Give each instance of the count so many bytes."""
        self._memory.change(GRAPH, LoopOptions(), {AGG: size}, paged=True)

    def come_to(self, instances: int, control: Control | None = None) -> None:
        """Let the job have another plan, with so many instances of each task, and another control if one is given."""
        self._options = replace(self._options, control=control or self._options.control)
        self._count, self._began = instances, self._second
        self.control.close()
        self.control = self._start(self.control)

    def live(self, seconds: int, figures: Figures) -> None:
        """Let the job run on for so long."""
        names = [(task, number) for task in (SOURCE, COUNT) for number in range(self._count)]
        places = {f"{task}[{number}]": MANAGERS[number % len(MANAGERS)] for task, number in names}
        for _ in range(seconds):
            self._second += 1
            self._hear(self._second - self._began, figures)
            self.control.tick(job_places(places), self._second * SECOND_NS)

    def _hear(self, ran_s: int, figures: Figures) -> None:
        """Let task managers say what instances have done since they began."""
        taken = figures["rows"] * ran_s
        own = {name: each * ran_s for name, each in figures.items() if name != "rows"}
        for at, name in enumerate(MANAGERS):
            numbers = range(at, self._count, len(MANAGERS))
            rows = {(0, number): ran(ran_s, 0.1 * ran_s, taken) for number in numbers}
            rows |= {(1, number): {**ran(ran_s, 0.0, taken), **own} for number in numbers}
            logs = {(0, number): (taken, (OFFERED - figures["rows"]) * ran_s, OFFERED * ran_s) for number in numbers}
            read = part(ran_s, rows, logs)
            read = replace(read, sent=np.array([(0, number, taken) for number in numbers], SENT))
            heard = machine(self._second, 0.5 * self._second, [0.9 * self._second])
            self.control.hear(name, heard, read, self._second * SECOND_NS)

    def decided(self) -> list[Redecided]:
        """Return what was decided, which is decided again from the log."""
        again = list(redecide(self.log, self.name, {}))
        assert again and all(item.same for item in again)
        return again

    def sizes(self) -> list[TaskSize | None]:
        """Return the size that each decision gives the count, None: it stays."""
        plans = [item.decision for item in self.decided()]
        given = [plan.tasks if isinstance(plan, RescalePlan) else () for plan in plans]
        return [next((size for size in sizes if size.task == 1), None) for sizes in given]


@pytest.fixture
def steer(tmp_path: Path) -> Iterator[Callable[[Control], Steered]]:
    """Return what starts a job, whose log is closed behind the test."""
    with ExitStack() as opened:

        def start(control: Control) -> Steered:
            steered = Steered(control, tmp_path)
            opened.callback(lambda: steered.control.close())
            return steered

        yield start


Steer = Callable[[Control], Steered]


def memory_of(steered: Steered) -> Any:
    """Return what the job's policy remembers, and its guards."""
    kept = steered.control.scale_memory
    assert kept is not None
    return kept.loop.state.memories[steered.name]


BUSY_NS = 0.97e9
SLOW_STATE = {"rows": 50.0, "busy_ns": BUSY_NS, "hits": 50.0, "misses": 50.0, "waited_ns": 100 * 2e6}
"""Half of the accesses miss, and take 2 ms, whatever memory there is."""


def test_memory_that_was_in_vain_is_not_given_again_over_the_instances_that_came_with_its_loss(steer: Steer) -> None:
    parameters = {f"ds2.{name}": value for name, value in AT_ONCE.items()}
    steered = steer(Control(scale="justin", parameters=parameters))
    steered.live(45, SLOW_STATE)
    assert [(size.parallelism, size.memory_level) for size in steered.sizes() if size] == [(2, 1)]
    steered.give(managed_bytes(1))
    steered.live(EVERY_S, SLOW_STATE)
    back = steered.sizes()[1]
    assert back is not None and back.memory_level == 0 and back.parallelism > 2
    steered.give(managed_bytes(0))
    steered.come_to(back.parallelism)
    steered.live(4 * EVERY_S, SLOW_STATE)
    after = [size for size in steered.sizes()[2:] if size is not None]
    assert [size.memory_level for size in after] == [None, None, None, 1]
    assert all(size.parallelism > back.parallelism for size in after[:3])


def test_a_curve_is_fitted_through_points_of_two_parallelisms(steer: Steer) -> None:
    parameters = {f"ds2.{name}": value for name, value in AT_ONCE.items()}
    steered = steer(Control(scale="ds2-fitted", parameters=parameters))
    steered.live(60, {"rows": 50.0, "busy_ns": BUSY_NS})
    steered.come_to(4)
    steered.live(60, {"rows": 40.0, "busy_ns": BUSY_NS})
    assert steered.decided()
    points = memory_of(steered).policy.points["shop", COUNT]
    assert dict(points) == pytest.approx({2.0: BUSY_NS / 50e9, 4.0: BUSY_NS / 40e9})


def test_a_service_that_is_slow_after_other_instances_have_come_is_still_slow(steer: Steer) -> None:
    calm = {"rows": 80.0, "busy_ns": 0.3e9, "remote_wait_ns": 0.05e9, "calls": 80.0, "call_ns": 0.05e9}
    slow = {"rows": 20.0, "busy_ns": 0.05e9, "remote_wait_ns": 0.9e9, "calls": 20.0, "call_ns": 0.9e9}
    steered = steer(Control(scale="ds2", parameters=AT_ONCE))
    steered.live(60, calm)
    seen = len(steered.decided())
    steered.come_to(4)
    steered.live(60, slow)
    after = steered.decided()[seen:]
    assert len(after) == 6 and all("waits for a service that falters" in item.decision.reason for item in after)
    assert steered.sizes()[seen:] == [None] * 6


def test_positions_that_went_back_to_a_checkpoint_with_another_plan_are_no_fault(steer: Steer) -> None:
    steered = steer(Control(scale="autoscaler", parameters=AT_ONCE))
    steered.live(60, {"rows": 50.0, "busy_ns": BUSY_NS})
    steered.come_to(2)
    steered.live(60, {"rows": 50.0, "busy_ns": BUSY_NS})
    assert not any("not measured" in item.decision.reason for item in steered.decided())
    begun = [entry.content for entry in read_log(steered.log) if entry.kind is EntryKind.POLICY]
    assert [entry.get(GOES_ON, False) for entry in begun if entry["policy"] == "autoscaler"] == [False, True]
    # Who places begins anew with each plan, as its clock does.
    assert [entry.get(GOES_ON, False) for entry in begun if entry["policy"] == "placement"] == [False, False]


def test_another_policy_or_other_parameters_begin_anew(steer: Steer) -> None:
    steered = steer(Control(scale="ds2-fitted", parameters={"ds2.pace.warm_up_s": 0.0}))
    steered.live(70, {"rows": 50.0, "busy_ns": BUSY_NS})
    assert memory_of(steered).policy.points
    steered.come_to(2, Control(scale="ds2-fitted", parameters={"keeps": 4}))
    assert not memory_of(steered).policy.points
    steered.come_to(2, Control(scale="ds2"))
    steered.live(1, {"rows": 50.0, "busy_ns": BUSY_NS})
    begun = [entry.content for entry in read_log(steered.log) if entry.kind is EntryKind.POLICY]
    assert not any(GOES_ON in entry for entry in begun)


@dataclass(frozen=True)
class AsksForNine:
    """A policy of a user's that asks for nine instances of the count once, and says then what it was granted."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism",)

    def start(self) -> int:
        return 0

    def decide(self, snapshot: ClusterSnapshot, memory: int) -> tuple[Decision, int]:
        if not memory:
            return RescalePlan("nine", (TaskSize(1, 9),)), 1
        told = snapshot.refusals
        if told.granted is None or told.asked is None:
            return NoChange("nothing was refused"), memory + 1
        rows = zip(told.what, told.asked.tolist(), told.granted.tolist(), strict=True)
        return NoChange("refused", {f"{what} {asked:g}": granted for what, asked, granted in rows}), memory + 1


def acted(folder: Path, name: str, then: Callable[[JobControl, Running], None]) -> None:
    """Let a policy act on a job, and then be that of the job's next plan."""
    running = Running()
    levers = Levers(sizes=running.actuator(3))
    options = ControlOptions(folder / "actions.jsonl", Control(scale=name, mode="act", cores=3))
    plan = JobPlan("shop", GRAPH, LoopOptions(), folder)
    steered = start_control(plan, 0, options, lambda text: None, levers)
    live(steered, 66, running.turn)
    assert [order[AGG] for order in running.asked] == [3]
    then(start_control(plan, 66 * SECOND_NS, options, lambda text: None, levers, steered), running)


def test_what_was_refused_of_a_plan_is_told_after_the_rest_of_it_was_done(tmp_path: Path) -> None:
    name = f"{__name__}:AsksForNine"
    acted(tmp_path, name, lambda after, running: live(after, 185, running.turn, since=66))
    again = list(redecide(tmp_path / "actions.jsonl", name, {}))
    assert all(item.same for item in again)
    granted, *later = [item.decision for item in again]
    assert isinstance(granted, RescalePlan) and granted.tasks == (TaskSize(1, 3),)
    assert later[0].numbers == {"parallelism 9": 3.0}
    assert later[1].reason == "nothing was refused"


def test_a_loss_ends_the_cool_down_and_silence_does_not(tmp_path: Path) -> None:
    """A task manager that hosts nothing is no loss, nor is one that leaves, or is stuck in a step and silent."""
    name, running = f"{__name__}:AsksForNine", Running()
    levers = Levers(sizes=running.actuator(3))
    options = ControlOptions(tmp_path / "actions.jsonl", Control(scale=name, mode="act", cores=3))
    plan = JobPlan("shop", GRAPH, LoopOptions(), tmp_path)
    steered = start_control(plan, 0, options, lambda text: None, levers)
    live(steered, 66, running.turn)
    steered = start_control(plan, 66 * SECOND_NS, options, lambda text: None, levers, steered)

    def settled_s() -> float:
        kept = steered.scale_memory
        assert kept is not None
        return kept.loop.state.settled_s["shop"]

    steered.tick(replace(job_places(PLACES), silent_s={"tm-0": 0.0, "tm-1": 60.0}), 67 * SECOND_NS)
    steered.forget("tm-1")
    steered.lose("tm-2", 68 * SECOND_NS)
    assert 60 < settled_s() < 67
    live(steered, 75, running.turn, since=68)
    assert 60 < settled_s() < 67
    # The next plan has not been looked at yet, and what was lost was that of this one.
    steered = start_control(plan, 75 * SECOND_NS, options, lambda text: None, levers, steered)
    steered.lose("tm-1", 76 * SECOND_NS)
    assert settled_s() == -np.inf
    live(steered, 80, running.turn, since=76)
    decided = [item.decision for item in redecide(tmp_path / "actions.jsonl", name, {})]
    assert len(decided) == 2, "it has decided again before 30 s were over"
