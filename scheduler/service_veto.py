"""Tasks that wait for a remote service that falters: more instances would only wait with them.

Called by `guarded` under every scaler; `remote_guard` is Sage's own, which sees backlog and calls as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Bools
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.true_rates import or_nan, sum_by

WAITS = 0.5
"""Part of its time that a task waits for others before the wait is looked at."""
LEARNED, FORGOTTEN = 0.1, 1.02
"""Part of a window's wait per row that enters the usual one; what the usual grows by in a window that is vetoed."""

TaskName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class UsualWait:
    """Nanoseconds that a row usually waits for remote calls, by application and task."""

    ns_per_row: Mapping[TaskName, float] = field(default_factory=dict)


def faltering(snapshot: ClusterSnapshot, usual: UsualWait, factor: float) -> tuple[Bools, UsualWait]:
    """Return which tasks wait for a service that is slower than usual, by ``factor``, or hangs; and the usual waits.

    A service hangs if nothing comes back, or a row of a task seen for the first time waits for half of the window. What
    stays slower becomes usual in the end: threefold in about 55 windows.
    """
    tasks, count = snapshot.tasks, len(snapshot.tasks)
    instances = snapshot.instances
    wait_ns = sum_by(instances.task, or_nan(instances.remote_wait_ns, len(instances)), count)
    rows = sum_by(instances.task, or_nan(instances.records_in, len(instances)), count)
    parallelism = np.bincount(instances.task, minlength=count)
    wall_ns = parallelism * snapshot.window_s * 1e9
    waits = np.flatnonzero(wait_ns > 0)
    known = dict(usual.ns_per_row)
    found = np.zeros(count, np.bool_)
    for task in waits.tolist():
        name = (snapshot.applications.name[tasks.application[task]], tasks.name[task])
        before = known.get(name)
        each = wait_ns[task] / rows[task] if rows[task] > 0 else np.inf
        most = factor * before if before is not None else snapshot.window_s * 1e9 / 2
        if wait_ns[task] > WAITS * wall_ns[task] and each > most:
            found[task] = True
            if before is not None:
                known[name] = before * FORGOTTEN
        elif np.isfinite(each):
            known[name] = float(each if before is None else before + LEARNED * (each - before))
    return found, UsualWait(known)
