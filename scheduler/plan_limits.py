"""What a plan may ask for: quotas, steps, key groups, partitions and machines, whoever made it. Called by `guarded`.

A plan beyond them is made for the largest share of its target that fits, so that a job's tasks stay in proportion.
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
from penstock.scheduler.limits import Bounds, Limits, Refusal
from penstock.scheduler.size_limits import limited_sizes

SAID = 3
"""Refusals that a reason names; the others are counted."""


def limited(
    decision: Decision, snapshot: ClusterSnapshot, limits: Limits, vetoed: Bools
) -> tuple[Decision, tuple[Refusal, ...]]:
    """Return what of a decision is allowed, and what is not; the same object if all of it is.

    ``vetoed``: tasks that may not grow. A plan of which nothing is left is `NoChange`, whose reason begins with
    "refused".
    """
    bounds = Bounds(snapshot, limits, vetoed)
    if isinstance(decision, NoChange):
        return decision, ()
    if isinstance(decision, RescalePlan):
        made: Decision = _rescaled(decision, bounds)
        is_empty = isinstance(made, RescalePlan) and not (
            made.tasks or made.buckets or made.routes or made.applications
        )
    elif isinstance(decision, Placement):
        moves = _moved(decision.moves, bounds)
        made, is_empty = replace(decision, moves=moves), not moves
    else:
        made, is_empty = _shed(decision, bounds), False
    if not bounds.refusals:
        return decision, ()
    refused = "; ".join(f"{item.subject} {item.what}: {item.reason}" for item in bounds.refusals[:SAID])
    more = f" and {len(bounds.refusals) - SAID} more" if len(bounds.refusals) > SAID else ""
    if is_empty:
        return NoChange(f"refused: {refused}{more}", decision.numbers), tuple(bounds.refusals)
    return replace(made, reason=f"{decision.reason}; refused: {refused}{more}"), tuple(bounds.refusals)


def _rescaled(plan: RescalePlan, bounds: Bounds) -> RescalePlan:
    sizes = limited_sizes(plan.tasks, bounds)
    after = bounds.now.copy()
    after[[size.task for size in sizes]] = [size.parallelism for size in sizes]
    return replace(
        plan,
        tasks=sizes,
        buckets=tuple(move for move in plan.buckets if _is_bucket(move, after, bounds)),
        routes=tuple(route for route in plan.routes if _is_route(route, after, bounds)),
        applications=limited_applications(plan.applications, bounds),
    )


def _is_bucket(move: BucketMove, after: NDArray[np.int64], bounds: Bounds) -> bool:
    tasks = bounds.snapshot.tasks
    if not 0 <= move.task < len(tasks):
        bounds.refuse(f"task {move.task}", "bucket", "there is no such task")
        return False
    if not (0 <= move.bucket < tasks.key_groups[move.task] and 0 <= move.number < after[move.task]):
        bounds.refuse(bounds.task(move.task), "bucket", f"there is no bucket {move.bucket} or instance {move.number}")
        return False
    return True


def _is_route(route: Route, after: NDArray[np.int64], bounds: Bounds) -> bool:
    edges, shares = bounds.snapshot.edges, np.array(route.shares, np.float64)
    if not 0 <= route.edge < len(edges):
        bounds.refuse(f"edge {route.edge}", "route", "there is no such edge")
        return False
    task = int(edges.consumer[route.edge])
    whole = len(shares) == after[task] and bool(np.all(shares >= 0)) and abs(float(shares.sum()) - 1) <= 1e-6
    if not whole:
        bounds.refuse(bounds.task(task), "route", f"{len(shares)} shares that are no parts of 1 for {after[task]}")
    return whole


def _moved(moves: Sequence[Move], bounds: Bounds) -> tuple[Move, ...]:
    snapshot, kept = bounds.snapshot, []
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
            kept.append(move)
    return tuple(kept)


def _shed(plan: ShedPlan, bounds: Bounds) -> ShedPlan:
    """Return a plan whose keeps and accuracies are in [0, 1]; what is no number keeps all."""
    snapshot = bounds.snapshot
    desired = tuple(_part(value) for value in plan.desired_accuracy)
    if desired != plan.desired_accuracy:
        bounds.refuse("queries", "keep", "an accuracy is in [0, 1]")
    return replace(
        plan,
        source_keep=_kept(plan.source_keep, len(snapshot.tasks), "task", bounds),
        edge_keep=_kept(plan.edge_keep, len(snapshot.edges), "edge", bounds),
        desired_accuracy=desired,
        moves=_moved(plan.moves, bounds),
        demands=_asked(plan, bounds),
    )


def _asked(plan: ShedPlan, bounds: Bounds) -> tuple[Demand, ...]:
    kept = tuple(item for item in plan.demands if 0 <= item.task < len(bounds.now) and 0 <= item.cores < np.inf)
    if len(kept) < len(plan.demands):
        bounds.refuse("demands", "cores", "a demand is for finite cores, of a task that there is")
    return kept


def _kept(keep: Mapping[int, float], rows: int, kind: str, bounds: Bounds) -> dict[int, float]:
    found = {}
    for row, value in keep.items():
        if not 0 <= row < rows:
            bounds.refuse(f"{kind} {row}", "keep", f"there is no such {kind}", value)
            continue
        found[row] = _part(value)
        if found[row] != value:
            bounds.refuse(f"{kind} {row}", "keep", "what is kept is a part in [0, 1]", value, found[row])
    return found


def _part(value: float) -> float:
    return 1.0 if np.isnan(value) else min(1.0, max(0.0, value))
