"""Limits applied to plans: quotas, steps, key groups, partitions and machines. Called by `guarded`.

A plan beyond them is scaled to the largest share of its target that fits, so that a job's tasks stay in proportion.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools
from penstock.model.plan import (
    BucketMove,
    Decision,
    Demand,
    Move,
    NoChange,
    Placement,
    RescalePlan,
    Route,
    ShedPlan,
)
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.application_limits import limited_applications
from penstock.scheduler.core_limits import limited_cores
from penstock.scheduler.limits import PlanBounds, PlanLimits, Refusal
from penstock.scheduler.size_limits import limited_sizes

REASONS_SHOWN = 3
"""Refusals that a reason names; the others are counted."""


def limited_decision(
    decision: Decision, snapshot: ClusterSnapshot, limits: PlanLimits, vetoed: Bools
) -> tuple[Decision, tuple[Refusal, ...]]:
    """Return the allowed part of a decision, and the refusals; the same object if all of it is allowed.

    ``vetoed``: tasks that may not grow. A plan of which nothing is left is `NoChange`, whose reason begins with
    "refused".
    """
    bounds = PlanBounds(snapshot, limits, vetoed)
    if isinstance(decision, NoChange):
        return decision, ()
    if isinstance(decision, RescalePlan):
        allowed: Decision = _limited_rescale_plan(decision, bounds)
        is_empty = isinstance(allowed, RescalePlan) and allowed.is_empty
    elif isinstance(decision, Placement):
        moves = _allowed_moves(decision.moves, bounds)
        allowed, is_empty = replace(decision, moves=moves), not moves
    else:
        allowed, is_empty = _limited_shed_plan(decision, bounds), False
    if not bounds.refusals:
        return decision, ()
    refused = "; ".join(f"{item.subject} {item.what}: {item.reason}" for item in bounds.refusals[:REASONS_SHOWN])
    more = f" and {len(bounds.refusals) - REASONS_SHOWN} more" if len(bounds.refusals) > REASONS_SHOWN else ""
    if is_empty:
        return NoChange(f"refused: {refused}{more}", decision.numbers), tuple(bounds.refusals)
    return replace(allowed, reason=f"{decision.reason}; refused: {refused}{more}"), tuple(bounds.refusals)


def _limited_rescale_plan(plan: RescalePlan, bounds: PlanBounds) -> RescalePlan:
    sizes = limited_sizes(plan.tasks, bounds)
    parallelism = bounds.now.copy()
    parallelism[[size.task for size in sizes]] = [size.parallelism for size in sizes]
    return replace(
        plan,
        tasks=sizes,
        buckets=tuple(move for move in plan.buckets if _is_allowed_bucket_move(move, parallelism, bounds)),
        routes=tuple(route for route in plan.routes if _is_allowed_route(route, parallelism, bounds)),
        applications=limited_applications(plan.applications, bounds),
        cores=limited_cores(plan.cores, bounds),
    )


def _is_allowed_bucket_move(move: BucketMove, parallelism: NDArray[np.int64], bounds: PlanBounds) -> bool:
    tasks = bounds.snapshot.tasks
    if not 0 <= move.task < len(tasks):
        bounds.refuse(f"task {move.task}", "bucket", "there is no such task")
        return False
    if not (0 <= move.bucket < tasks.key_groups[move.task] and 0 <= move.number < parallelism[move.task]):
        bounds.refuse(bounds.task(move.task), "bucket", f"there is no bucket {move.bucket} or instance {move.number}")
        return False
    return True


def _is_allowed_route(route: Route, parallelism: NDArray[np.int64], bounds: PlanBounds) -> bool:
    edges, shares = bounds.snapshot.edges, np.array(route.shares, np.float64)
    if not 0 <= route.edge < len(edges):
        bounds.refuse(f"edge {route.edge}", "route", "there is no such edge")
        return False
    task = int(edges.consumer[route.edge])
    whole = len(shares) == parallelism[task] and bool(np.all(shares >= 0)) and abs(float(shares.sum()) - 1) <= 1e-6
    if not whole:
        bounds.refuse(
            bounds.task(task), "route", f"{len(shares)} shares that are no parts of 1 for {parallelism[task]}"
        )
    return whole


def _allowed_moves(moves: Sequence[Move], bounds: PlanBounds) -> tuple[Move, ...]:
    snapshot, allowed = bounds.snapshot, []
    for move in moves:
        if not 0 <= move.instance < len(snapshot.instances):
            bounds.refuse(f"instance {move.instance}", "machine", "there is no such instance")
            continue
        name = f"{bounds.task(snapshot.instances.task[move.instance])}/{snapshot.instances.number[move.instance]}"
        if not 0 <= move.machine < len(snapshot.machines):
            bounds.refuse(name, "machine", "there is no such machine")
        elif not bounds.usable[move.machine]:
            machine = snapshot.machines.name[move.machine]
            bounds.refuse(name, "machine", f"{machine} is lost, has no cores, or is above its memory limit")
        else:
            allowed.append(move)
    return tuple(allowed)


def _limited_shed_plan(plan: ShedPlan, bounds: PlanBounds) -> ShedPlan:
    """Return a plan whose keep rates and accuracies are in [0, 1]; NaN keeps all rows."""
    snapshot = bounds.snapshot
    desired = tuple(_part(value) for value in plan.desired_accuracy)
    if desired != plan.desired_accuracy:
        bounds.refuse("queries", "keep", "an accuracy is in [0, 1]")
    return replace(
        plan,
        source_keep=_allowed_keep(plan.source_keep, len(snapshot.tasks), "task", bounds),
        edge_keep=_allowed_keep(plan.edge_keep, len(snapshot.edges), "edge", bounds),
        desired_accuracy=desired,
        moves=_allowed_moves(plan.moves, bounds),
        demands=_allowed_demands(plan, bounds),
    )


def _allowed_demands(plan: ShedPlan, bounds: PlanBounds) -> tuple[Demand, ...]:
    allowed = tuple(item for item in plan.demands if 0 <= item.task < len(bounds.now) and 0 <= item.cores < np.inf)
    if len(allowed) < len(plan.demands):
        bounds.refuse("demands", "cores", "a demand is for finite cores, of a task that there is")
    return allowed


def _allowed_keep(keep: Mapping[int, float], rows: int, kind: str, bounds: PlanBounds) -> dict[int, float]:
    allowed = {}
    for row, value in keep.items():
        if not 0 <= row < rows:
            bounds.refuse(f"{kind} {row}", "keep", f"there is no such {kind}", value)
            continue
        allowed[row] = _part(value)
        if allowed[row] != value:
            bounds.refuse(f"{kind} {row}", "keep", "what is kept is a part in [0, 1]", value, allowed[row])
    return allowed


def _part(value: float) -> float:
    return 1.0 if np.isnan(value) else min(1.0, max(0.0, value))
