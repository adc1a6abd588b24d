"""A job of which a task manager is lost right after an action is not left alone: its cool-down has ended."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import penstock as ps
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from tests.contracts.executors.metered import LONG_S, until
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.test_scaling import LOW, check, end, started
from tests.contracts.executors.test_scaling_kills import hosts

pytestmark = pytest.mark.slow

PHASES = ((600.0, LOW),)


@dataclass(frozen=True)
class MoreMemoryOnce:
    """Who gives what keeps state twice the memory, once, and changes nothing then."""

    owns: ClassVar[tuple[str, ...]] = ("parallelism", "memory of operators")
    period_s: float = 1.0

    def start(self) -> bool:
        return False

    def decide(self, snapshot: ClusterSnapshot, memory: bool) -> tuple[Decision, bool]:
        (task, *_) = np.flatnonzero(snapshot.tasks.is_stateful).tolist()
        count = int((snapshot.instances.task == task).sum())
        if memory:
            return NoChange("it has more"), True
        return RescalePlan("more memory", (TaskSize(task, count, managed_bytes=16 << 20),)), True


def settled_s(steered: RecoveringJob) -> float | None:
    """Return since when the job has settled, None: nothing was seen of it yet."""
    attempt = steered._attempt
    assert attempt is None or isinstance(attempt, ManagedAttempt)
    kept = None if attempt is None else attempt._head.control.scale_memory
    return None if kept is None else kept.loop.state.settled_s.get("steps")


def test_a_task_manager_that_is_killed_ends_the_cool_down(tmp_path: Path) -> None:
    control = ps.Control(scale=f"{__name__}:MoreMemoryOnce", mode="act", cores=1)
    handle = started(tmp_path, control, PHASES, state_bytes=8 << 20, restart_delay="1ms")
    steered = running(handle)

    def kill() -> None:
        until(lambda: bool(hosts(steered)), handle)
        for process in hosts(steered):
            process.kill()

    # It settles since its start; that ends, too, and who scales acts at once.
    until(lambda: settled_s(steered) is not None, handle)
    kill()
    until(lambda: (done := handle.metrics().scaling) is not None and done.changes == 1, handle)
    assert (settled_s(steered) or 0.0) > 0.0
    kill()
    until(lambda: settled_s(steered) == -np.inf, handle)
    end(tmp_path)
    handle.wait(LONG_S)
    check(tmp_path, PHASES)
