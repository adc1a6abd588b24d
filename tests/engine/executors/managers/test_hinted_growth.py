"""Instances that a scaler decides on start where there is memory for them, on task managers without a process."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.engine.control import job_loop
from penstock.engine.control.levers import Levers
from penstock.engine.core.clock import ManualClock
from penstock.engine.dataflow.attempt_start import FIRST
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.pool_news import News, Said
from penstock.engine.jobs.attempt import AttemptContext
from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.plan.recut import recut
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.plan import Decision, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from tests.engine.control.readings import SECOND_NS, machine, part, ran
from tests.engine.control.test_scale_control import AGG, Running
from tests.engine.executors.managers.scripted_managers import Scene

MIB = 1 << 20
EACH = 64 * MIB
"""What each instance is to have."""

FREE = {"tm-0": 900 * MIB, "tm-1": 900 * MIB, "tm-2": EACH - MIB, "tm-3": EACH + MIB}
"""Memory that task managers have free; the one that has less CPU free than the third has enough for an instance."""

FOREIGN = {"tm-3": 0.3}
"""The share of their cores that something else takes."""


@dataclass(frozen=True)
class OneMore:
    """A policy that adds an instance to the count, and says how much memory each has."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism", "memory of operators")
    period_s: float = 1.0

    def start(self) -> None:
        return None

    def decide(self, snapshot: ClusterSnapshot, memory: None) -> tuple[Decision, None]:
        return RescalePlan("one more", (TaskSize(1, 3, managed_bytes=EACH),)), None


@dataclass(frozen=True)
class OneMoreAlone(OneMore):
    """A policy that says nothing of memory."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism",)

    def decide(self, snapshot: ClusterSnapshot, memory: None) -> tuple[Decision, None]:
        return RescalePlan("one more", (TaskSize(1, 3),)), None


def hear(scene: Scene, second: int) -> None:
    """Let all task managers be heard, of which the first two have an instance of each task."""
    for number, (name, free) in enumerate(FREE.items()):
        taken = 0.1 * second * (number < 2)
        busy = [taken + FOREIGN.get(name, 0.0) * second]
        of_it = machine(second, taken, busy, host=name)
        of_it = replace(of_it, memory_bytes=of_it.resident_bytes + free, memory_group=name)
        rows = {(task, number): ran(second, 0.05 * second) for task in (0, 1)} if number < 2 else {}
        scene.head.control.hear(name, of_it, part(second, rows), second * SECOND_NS)


@pytest.mark.parametrize(("policy", "place"), [(OneMore, "tm-3"), (OneMoreAlone, "tm-2")])
def test_a_new_instance_starts_where_its_memory_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: type[OneMore], place: str
) -> None:
    monkeypatch.setattr(job_loop, "COOL_DOWN_S", 1.0)
    running, names = Running(), tuple(FREE)
    running.managers.tell(TaskManagers(len(names), names, warm=names))
    control = Control(scale=f"{__name__}:{policy.__name__}", mode="act", cores=4)
    scene = Scene(
        tmp_path,
        len(names),
        clock=ManualClock(),
        control=ControlOptions(tmp_path / "actions.jsonl", control),
        levers=Levers(sizes=running.actuator(4), memory=running.memory),
    )

    def take(news: News) -> None:
        if isinstance(news, Said) and isinstance(news.message, ms.Deployed):
            deployments.hear(news.manager, news.message)

    with scene.head as head:
        graph = scene.plan.graph
        tasks = frozenset(task.id for task in graph.tasks)
        deployments = Deployments(graph, head, AttemptContext(scene.clock), take)
        managers = head.await_managers(take)
        deployments.deploy(tasks, managers, FIRST, None)
        for second in range(1, 20):
            hear(scene, second)
            head.control.tick(head.places(deployments.places()), second * SECOND_NS)
            if running.rescales.is_waiting():
                break
        asked = running.rescales.take()
        assert asked is not None and asked.parallelism[AGG] == 3
        wide = recut(graph, {AGG: 3}, LoopOptions().key_groups)
        head.come_to(replace(scene.plan, graph=wide))
        deployments.graph = wide
        (new,) = set(wide.instances(wide.tasks[1])) - set(graph.instances(graph.tasks[1]))
        assert deployments.grow(tasks, {new}, managers, {}).places == {new: place}
