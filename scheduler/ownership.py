"""Who owns what of a job: each resource has one policy that changes it (docs/design/controllers.md 7).

Two owners of one resource would undo each other's actions, so they are refused before anything runs. What a policy
decides of another's resource is taken out of its plan. Called by `control_loop`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

import numpy as np

from penstock.model.plan import (
    ApplicationSize,
    Decision,
    NoChange,
    Placement,
    RescalePlan,
    ShedPlan,
    TaskSize,
)
from penstock.model.snapshot import ClusterSnapshot


class Resource(StrEnum):
    """What a policy may own."""

    KEEP_RATES = "keep rates"
    MOVES = "moves of running instances"
    STARTS = "places of starting instances"
    PARALLELISM = "parallelism"
    TASK_MEMORY = "memory of operators"
    BUCKETS = "owners of buckets"
    ROUTES = "routes"
    ALLOCATIONS = "cores and memory of applications"


class Level(IntEnum):
    """How far an action reaches; of two policies at one time the one that reaches further goes first."""

    KEEP = 1
    START = 2
    SIZE = 3
    APPLICATION = 4


@dataclass(frozen=True, slots=True)
class Role:
    """What a policy owns, and what it owns only where nobody else does; its level."""

    level: Level
    owns: frozenset[Resource]
    if_free: frozenset[Resource] = frozenset()


class TwoOwnersError(ValueError):
    """Two policies own one resource."""


def owners_of(roles: Mapping[str, Role]) -> dict[str, frozenset[Resource]]:
    """Return what each policy owns beside the others.

    Raises:
        TwoOwnersError: two own the same; they and the resource are named.
    """
    owner: dict[Resource, str] = {}
    for name, role in roles.items():
        for resource in sorted(role.owns):
            if resource in owner:
                raise TwoOwnersError(
                    f"{owner[resource]!r} and {name!r} both decide on {resource}, and would undo each other's actions: "
                    "choose one"
                )
            owner[resource] = name
    for name, role in roles.items():
        for resource in sorted(role.if_free):
            owner.setdefault(resource, name)
    return {name: frozenset(what for what, of in owner.items() if of == name) for name in roles}


def owned_part(
    decision: Decision, owns: frozenset[Resource], snapshot: ClusterSnapshot
) -> tuple[Decision, tuple[Resource, ...]]:
    """Return the part of a decision that is its policy's to make, and the resources of what was taken out."""
    foreign: set[Resource] = set()

    def mine(resource: Resource, has_any: bool) -> bool:
        if has_any and resource not in owns:
            foreign.add(resource)
        return resource in owns

    if isinstance(decision, Placement):
        allowed: Decision = decision if mine(Resource.STARTS, bool(decision.moves)) else NoChange(decision.reason)
    elif isinstance(decision, ShedPlan):
        moves = decision.moves if mine(Resource.MOVES, bool(decision.moves)) else ()
        allowed = replace(decision, moves=moves)
        if not mine(Resource.KEEP_RATES, has_any=True):
            allowed = NoChange(decision.reason)
    elif isinstance(decision, RescalePlan):
        sizes = _sizes(
            decision,
            snapshot,
            parallelism=mine(Resource.PARALLELISM, _changes_parallelism(decision, snapshot)),
            memory=mine(Resource.TASK_MEMORY, any(_has_memory(size) for size in decision.tasks)),
        )
        mine(Resource.PARALLELISM, any(given.threads is not None for given in decision.applications))
        allowed = replace(
            decision,
            tasks=sizes,
            buckets=decision.buckets if mine(Resource.BUCKETS, bool(decision.buckets)) else (),
            routes=decision.routes if mine(Resource.ROUTES, bool(decision.routes)) else (),
            applications=_applications(
                decision,
                threads=Resource.PARALLELISM in owns,
                allocations=mine(Resource.ALLOCATIONS, any(_has_allocation(given) for given in decision.applications)),
            ),
            cores=decision.cores if mine(Resource.PARALLELISM, bool(decision.cores)) else (),
        )
        if is_empty(allowed):
            allowed = NoChange(decision.reason)
    else:
        return decision, ()
    return (allowed if foreign else decision), tuple(sorted(foreign))


def is_empty(decision: Decision) -> bool:
    """Return whether a decision changes nothing beyond keep rates."""
    if isinstance(decision, RescalePlan):
        return decision.is_empty
    return isinstance(decision, NoChange) or not decision.moves


def _has_memory(size: TaskSize) -> bool:
    return size.memory_level is not None or size.managed_bytes is not None


def _has_allocation(given: ApplicationSize) -> bool:
    return not (given.cores is None and given.memory_bytes is None and given.heap_bytes is None)


def _changes_parallelism(plan: RescalePlan, snapshot: ClusterSnapshot) -> bool:
    now = np.bincount(snapshot.instances.task, minlength=len(snapshot.tasks))
    return any(size.parallelism != now[size.task] for size in plan.tasks)


def _sizes(plan: RescalePlan, snapshot: ClusterSnapshot, *, parallelism: bool, memory: bool) -> tuple[TaskSize, ...]:
    now = np.bincount(snapshot.instances.task, minlength=len(snapshot.tasks))
    sizes = []
    for size in plan.tasks:
        kept = size if parallelism else replace(size, parallelism=int(now[size.task]))
        kept = kept if memory else replace(kept, memory_level=None, managed_bytes=None)
        if _has_memory(kept) or kept.parallelism != now[size.task]:
            sizes.append(kept)
    return tuple(sizes)


def _applications(plan: RescalePlan, *, threads: bool, allocations: bool) -> tuple[ApplicationSize, ...]:
    given = []
    for each in plan.applications:
        own = each if threads else replace(each, threads=None)
        own = own if allocations else ApplicationSize(own.application, threads=own.threads)
        if _has_allocation(own) or own.threads is not None:
            given.append(own)
    return tuple(given)
