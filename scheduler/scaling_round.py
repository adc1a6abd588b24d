"""One round of a scaler over a snapshot: whose turn it is, what is missing, and the one decision that comes of it.

Shared by `ds2`, `justin`, `memory_choice` and `autoscaler`; each application is decided on alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Bools
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.true_rates import TaskRates
from penstock.scheduler.turns import Pace, Turns, acted


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """``due``: applications that are evaluated; ``may_act``: those of them that may change.

    ``waits``: why not, by what was found first. ``turns``: what to remember if nothing changes.
    """

    due: Bools
    may_act: Bools
    waits: str
    turns: Turns


def open_round(snapshot: ClusterSnapshot, pace: Pace, turns: Turns, rates: TaskRates, missing: Bools) -> Round:
    """Return whose turn it is; ``missing`` tells of every task whether a needed figure was not measured."""
    applications = len(snapshot.applications)
    waiting = pace.waiting(snapshot, turns, rates.settled_s)
    of = snapshot.tasks.application
    stopped = _any(of, ~rates.is_running, applications)
    due = np.array([reason is None for reason in waiting], np.bool_) & ~stopped
    lacking = due & _any(of, missing, applications)
    turned = pace.evaluated(snapshot, turns, (due & ~lacking).tolist())
    active = np.array([pace.is_active(turned[name]) for name in snapshot.applications.name], np.bool_)
    return Round(due, due & ~lacking & active, _why(snapshot, waiting, stopped, lacking, missing), turned)


def decided(
    snapshot: ClusterSnapshot,
    pace: Pace,
    opened: Round,
    sizes: Sequence[TaskSize],
    reason: str,
    numbers: Mapping[str, float],
) -> tuple[Decision, Turns]:
    """Return the plan of these sizes, or that nothing changes and why; and the turns after it."""
    if not sizes:
        return NoChange(opened.waits, numbers), opened.turns
    touched = np.unique(snapshot.tasks.application[[size.task for size in sizes]])
    names = [snapshot.applications.name[application] for application in touched]
    told = f"{reason}; {opened.waits}" if opened.waits.startswith("not measured") else reason
    return RescalePlan(told, tasks=tuple(sizes), numbers=numbers), acted(opened.turns, names, snapshot.time_s)


def _why(
    snapshot: ClusterSnapshot, waiting: Sequence[str | None], stopped: Bools, lacking: Bools, missing: Bools
) -> str:
    tasks = snapshot.tasks
    if lacking.any():
        task = int(np.flatnonzero(missing & lacking[tasks.application])[0])
        application = snapshot.applications.name[tasks.application[task]]
        return f"not measured: figures of task {tasks.name[task]!r} of {application!r}"
    if stopped.any():
        return f"instances of {snapshot.applications.name[int(np.flatnonzero(stopped)[0])]!r} do not run"
    reasons = [reason for reason in waiting if reason is not None]
    return reasons[0] if len(reasons) == len(waiting) and reasons else "capacity suffices"


def _any(group: np.ndarray, flags: Bools, groups: int) -> Bools:
    found = np.zeros(groups, np.bool_)
    np.logical_or.at(found, group, flags)
    return found
