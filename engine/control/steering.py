"""Policies of a control loop, by name: what each owns, how often it decides, and its parameters from a mapping.

Called by `scale_control` for the job of a head, and by the evaluation of policies together.
"""

from collections.abc import Mapping
from typing import Any

from penstock.engine.control.policies import make_policy, parameters_of, policy_object
from penstock.model.control import NOBODY, Control, keep_policy
from penstock.model.errors import OptionError
from penstock.model.memory_levels import LEAST_BYTES
from penstock.model.policy_parameters import flattened
from penstock.scheduler.control_loop import ControlLoop, Steering
from penstock.scheduler.limits import PlanLimits
from penstock.scheduler.ownership import Level, Resource, Role, TwoOwnersError, owners_of

_SIZES = (Resource.PARALLELISM,)
_MEMORY = (Resource.PARALLELISM, Resource.TASK_MEMORY)

OWNS: dict[str, tuple[Resource, ...]] = {
    "autoscaler": _SIZES,
    "ds2": _SIZES,
    "ds2-fitted": _SIZES,
    "flink-er": (Resource.PARALLELISM, Resource.BUCKETS, Resource.ROUTES),
    "justin": _MEMORY,
    "memory-choice": _MEMORY,
    "placement": (Resource.STARTS,),
    "qod": (Resource.KEEP_RATES, Resource.MOVES),
    "qod-paper": (Resource.KEEP_RATES, Resource.MOVES),
    "sage": (Resource.ALLOCATIONS,),
    "sage-at-once": (Resource.ALLOCATIONS,),
}
"""What each named policy owns; a class of a user's says so in ``owns``, a tuple of the same words."""

IF_FREE: dict[str, tuple[Resource, ...]] = {"sage": _SIZES, "sage-at-once": _SIZES}
"""What a policy owns where no other does."""

EVERY_S = {Level.KEEP: 5.0, Level.START: 1.0, Level.SIZE: 30.0, Level.APPLICATION: 60.0}
"""Seconds between two decisions, of policies that have no interval of their own."""

INTERVALS = {"pace.interval_s": 0.0, "ds2.pace.interval_s": 0.0, "period_s": 0.6, "tick_s": 1.0}
"""Parameters that are an interval, and the share of it that its policy waits itself in a loop, which keeps it.

Shedding that lasts makes a decision due before its time, and what is seen ends a little before or after a tick.
"""


WINDOWS = "windows"
"""The parameter of a policy that shortens all its times, its interval among them."""

LEAST_MEMORY = {"limits.least_memory_bytes": float(LEAST_BYTES), "limits.least_heap_bytes": float(LEAST_BYTES)}

OF_A_JOB: dict[str, Mapping[str, Any]] = {
    "autoscaler": {"cores_margin": 0.1},
    "ds2": {"scales_sources": True, "shrink_margin": 0.1, "cores_margin": 0.1},
    "ds2-fitted": {"ds2.scales_sources": True, "ds2.shrink_margin": 0.1, "ds2.cores_margin": 0.1},
    "flink-er": {
        "period_s": 5.0,
        "looks": 2,
        "pool": PlanLimits().most_instances,
        "frees_below": 0.5,
        "cores_margin": 0.1,
    },
    "justin": {"ds2.scales_sources": True, "ds2.band.lag_s": 1.0, "ds2.cores_margin": 0.1},
    "memory-choice": {"ds2.scales_sources": True, "ds2.band.lag_s": 1.0, "ds2.cores_margin": 0.1},
    "sage": LEAST_MEMORY,
    "sage-at-once": LEAST_MEMORY,
}
"""Parameters of policies on a running job that differ from those of their papers.

There a source does nothing but read; here what needs no exchange is chained to it, and may be all of the work. It has
a thread of its own there, which waits where channels are full; here it shares a core with what it waits for, and is
behind instead. Flink-ER looks every few seconds, and what lags twice in a row lags; instances come with a core of
their own, as far as the quota goes, whatever is free of those that there are. A job goes back to one instance, too,
once what it needs fits with a tenth to spare. A task manager is one loop, and there are as many as all instances need
together, with a tenth to spare: in Flink each instance has a thread, and machines are another's business. For whole
jobs memory is that of state alone.
"""


def steering(name: str, parameters: Mapping[str, Any], *, limits: Mapping[str, Any] | None = None) -> Steering:
    """Return a policy for a loop; parameters may be nested, as tables of TOML are, ``limits`` are those of the guards.

    Raises:
        OptionError: there is no such policy or parameter, or a value does not fit; the valid ones are named.
    """
    given = flattened(parameters) | {f"limits.{key}": value for key, value in (limits or {}).items()}
    policy, role = make_policy(name, given), role_of(name)
    own = parameters_of(policy)
    every_s = EVERY_S[role.level]
    for interval, share in INTERVALS.items():
        if interval in own:
            every_s = float(own[interval]) * float(own.get(WINDOWS, 1.0))
            policy = make_policy(name, {**given, interval: share * float(own[interval])})
    if not every_s > 0:
        raise OptionError(f"policy {name!r}: an interval is above 0 s, not {every_s:g}")
    return Steering(name, policy, role, every_s)


def scalers(control: Control) -> tuple[Steering, ...]:
    """Return the policies that scale a job under this control, beside what sheds and places there.

    Raises:
        OptionError: there is no such policy or parameter, it does not scale, or decides on what another one does.
    """
    items = []
    for name in control.scalers:
        given = {**OF_A_JOB.get(name, {}), **control.parameters_of(name)}
        item = steering(name, given, limits=control.quotas)
        if item.role.level < Level.SIZE:
            sizing = ", ".join(sorted(name for name in OWNS if role_of(name).level >= Level.SIZE))
            raise OptionError(
                f"control: {name!r} decides on {' and '.join(sorted(item.role.owns))}, and not on sizes: scale is "
                f"{sizing}, or a class of yours"
            )
        items.append(item)
    others = [control.placement] if control.shed == NOBODY else [control.placement, keep_policy(control.shed) or "qod"]
    try:
        owners_of({name: role_of(name) for name in (*others, *control.scalers)})
    except TwoOwnersError as error:
        raise OptionError(f"control: {error}") from error
    for item in items:
        # Nobody would carry them out, and moves would be in flight for ever.
        if sheds := item.role.owns & {Resource.KEEP_RATES, Resource.MOVES}:
            raise OptionError(
                f"control: scale={item.name!r} decides on {' and '.join(sorted(sheds))}, too, which who scales does "
                "not change: leave them out of what its class owns, and let one decide on them that sheds, as "
                "shed='qod', or a class of yours as shed='module:Class'"
            )
    return tuple(items)


def scaler(control: Control) -> Steering:
    """Return the one policy that scales a job under this control; see `scalers`."""
    (item,) = scalers(control)
    return item


def role_of(name: str) -> Role:
    """Return what a policy owns, and its level.

    Raises:
        OptionError: there is no such policy, or a user's class does not say what it owns.
    """
    owns = OWNS.get(name)
    if owns is None:
        said = getattr(policy_object(name), "owns", None)
        words = [resource.value for resource in Resource]
        if not said or isinstance(said, str) or not set(said) <= set(words):
            raise OptionError(
                f"policy {name!r} does not say what it decides on: give its class an attribute owns, a tuple of "
                f"{', '.join(map(repr, words))}"
            )
        owns = tuple(Resource(word) for word in said)
    return Role(_level(owns), frozenset(owns), frozenset(IF_FREE.get(name, ())))


def control_loop(policies: Mapping[str, Mapping[str, Any]], **options: Any) -> ControlLoop:
    """Return the loop of these policies, by name with their parameters; ``options`` are those of `ControlLoop`.

    Raises:
        OptionError: there is no such policy or parameter, or two policies own the same.
    """
    try:
        return ControlLoop(tuple(steering(name, given) for name, given in policies.items()), **options)
    except TwoOwnersError as error:
        raise OptionError(f"control: {error}") from error


def _level(owns: tuple[Resource, ...]) -> Level:
    if Resource.ALLOCATIONS in owns:
        return Level.APPLICATION
    if set(owns) & {Resource.PARALLELISM, Resource.TASK_MEMORY, Resource.BUCKETS, Resource.ROUTES}:
        return Level.SIZE
    return Level.KEEP if set(owns) & {Resource.KEEP_RATES, Resource.MOVES} else Level.START
