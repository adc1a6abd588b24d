"""What a plan may ask for within its quotas, said once more and apart from the guards; and quotas to hold plans to."""

from collections.abc import Iterable

import numpy as np
import pytest

from penstock.model.columns import Floats
from penstock.model.plan import ApplicationSize, Decision, Placement, RescalePlan, ShedPlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.limits import PlanLimits
from penstock.scheduler.ownership import is_empty
from penstock.scheduler.plausible_readings import plausible_snapshot
from tests.scheduler.hostile_cases import GB

QUOTAS = PlanLimits(most_instances=9, most_parallelism=5, most_cores=4.5, most_memory_bytes=12 * GB, one_per_core=True)
ROUNDING = 1 + 1e-6


def drawn_quotas(rng: np.random.Generator) -> PlanLimits:
    """Return quotas from such as the job of `hostile_cases` exceeds already to such as never bind, or none given."""
    return PlanLimits(
        step_factor=float(rng.choice([1.5, 3.0, 9.0])),
        most_parallelism=int(rng.integers(1, 10)),
        most_instances=int(rng.choice([4, 5, 6, 7, 9, 12, 1_000])),
        most_cores=None if rng.random() < 0.25 else float(rng.choice([0.5, 1.0, 2.5, 4.5, 6.5, 8.0, 40.0])),
        most_memory_bytes=None if rng.random() < 0.25 else float(GB * 10.0 ** rng.uniform(-1, 2)),
        one_per_core=bool(rng.random() < 0.5),
    )


def within(decision: Decision, snapshot: ClusterSnapshot, limits: PlanLimits = QUOTAS) -> None:
    """Assert that a decision on such a job is one that a platform could carry out within its quotas.

    What is above a quota already may stay, and nothing is added to it. What is not known counts as nothing. That the
    cores of tasks are not added up is decision 155: a core works instances of several tasks, one of each at a time.
    """
    if is_empty(decision) and not isinstance(decision, ShedPlan):
        return
    readings = plausible_snapshot(snapshot, None, limits.lost_after_s)
    if isinstance(decision, RescalePlan):
        _tasks_within(decision, readings, limits)
        _applications_within(decision.applications, readings, limits)
        for route in decision.routes:
            assert sum(route.shares) == pytest.approx(1) and min(route.shares) >= 0
    elif isinstance(decision, ShedPlan):
        kept = [*decision.source_keep.values(), *decision.edge_keep.values(), *decision.desired_accuracy]
        assert all(0 <= value <= 1 for value in kept)
    if isinstance(decision, Placement | ShedPlan):
        usable = _usable(readings, limits)
        assert all(usable[move.machine] for move in decision.moves)


def _tasks_within(plan: RescalePlan, readings: ClusterSnapshot, limits: PlanLimits) -> None:
    tasks, instances = readings.tasks, readings.instances
    now = np.bincount(instances.task, minlength=len(tasks))
    has_bytes = np.zeros(len(tasks))
    for task, given in zip(instances.task, _known(instances.managed_bytes, len(instances)), strict=True):
        has_bytes[task] = max(has_bytes[task], given)
    after, gets_bytes = now.copy(), has_bytes.copy()
    cores = _quota(limits.most_cores, readings.machines.cores, readings, limits)
    if limits.most_cores is not None:
        cores -= float(_known(readings.applications.cores, len(readings.applications))[1:].sum())
    partitions = np.bincount(instances.task[readings.partitions.instance], minlength=len(tasks))
    assert len({size.task for size in plan.tasks}) == len(plan.tasks)
    for size in plan.tasks:
        has, gets = int(now[size.task]), size.parallelism
        after[size.task] = gets
        assert gets >= 1
        if gets > has:
            assert gets <= limits.most_parallelism
            assert gets <= max(int(limits.step_factor * has), has + 1)
            assert not limits.one_per_core or gets <= cores
            assert not tasks.is_keyed[size.task] or gets <= tasks.key_groups[size.task]
            assert not tasks.is_source[size.task] or gets <= partitions[size.task]
        if size.managed_bytes is not None:
            assert size.managed_bytes >= 0
            gets_bytes[size.task] = size.managed_bytes
    assert after.sum() <= max(limits.most_instances, now.sum()) or (after <= now).all()
    of_others = float(_known(readings.applications.memory_bytes, len(readings.applications))[1:].sum())
    quota = _quota(limits.most_memory_bytes, readings.machines.memory_limit_bytes, readings, limits) - of_others
    # Machines that come have memory of their own: without a quota only what instances get more of is bounded.
    if limits.most_memory_bytes is not None or (gets_bytes > has_bytes).any():
        assert float(after @ gets_bytes) <= max(quota, float(now @ has_bytes)) * ROUNDING


def _applications_within(given: Iterable[ApplicationSize], readings: ClusterSnapshot, limits: PlanLimits) -> None:
    applications, machines = readings.applications, readings.machines
    count = len(applications)
    has_cores, has_bytes = _known(applications.cores, count), _known(applications.memory_bytes, count)
    has_threads = _known(applications.threads, count)
    if limits.most_cores is None:
        has_cores[1:] = 0.0
    cores, memory = has_cores.copy(), has_bytes.copy()
    of_all = _quota(limits.most_memory_bytes, machines.memory_limit_bytes, readings, limits)
    for size in given:
        row = size.application
        for figure in (size.cores, size.memory_bytes, size.heap_bytes):
            assert figure is None or (np.isfinite(figure) and figure > 0)
        cores[row] = cores[row] if size.cores is None else size.cores
        memory[row] = memory[row] if size.memory_bytes is None else size.memory_bytes
        if size.threads is not None:
            instances = int((readings.tasks.application[readings.instances.task] == row).sum())
            has = has_threads[row] or instances
            assert 1 <= size.threads <= max(int(limits.step_factor * has), has + 1)
            assert size.threads <= max(limits.most_instances, has)
        # Heap that is given lies in the memory, or, where that is not known, in what others leave.
        room = memory[row] or of_all - float(memory.sum())
        assert size.heap_bytes is None or size.heap_bytes <= room * ROUNDING
    quota = _quota(limits.most_cores, machines.cores, readings, limits)
    assert cores.sum() <= max(quota, has_cores.sum()) * ROUNDING
    assert memory.sum() <= max(of_all, has_bytes.sum()) * ROUNDING


def _known(values: Floats | None, rows: int) -> Floats:
    return np.zeros(rows) if values is None else np.nan_to_num(values)


def _usable(readings: ClusterSnapshot, limits: PlanLimits) -> list[bool]:
    machines = readings.machines
    rows = len(machines)
    silent, has = _known(machines.heartbeat_age_s, rows), _known(machines.resident_bytes, rows)
    most = np.full(rows, np.inf) if machines.memory_limit_bytes is None else machines.memory_limit_bytes
    return [
        bool(machines.cores[row] > 0 and silent[row] <= limits.lost_after_s and not has[row] > most[row])
        for row in range(rows)
    ]


def _quota(given: float | None, of_machines: Floats | None, readings: ClusterSnapshot, limits: PlanLimits) -> float:
    """Return what is given, or else what the machines have that can be used; infinite where that is not known."""
    if given is not None:
        return given
    if of_machines is None:
        return float("inf")
    own = [float(of_machines[row]) for row, is_usable in enumerate(_usable(readings, limits)) if is_usable]
    return float("inf") if np.isnan(own).any() else sum(own)
