"""Figures of every task's state access, from a snapshot: theta, tau, flush stalls (Justin, section 4).

Read by `justin` and `memory_choice`.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.true_rates import NS_PER_S, or_nan, sum_by


@dataclass(frozen=True, slots=True, eq=False)
class StateAccess:
    """Columns by task; NaN: not measured.

    ``hit_rate``: theta in [0, 1]; 1 for a task without reads. ``latency_ms``: tau, mean of a get; 0 for a task without
    reads. ``gets``: accesses a second. ``stall_share``: flush stalls / wall, mean.
    ``managed_bytes``: mean budget of an instance.
    """

    hit_rate: Floats
    latency_ms: Floats
    gets: Floats
    stall_share: Floats
    managed_bytes: Floats


def state_access(snapshot: ClusterSnapshot) -> StateAccess:
    """Return the state access of every task.

    theta = sum of hits / sum of (hits + misses);   tau = sum of (hits + misses) * get_ms / sum of (hits + misses)

    Both over the instances of a task, in this window (Justin, section 4; the artifact's are since the start).
    """
    instances, tasks = snapshot.instances, len(snapshot.tasks)
    rows, task = len(instances), snapshot.instances.task
    hits = or_nan(instances.cache_hits, rows)
    gets = hits + or_nan(instances.cache_misses, rows)
    total = sum_by(task, gets, tasks)
    spent_ms = sum_by(task, np.where(gets == 0, 0.0, gets * or_nan(instances.get_ms, rows)), tasks)
    count = np.bincount(task, minlength=tasks).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return StateAccess(
            hit_rate=np.where(total == 0, 1.0, sum_by(task, hits, tasks) / total),
            latency_ms=np.where(total == 0, 0.0, spent_ms / total),
            gets=total / snapshot.window_s,
            stall_share=sum_by(task, or_nan(instances.flush_stall_ns, rows), tasks)
            / (count * snapshot.window_s * NS_PER_S),
            managed_bytes=sum_by(task, or_nan(instances.managed_bytes, rows), tasks) / count,
        )
