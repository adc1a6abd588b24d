"""What a job has and uses as a whole, as one row of a snapshot: for policies that size whole applications. Pure.

A task manager is a thread. Memory is that of state: the budgets of operators, which are all that bounds memory here; so
heap and memory are one, and reading state back from its pages stands for collecting garbage.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.engine.control.machine_load import MachineWindow
from penstock.engine.paging.options import budgets_of
from penstock.model.columns import Floats
from penstock.model.snapshot import ApplicationColumns, ClusterSnapshot
from penstock.scheduler.shared_quota import OtherHolding
from penstock.scheduler.true_rates import or_nan

_NEARLY = 0.8
"""The part of a budget from which on it counts as used up where state was looked for beyond it."""

NO_STATE_BYTES = 1.0
"""The memory of a job without state, of which nothing is used: no figure that is missing."""


def with_use(
    snapshot: ClusterSnapshot,
    windows: Sequence[MachineWindow],
    cores: float,
    threads: int,
    others: Sequence[OtherHolding] = (),
) -> ClusterSnapshot:
    """Return a snapshot of one job with what it has and uses, and what others have that share its quota.

    ``windows`` are those of its task managers, of which there are as many as ``threads``; ``cores`` are what they may
    use together. A figure that was not measured of one of them is missing of all.
    """
    heap, used, paged_ns = _state(snapshot)
    cpu_ns, throttled_ns, read_bytes, kills = _of_processes(windows, snapshot.window_s)
    if len(windows) < threads:
        cpu_ns = throttled_ns = read_bytes = np.nan
    columns = {
        "cores": cores,
        "memory_bytes": heap,
        "heap_bytes": heap,
        "threads": float(threads),
        "heap_used_bytes": used,
        "heap_committed_bytes": used,
        "resident_bytes": used,
        "gc_ns": paged_ns,
        "throttled_ns": throttled_ns,
        "cpu_ns": cpu_ns,
        "out_of_memory_kills": kills,
        "disk_io_bytes": read_bytes,
        "working_ns": _working_ns(snapshot),
    }
    unknown = {"cores": [it.cores for it in others], "memory_bytes": [it.memory_bytes for it in others]}
    missing = [np.nan] * len(others)
    names = (*snapshot.applications.name, *(item.name for item in others))
    rows = {name: np.array([own, *unknown.get(name, missing)], np.float64) for name, own in columns.items()}
    return replace(snapshot, applications=ApplicationColumns(names, **rows))


def with_others(snapshot: ClusterSnapshot, cores: float, others: Sequence[OtherHolding]) -> ClusterSnapshot:
    """Return a snapshot of one job with what it has, and what others have that share its quota, and no other figure.

    It is for who sizes tasks, whose plans are kept within what others leave.
    """
    held = {
        "cores": [cores, *(item.cores for item in others)],
        "memory_bytes": [_state(snapshot)[0], *(item.memory_bytes for item in others)],
    }
    names = (*snapshot.applications.name, *(item.name for item in others))
    rows = {name: np.array(values, np.float64) for name, values in held.items()}
    return replace(snapshot, applications=ApplicationColumns(names, **rows))


def _state(snapshot: ClusterSnapshot) -> tuple[float, float, float]:
    """Return the budgets of all state, the budgets that what is in memory needs, and the time that reading it took.

    Instances of a task have equal budgets: what the fullest needs counts for all. One that is nearly used up, and
    beyond which state was looked for, is: what is in memory swings by the parts that are let go. NaN: a budget has no
    bound.
    """
    instances, tasks = snapshot.instances, len(snapshot.tasks)
    is_stateful = snapshot.tasks.is_stateful
    if not is_stateful.any():
        return NO_STATE_BYTES, 0.0, 0.0
    count = np.bincount(instances.task, minlength=tasks)
    managed, state = (or_nan(column, len(instances)) for column in (instances.managed_bytes, instances.state_bytes))
    budget, held = np.zeros(tasks), np.zeros(tasks)
    np.fmax.at(budget, instances.task, managed)
    budget[instances.task[np.isnan(managed)]] = np.nan
    np.fmax.at(held, instances.task, state)
    # An instance's pages have a part of the budget beside its state.
    needed = np.where(held > 0, budgets_of(held), 0.0)
    misses = np.bincount(instances.task, np.nan_to_num(or_nan(instances.cache_misses, len(instances))), tasks)
    needed = np.where((misses > 0) & (needed >= _NEARLY * budget), np.fmax(needed, budget), needed)
    return (
        float((count * budget)[is_stateful].sum()),
        float((count * needed)[is_stateful].sum()),
        _paged_ns(snapshot, is_stateful),
    )


def _paged_ns(snapshot: ClusterSnapshot, is_stateful: np.ndarray) -> float:
    instances = snapshot.instances
    get_ms, hits, misses = (
        or_nan(column, len(instances)) for column in (instances.get_ms, instances.cache_hits, instances.cache_misses)
    )
    took: Floats = np.nan_to_num(get_ms * (hits + misses)) * 1e6
    return float(np.minimum(took, snapshot.window_s * 1e9)[is_stateful[instances.task]].sum())


def _working_ns(snapshot: ClusterSnapshot) -> float:
    """Return the time in which instances worked, or waited for answers: a loop that is another's is no wait for one."""
    instances = snapshot.instances
    busy, remote = (or_nan(column, len(instances)) for column in (instances.busy_ns, instances.remote_wait_ns))
    return float((busy + remote).sum())


def _of_processes(windows: Sequence[MachineWindow], window_s: float) -> tuple[float, float, float, float]:
    """Return CPU, time of rest and bytes read of all processes in the window, and the kills where they run."""
    totals, kills = np.zeros(3), 0.0
    for window in windows:
        before, after = window.before, window.after
        change = np.array(
            [
                after.cpu_ns - before.cpu_ns,
                after.throttled_ns - before.throttled_ns,
                after.read_bytes - before.read_bytes,
            ],
            np.float64,
        )
        totals += change * window_s * 1e9 / (after.time_ns - before.time_ns)
        # Task managers of one host see the same.
        kills = max(kills, after.kills - before.kills) if not np.isnan(after.kills - before.kills) else np.nan
    return float(totals[0]), float(totals[1]), float(totals[2]), kills
