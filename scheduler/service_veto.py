"""A veto on growing tasks that wait for a faltering remote service: more instances would only wait too.

Called by `guarded` under every scaler; `remote_guard` is Sage's own, which also reads backlog and calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Bools
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.true_rates import or_nan, sum_by

WAITS = 0.5
"""The share of its time that a task must wait for remote calls before the wait is checked."""
LEARNED, FORGOTTEN = 0.1, 1.02
"""The weight of a window's wait per row in the usual one; the factor by which the latter grows in a vetoed window."""

TaskName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class UsualWait:
    """The usual wait of a row for remote calls (ns), by application and task; of a call, where that is measured."""

    ns_per_row: Mapping[TaskName, float] = field(default_factory=dict)


def service_vetoes(snapshot: ClusterSnapshot, usual: UsualWait, factor: float) -> tuple[Bools, UsualWait]:
    """Return the tasks whose service is slower than usual by ``factor``, or hangs; and the usual waits of those there.

    A service hangs if no call returns, or if a row of a new task waits for half of the window. A lasting slowdown
    becomes usual in the end: threefold in about 55 windows. Where a service has the name of its task its own latency
    counts: calls that wait beside each other hide what a row waits until there are too many rows for them.
    """
    count = len(snapshot.tasks)
    instances = snapshot.instances
    wait_ns = sum_by(instances.task, or_nan(instances.remote_wait_ns, len(instances)), count)
    rows = sum_by(instances.task, or_nan(instances.records_in, len(instances)), count)
    parallelism = np.bincount(instances.task, minlength=count)
    wall_ns = parallelism * snapshot.window_s * 1e9
    latency_ns = _latencies_ns(snapshot)
    waits = np.flatnonzero(wait_ns > 0)
    names = snapshot.task_names()
    wait_ns_per_row = {name: usual.ns_per_row[name] for name in names if name in usual.ns_per_row}
    vetoed = np.zeros(count, np.bool_)
    for task in waits.tolist():
        name = names[task]
        before = wait_ns_per_row.get(name)
        row_wait_ns = latency_ns.get(name, wait_ns[task] / rows[task] if rows[task] > 0 else np.inf)
        most = factor * before if before is not None else snapshot.window_s * 1e9 / 2
        if wait_ns[task] > WAITS * wall_ns[task] and row_wait_ns > most:
            vetoed[task] = True
            if before is not None:
                wait_ns_per_row[name] = before * FORGOTTEN
        elif np.isfinite(row_wait_ns):
            wait_ns_per_row[name] = float(row_wait_ns if before is None else before + LEARNED * (row_wait_ns - before))
    return vetoed, UsualWait(wait_ns_per_row)


def _latencies_ns(snapshot: ClusterSnapshot) -> dict[TaskName, float]:
    """Return the mean latency of each service by the names of its application and its own; infinite: none answered."""
    services = snapshot.services
    if services.latency_ms is None:
        return {}
    latency_ns = np.where(services.latency_ms > 0, services.latency_ms * 1e6, np.inf).tolist()
    applications = [snapshot.applications.name[of] for of in services.application.tolist()]
    return dict(zip(zip(applications, services.name, strict=True), latency_ns, strict=True))
