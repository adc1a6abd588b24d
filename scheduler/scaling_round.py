"""One round of a scaler over a snapshot: due applications, missing figures, and the resulting decision.

Shared by `ds2`, `justin`, `memory_choice` and `autoscaler`; each application is decided on alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.model.columns import Bools
from penstock.model.plan import Cause, CoreNeed, Decision, NoChange, RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.core_needs import spread_reason
from penstock.scheduler.pacing import Pace, PaceStates, after_action
from penstock.scheduler.true_rates import TaskRates, any_by


@dataclass(frozen=True, slots=True, eq=False)
class ScalingRound:
    """``due``: applications that are evaluated; ``may_act``: those of them that may change.

    ``wait_reason``: the first reason why the others may not, and its ``cause``. ``pace_states``: the memory if nothing
    changes.
    """

    due: Bools
    may_act: Bools
    wait_reason: str
    pace_states: PaceStates
    cause: Cause = Cause.DECIDED


def open_round(
    snapshot: ClusterSnapshot, pace: Pace, states: PaceStates, rates: TaskRates, missing: Bools
) -> ScalingRound:
    """Return the round of the due applications; ``missing`` marks the tasks that lack a needed figure."""
    applications = len(snapshot.applications)
    wait_reasons = pace.wait_reasons(snapshot, states, rates.settled_s)
    of = snapshot.tasks.application
    stopped = any_by(of, ~rates.is_running, applications)
    due = np.array([reason is None for reason in wait_reasons], np.bool_) & ~stopped
    incomplete = due & any_by(of, missing, applications)
    states = pace.after_settling(snapshot, states, rates.settled_s)
    pace_states = pace.after_evaluation(snapshot, states, (due & ~incomplete).tolist())
    active = np.array([pace.is_active(pace_states[name]) for name in snapshot.applications.name], np.bool_)
    return ScalingRound(
        due,
        due & ~incomplete & active,
        _why(snapshot, wait_reasons, stopped, incomplete, missing),
        pace_states,
        Cause.NOT_MEASURED if incomplete.any() else Cause.DECIDED,
    )


def round_decision(
    snapshot: ClusterSnapshot,
    pace: Pace,
    scaling_round: ScalingRound,
    sizes: Sequence[TaskSize],
    reason: str,
    numbers: Mapping[str, float],
    cores: tuple[CoreNeed, ...] = (),
) -> tuple[Decision, PaceStates]:
    """Return the plan of these sizes and ``cores``, or `NoChange` with a reason; and the pace states after it."""
    plan = RescalePlan(reason, tasks=tuple(sizes), numbers=numbers, cores=cores)
    if plan.is_empty:
        return NoChange(scaling_round.wait_reason, numbers, scaling_round.cause), scaling_round.pace_states
    spread = {need.application for need in cores if need.spreads}
    touched = {*snapshot.tasks.application[[size.task for size in sizes]].tolist(), *spread}
    names = [snapshot.applications.name[application] for application in sorted(touched)]
    unseen = [scaling_round.wait_reason] if scaling_round.cause is Cause.NOT_MEASURED else []
    reasons = [*([reason] if sizes else []), *([spread_reason(snapshot, cores)] if spread else []), *unseen]
    return replace(plan, reason="; ".join(reasons)), after_action(scaling_round.pace_states, names, snapshot.time_s)


def _why(
    snapshot: ClusterSnapshot, wait_reasons: Sequence[str | None], stopped: Bools, incomplete: Bools, missing: Bools
) -> str:
    tasks = snapshot.tasks
    if incomplete.any():
        task = int(np.flatnonzero(missing & incomplete[tasks.application])[0])
        application = snapshot.applications.name[tasks.application[task]]
        return f"not measured: figures of task {tasks.name[task]!r} of {application!r}"
    if stopped.any():
        return f"instances of {snapshot.applications.name[int(np.flatnonzero(stopped)[0])]!r} do not run"
    reasons = [reason for reason in wait_reasons if reason is not None]
    return reasons[0] if len(reasons) == len(wait_reasons) and reasons else "capacity suffices"
