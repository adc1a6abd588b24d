"""Limits on plans, and the refusals that they cause. Used by `plan_limits` and its parts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.memory_levels import LEAST_BYTES
from penstock.model.snapshot import ClusterSnapshot, MachineColumns
from penstock.model.usable_machines import usable_machines

ONE_PER_CORE = "the quota of cores, each of which works one instance of a task at a time"
"""The reason of a refusal."""

OF_ALL = "the quota of all applications"
"""The same, where several share one."""


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The quotas.

    ``step_factor``: a task has at most so many times the instances it had, an application threads. ``most_parallelism``
    bounds a task, ``most_instances`` all tasks together. ``most_cores`` and ``most_memory_bytes`` bound all
    applications; None: what the machines have that can be used. ``one_per_core``: a task has at most an instance for
    each whole core of that, and one. ``least_memory_bytes`` and ``least_heap_bytes`` are floors of an application,
    ``least_task_bytes`` one of the state of an instance.
    ``lost_after_s``: a machine that was silent for so long gets no instance. ``slower``: a task that waits for a
    service so many times as long as usual does not grow; infinite: it may.
    """

    step_factor: float = 3.0
    most_parallelism: int = 32_768
    most_instances: int = 1_000_000
    most_cores: float | None = None
    most_memory_bytes: float | None = None
    least_memory_bytes: float = 64.0 * (1 << 20)
    least_heap_bytes: float = 0.0
    least_task_bytes: int = LEAST_BYTES
    lost_after_s: float = 10.0
    slower: float = 3.0
    one_per_core: bool = False

    def __post_init__(self) -> None:
        if not (self.step_factor > 1 and self.slower > 1):
            raise ValueError("step_factor and slower are above 1")
        if not (self.most_parallelism >= 1 and self.most_instances >= 1 and self.least_memory_bytes >= 0):
            raise ValueError("most_parallelism and most_instances are at least 1, least_memory_bytes at least 0")

    def cores_quota(self, machines: MachineColumns, usable: Bools) -> float:
        """Return the cores that all applications may have; infinite where no machine is known."""
        if self.most_cores is not None:
            return self.most_cores
        return float(machines.cores[usable].sum()) if len(machines) else np.inf

    def memory_quota(self, machines: MachineColumns, usable: Bools) -> float:
        """Return the bytes that all applications, or all state, may have; infinite where a machine's limit is not."""
        if self.most_memory_bytes is not None:
            return self.most_memory_bytes
        limit = machines.memory_limit_bytes
        if limit is None or not len(machines) or np.isnan(limit[usable]).any():
            return np.inf
        return float(limit[usable].sum())


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part of a plan that was removed or reduced, as in `RefusalColumns`."""

    subject: str
    what: str
    reason: str
    asked: float = np.nan
    granted: float = np.nan


class PlanBounds:
    """Bounds from a snapshot: present and maximal instances by task, and usable machines.

    ``refusals`` collects the refusals while a plan is checked.
    """

    def __init__(self, snapshot: ClusterSnapshot, limits: PlanLimits, vetoed: Bools) -> None:
        """Start without refusals; ``vetoed`` tasks may not grow."""
        self.snapshot, self.limits, self.vetoed = snapshot, limits, vetoed
        self.refusals: list[Refusal] = []
        self.now: NDArray[np.int64] = np.bincount(snapshot.instances.task, minlength=len(snapshot.tasks))
        self.usable = usable_machines(snapshot.machines, limits.lost_after_s)
        self.is_elsewhere = _has_no_tasks(snapshot)
        applications = snapshot.applications
        # Where no quota of cores was given, machines have cores for whoever is seen on them, and for nobody else.
        self.elsewhere_cores = 0.0 if limits.most_cores is None else _total(applications.cores, self.is_elsewhere)
        self.elsewhere_bytes = _total(applications.memory_bytes, self.is_elsewhere)
        self.most, self.why = self._most()

    def _most(self) -> tuple[NDArray[np.int64], list[str]]:
        snapshot, limits, now = self.snapshot, self.limits, self.now
        tasks = snapshot.tasks
        reader = snapshot.instances.task[snapshot.partitions.instance]
        partitions = np.bincount(reader, minlength=len(tasks))
        step = np.maximum(np.floor(limits.step_factor * np.maximum(now, 1)), now + 1)
        left = limits.cores_quota(snapshot.machines, self.usable) - self.elsewhere_cores
        cores = np.floor(left) if limits.one_per_core else np.inf
        bounds = [
            ("the quota of a task", np.full(len(tasks), float(limits.most_parallelism))),
            (ONE_PER_CORE, np.full(len(tasks), max(cores, 1.0))),
            (f"a step is at most x{limits.step_factor:g}", step),
            ("its key groups", np.where(tasks.is_keyed, np.maximum(tasks.key_groups, 1), np.inf)),
            ("its partitions", np.where(tasks.is_source & (partitions > 0), partitions, np.inf)),
            ("it waits for a service that falters", np.where(self.vetoed, np.maximum(now, 1), np.inf)),
        ]
        least = np.argmin(np.stack([values for _, values in bounds]), axis=0)
        most = np.min(np.stack([values for _, values in bounds]), axis=0)
        return np.maximum(most, 1).astype(np.int64), [bounds[place][0] for place in least.tolist()]

    def task(self, task: int) -> str:
        """Return a task's name with its application's."""
        tasks = self.snapshot.tasks
        return f"{self.snapshot.applications.name[tasks.application[task]]}/{tasks.name[task]}"

    def refuse(self, subject: str, what: str, reason: str, requested: float = np.nan, granted: float = np.nan) -> None:
        """Record that a request was refused, or granted only in part."""
        self.refusals.append(Refusal(subject, what, reason, requested, granted))


def _has_no_tasks(snapshot: ClusterSnapshot) -> Bools:
    """Return which applications have no tasks here, where others have: other jobs on the same quota."""
    is_other = np.full(len(snapshot.applications), bool(len(snapshot.tasks)), np.bool_)
    is_other[snapshot.tasks.application] = False
    return is_other


def _total(column: Floats | None, rows: Bools) -> float:
    return 0.0 if column is None else float(np.nansum(column[rows]))
