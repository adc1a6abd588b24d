"""How many task managers a job comes to when a policy sizes it: what all instances need together, and never fewer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.levers import Levers
from penstock.engine.control.part_reading import SENT
from penstock.engine.control.scale_actuator import SizeOrder
from penstock.engine.control.size_orders import order_of
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleSummary
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.plan import CoreNeed, RescalePlan, TaskSize
from tests.engine.control.readings import SECOND_NS, graph, job_places, machine, part
from tests.engine.control.test_scale_control import Running

GRAPH = graph(1)
SOURCE, COUNT = (GRAPH.name(task) for task in GRAPH.tasks)
OPERATORS = [node.name for node in GRAPH.graph.operators.values()]
OFFERED, NEEDS = 90.0, 0.85
"""Rows a second, and the part of a core that each of two tasks needs for them."""


class Spread(Running):
    """A job whose two instances share a loop, until they are placed anew on two."""

    def __init__(self, managers: int = 1) -> None:
        super().__init__()
        self.names = tuple(f"tm-{number}" for number in range(managers))
        self.managers.tell(TaskManagers(managers, self.names, warm=self.names))
        self.kept: list[bool] = []
        self.is_spread = False
        self.counts = {name: [0.0] * 4 for name in (SOURCE, COUNT)}

    def turn(self) -> None:
        """Let what was asked for be done."""
        while (order := self.managers.take()) is not None:
            self.resized.append(order.wanted)
            self.names = tuple(f"tm-{number}" for number in range(order.wanted))
            self.managers.tell(TaskManagers(order.wanted, self.names, warm=self.names))
        if (asked := self.rescales.take()) is not None:
            self.asked.append(asked.parallelism)
            self.kept.append(asked.keeps)
            self.is_spread = len(self.names) > 1
            asked.answer.set_result(RescaleSummary({}, asked.parallelism, 7, 1, 2, 3.0, 4.0))

    def live(self, control: JobControl, seconds: Sequence[int]) -> None:
        """Let the job run: on one core both take what their halves of it carry."""
        for second in seconds:
            self.turn()
            places = {f"{SOURCE}[0]": "tm-0", f"{COUNT}[0]": self.names[-1] if self.is_spread else "tm-0"}
            share = 1.0 if self.is_spread else 0.5 / NEEDS
            for counted in self.counts.values():
                for column, more in enumerate((OFFERED * share, NEEDS * share, 1.0 - NEEDS * share, 1.0)):
                    counted[column] += more
            for name in self.names:
                on_it = [task for task, of in enumerate((SOURCE, COUNT)) if places[f"{of}[0]"] == name]
                rows = {(task, 0): self._figures((SOURCE, COUNT)[task]) for task in on_it}
                taken = self.counts[SOURCE][0]
                log = {(0, 0): (taken, OFFERED * second - taken, OFFERED * second)} if 0 in on_it else {}
                read = part(second, rows, log)
                if 0 in on_it:
                    read = replace(read, sent=np.array([(0, 0, taken)], SENT))
                busy = sum(self.counts[(SOURCE, COUNT)[task]][1] for task in on_it)
                first = self.names.index(name)
                control.hear(name, machine(second, busy, [busy], first=first), read, second * SECOND_NS)
            control.tick(job_places(places, self.names), second * SECOND_NS)

    def _figures(self, task: str) -> Mapping[str, float]:
        taken, busy_s, rest_s, _ = self.counts[task]
        waits = "input_wait_ns" if self.is_spread else "core_wait_ns"
        busy = {"busy_ns": busy_s * 1e9, "cpu_ns": busy_s * 1e9}
        return {"is_running": 1, **busy, waits: rest_s * 1e9, "records_in": taken}


def started(running: Spread, folder: Path, policy: str, cores: float) -> JobControl:
    control = Control(scale=policy, mode="act", cores=cores)
    options = ControlOptions(folder / "actions.jsonl", control)
    levers = Levers(sizes=running.actuator(cores))
    return start_control(JobPlan("shop", GRAPH, LoopOptions(), folder), 0, options, lambda text: None, levers)


@pytest.mark.parametrize("policy", ["ds2", "ds2-fitted"])
def test_instances_that_share_a_loop_get_others_and_then_are_left_alone(tmp_path: Path, policy: str) -> None:
    running = Spread()
    control = started(running, tmp_path, policy, 8)
    running.live(control, range(1, 62))
    # Another task manager comes; nobody gets another number of instances, and none comes to it as it joins.
    assert running.resized == [2] and running.asked == [{}] and running.kept == [True], control.scaling_status()
    began = control.scaling_status()
    assert began is not None and "; instances placed anew on 2 cores, " in began.sentence()
    running.live(control, range(62, 200))
    control.close()
    assert running.resized == [2] and len(running.asked) == 1
    status = control.scaling_status()
    assert status is not None and status.changes == 1 and status.reason == "capacity suffices", status
    entries = [json.loads(line) for line in (tmp_path / "actions.jsonl").read_text().splitlines()]
    effects: list[dict[str, Any]] = [
        effect for it in entries if it["kind"] == "result" for effect in it["detail"].get("effects", ())
    ]
    assert [(it["figure"], it["expected"]) for it in effects] == [("busiest machine", pytest.approx(0.5))]
    assert effects[0]["observed"] == pytest.approx(0.5, abs=0.05)


class Alone(Spread):
    """The same job on a machine, or in a cluster, that has no other task manager to give."""

    def turn(self) -> None:
        while (order := self.managers.take()) is not None:
            self.resized.append(order.wanted)
            self.managers.tell(TaskManagers(order.wanted, self.names, warm=self.names))
        assert self.rescales.take() is None, "it would begin anew for nothing"


def test_where_no_task_manager_comes_nothing_begins_anew_and_it_is_not_tried_again(tmp_path: Path) -> None:
    running = Alone()
    control = started(running, tmp_path, "ds2", 8)
    running.live(control, range(1, 400))
    control.close()
    status = control.scaling_status()
    assert status is not None and status.changes == 0, status
    assert running.resized == [2, 1]
    entries = [json.loads(line) for line in (tmp_path / "actions.jsonl").read_text().splitlines()]
    (failed,) = [it for it in entries if it["kind"] == "result" and it["outcome"] == "failed"]
    assert failed["detail"]["failure"].startswith("no more than 1 task managers came of 2")


def test_without_another_core_the_quota_is_said(tmp_path: Path) -> None:
    running = Spread()
    control = started(running, tmp_path, "ds2", 1)
    running.live(control, range(1, 62))
    control.close()
    reasons = [item.decision.reason for item in redecide(tmp_path / "actions.jsonl", "ds2", {})]
    assert "refused: shop task managers: the quota of cores" in reasons, reasons
    assert not running.resized and not running.asked


@pytest.mark.parametrize(
    ("now", "quota", "after", "needs", "expected"),
    [
        (6, 8, 4, 3.2, 6),  # What grows frees none.
        (1, 8, 2, 2.4, 3),  # What all need together is more than the widest.
        (1, 8, 4, 2.4, 4),
        (1, 2, 2, 2.4, 2),
        (6, 8, 1, 2.4, 3),  # What shrinks frees what nobody needs.
        (6, 8, 1, 0.0, 1),
        (2, 8, 1, 4.5, 5),
    ],
)
def test_task_managers_are_as_many_as_cores_are_needed(
    now: int, quota: float, after: int, needs: float, expected: int
) -> None:
    order = SizeOrder(GRAPH, {}, after, needs=needs, grows=after > 1)
    assert order.task_managers(quota, now) == expected


def test_a_growth_frees_no_loop(tmp_path: Path) -> None:
    running = Spread(6)
    actuator = running.actuator(8)
    control = started(running, tmp_path, "ds2", 1)
    running.live(control, range(1, 62))
    control.close()
    *_, last = redecide(tmp_path / "actions.jsonl", "ds2", {})
    seen = last.snapshot
    plan = RescalePlan("", (TaskSize(1, 4),), cores=(CoreNeed(0, 3.2),))
    actuator.begin(order_of(plan, GRAPH, seen), 0)
    while (result := actuator.turn(0)) is None:
        running.turn()
    assert result.failure is None
    assert running.resized == [] and [max(asked.values()) for asked in running.asked] == [4]
    shrunk = order_of(RescalePlan("", (TaskSize(1, 1),), cores=(CoreNeed(0, 1.2),)), graph(4), seen)
    assert not shrunk.grows and shrunk.task_managers(8, 6) == 4, "the source has four still"
