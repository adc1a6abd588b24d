"""What a control loop sees by itself of a snapshot: starts, lost machines, shedding. Called by `control_loop`."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from penstock.model.columns import Floats
from penstock.model.plan import Cause, Decision, NoChange, ShedPlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.loop_state import LoopState
from penstock.scheduler.true_rates import or_nan, sum_by


def with_starts(state: LoopState, snapshot: ClusterSnapshot) -> LoopState:
    """Return the memory with applications that were not seen before: they have settled since their start.

    One to which no rows came then settles from the first window in which some do: what waited is no load.
    """
    names = snapshot.applications.name
    if all(name in state.fed for name in names):
        return state
    rows, is_fed = _rows_read(snapshot), set(state.fed)
    age_s = or_nan(snapshot.instances.age_s, len(snapshot.instances))
    youngest = np.full(len(names), np.inf)
    np.fmin.at(youngest, snapshot.tasks.application[snapshot.instances.task], age_s)
    settled_s = dict(state.settled_s)
    for row, name in enumerate(names):
        has_rows = bool(rows[row] > 0)
        if name not in settled_s:
            settled_s[name] = float(snapshot.time_s - youngest[row])
        elif has_rows and name not in is_fed:
            settled_s[name] = max(settled_s[name], snapshot.time_s - snapshot.window_s)
        if has_rows:
            is_fed.add(name)
    return replace(state, settled_s=settled_s, fed=frozenset(is_fed))


def _rows_read(snapshot: ClusterSnapshot) -> Floats:
    """Return by application the rows that were read in the window; NaN where nobody knows."""
    partitions, instances = snapshot.partitions, snapshot.instances
    application = snapshot.tasks.application[instances.task[partitions.instance]]
    return sum_by(application, or_nan(partitions.consumed, len(partitions)), len(snapshot.applications))


def with_losses(state: LoopState, snapshot: ClusterSnapshot, lost_after_s: float) -> tuple[LoopState, bool]:
    """Return the memory with machines that were lost, and whether one is news that instances are on.

    Applications on such a machine have settled.
    """
    machines, of = snapshot.machines, snapshot.instances
    if machines.heartbeat_age_s is None:
        return state, False
    silent = machines.heartbeat_age_s > lost_after_s
    lost = frozenset(name for name, is_lost in zip(machines.name, silent.tolist(), strict=True) if is_lost)
    new = np.array([name in lost - state.lost for name in machines.name], np.bool_)
    placed = np.unique(snapshot.tasks.application[of.task[new[of.machine]]]) if len(new) else np.zeros(0, np.int32)
    hit = {snapshot.applications.name[row] for row in placed.tolist()}
    return settled_at_once(replace(state, lost=lost), hit), bool(hit)


def settled_at_once(state: LoopState, applications: Collection[str]) -> LoopState:
    """Return the memory in which these applications have settled: what was seen of them before holds no longer."""
    return replace(state, settled_s={**state.settled_s, **dict.fromkeys(applications, -np.inf)})


def has_seen(decision: Decision) -> bool:
    """Return whether a policy could see, and decided."""
    return not isinstance(decision, NoChange) or decision.cause is Cause.DECIDED


def shed_applications(snapshot: ClusterSnapshot, decision: Decision) -> frozenset[str]:
    """Return the applications of which a plan of keep rates sheds a query, or lacks instances for one."""
    if not isinstance(decision, ShedPlan):
        return frozenset()
    of, names = snapshot.tasks.application, snapshot.applications.name
    shares = zip(snapshot.queries.task.tolist(), decision.desired_accuracy, strict=True)
    tasks = [task for task, share in shares if share < 1.0]
    return frozenset(names[of[task]] for task in [*tasks, *(demand.task for demand in decision.demands)])
