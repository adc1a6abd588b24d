"""The runs of Justin on real parts: queries 8 and 11 under a load for two instances, by who sizes them."""

from dataclasses import replace
from typing import Any

from penstock.benchmarks.papers.justin.real_queries import BIDS, EXACT_BIDS, Q8, Q11, Q11_HELD, SELLERS
from penstock.benchmarks.papers.real.autoscaler_times import AUTOSCALER, autoscaler_times
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.wanted import Times, in_smoke
from penstock.model.memory_levels import BASE_BYTES

DS2, LITERAL, OURS = "ds2", "justin", "memory-choice"
POLICIES = (DS2, LITERAL, OURS)
QUERIES = ("q11", "q8")

LOAD = 1.3
"""Of what one instance can take."""

SECONDS = {Scale.FULL: 600.0, Scale.SHORT: 150.0, Scale.SMOKE: 60.0}
"""How long it lasts."""

STEP, STEP_LOADS = "step", (0.65, LOAD)
"""After the name of a run whose load doubles, from what one instance carries to what takes two, and these loads."""

HALF, HALF_LOADS = "half", (LOAD, 0.65)
"""After the name of a run whose load halves, from what takes two instances to what one carries, and these loads."""

HALF_POLICIES = (*POLICIES, AUTOSCALER)
_AUTOSCALER_LOW = 0.45
"""What the load falls to for it: beside what it keeps for a restart, 0.65 does not fit into one instance."""

STEP_SECONDS = {Scale.FULL: (120.0, 480.0), Scale.SHORT: (45.0, 105.0), Scale.SMOKE: (10.0, 50.0)}
"""How long each lasts, where the load doubles and where it halves."""

INTERVAL_S = {Scale.FULL: 120.0, Scale.SHORT: 20.0, Scale.SMOKE: 6.0}
"""How often policies look, those of Justin; DS2 has its own 10 s."""

HELD, HELD_POLICIES = "q11-held", (DS2, OURS)
"""The query whose state is larger than the least memory that there is to choose from, and who sizes it."""

HELD_LEAST = f"{HELD}-least"
"""Its control: two instances with the least of these memories."""

HELD_MB = (16, 24, 32, 48, 64, 80, 96, 112, 128, 158)
"""Memory of an instance that can be chosen there, MB."""

_ROWS_PER_S = 420.0
"""About what one instance takes: to measure it takes longer than a small run."""

_AUTOSCALER_PART = {Scale.FULL: 1 / 15, Scale.SHORT: 1 / 90, Scale.SMOKE: 1 / 300}
"""Of its times: it looks each minute, 10 s or 3 s, and takes nothing away for four times as long."""

_NO_RESERVE = {"utilisation": 1.0}
"""For the autoscaler: with its 0.7, and what it adds for a restart, one instance is not enough."""

_LOW = 0.5
"""Below this share of their time two instances do less than one can. As printed it is 0.2, where 0.5 is aimed at; here
no reserve is, and all of an instance may be busy."""

_MB = 1 << 20
_AS_PRINTED = {"hysteresis": 0.0, "tabu_decisions": 0, "guards_scale_down": False}


def case(scale: Scale, query: str, policy: str) -> RealCase:
    """Return the run of a query that a policy sizes, which begins with one instance and Justin's base of memory."""
    is_q11 = query == "q11"
    return RealCase(
        f"{query}-{policy}",
        Q11 if is_q11 else Q8,
        BIDS if is_q11 else SELLERS,
        (0.25,) * 4,
        ((LOAD, SECONDS[scale]),),
        control={"scale": policy, "mode": "act", "cores": 4, "parameters": _parameters(scale, policy)},
        executor="processes",
        calibration_rows=1_500,
        batch_rows=64,
        start={
            "parallelism": 1, "channel_bytes": 32_768, "checkpoint_interval": "2m", "state_bytes": BASE_BYTES,
        },
        has_checkpoints=True,
        catch_up_s=30.0,
        # One person registers for ten auctions; what must be carried is the auctions.
        rates={} if is_q11 else {"persons": 0.1},
    )  # fmt: skip


def stepped(scale: Scale, policy: str) -> RealCase:
    """Return the run of query 11 in which the load doubles while one instance keeps up."""
    steady = case(scale, "q11", policy)
    loads = tuple(zip(STEP_LOADS, STEP_SECONDS[scale], strict=True))
    return replace(steady, name=f"{steady.name}-{STEP}", loads=loads)


def halved(scale: Scale, policy: str) -> RealCase:
    """Return the run of query 11 in which the load halves while two instances keep up.

    One instance reads, and one task manager is there for each that works: nothing is to change before the step.
    """
    steady = case(scale, "q11", policy)
    high, low = HALF_LOADS
    loads = (high, _AUTOSCALER_LOW if policy == AUTOSCALER else low)
    return replace(
        steady,
        name=f"q11-{HALF}-{policy}",
        loads=tuple(zip(loads, STEP_SECONDS[scale], strict=True)),
        control={**steady.control, "parameters": _shrinking(scale, policy)},
        options={"readers": 1},
        task_managers=2,
        start={**steady.start, "parallelism": 2},
        exact=EXACT_BIDS,
    )


def held(scale: Scale, policy: str) -> RealCase:
    """Return the run of query 11 with some 60 MB of state."""
    plain = case(scale, "q11", policy)
    choices = {"budgets": tuple(each * _MB for each in HELD_MB)} if policy == OURS else {}
    return replace(
        plain,
        name=f"{HELD}-{policy}",
        application=Q11_HELD,
        control={**plain.control, "parameters": {**plain.control["parameters"], **choices}},
        # A batch of 64 profiles takes 1.3 MB.
        start={**plain.start, "channel_bytes": 4 * _MB},
    )


def held_least(scale: Scale) -> RealCase:
    """Return the run of the same query with two instances that keep the least memory; nobody sizes it."""
    plain = held(scale, DS2)
    start = {**plain.start, "parallelism": 2, "state_bytes": HELD_MB[0] * _MB}
    return replace(
        plain, name=HELD_LEAST, control={}, is_watched=True, task_managers=2, start=start, capacity=_ROWS_PER_S
    )


def _shrinking(scale: Scale, policy: str) -> dict[str, Any]:
    """Return the parameters of a policy that is to take an instance away within the run."""
    if policy == AUTOSCALER:
        return {**autoscaler_times(_AUTOSCALER_PART[scale]), **_NO_RESERVE}
    own = _parameters(scale, policy)
    return own if policy == DS2 else own | {"ds2": {**own["ds2"], "band": {"low": _LOW}}}


def _parameters(scale: Scale, policy: str) -> dict[str, Any]:
    interval_s = INTERVAL_S[scale]
    if policy == DS2:
        return {"pace": {"interval_s": min(10.0, interval_s)}}
    # All three carry the same: what is offered, and no reserve, which would be more than two instances.
    own = {"ds2": {"factor": 0.0, "pace": {"interval_s": interval_s, "warm_up_s": interval_s / 2}}}
    return own | (_AS_PRINTED if policy == LITERAL else {})


def cases(scale: Scale, runs: int) -> Times:
    """Return what can be run, and how often each is."""
    constant = [case(scale, query, policy) for query in QUERIES for policy in POLICIES]
    stepping = [stepped(scale, policy) for policy in POLICIES]
    large = [*(held(scale, policy) for policy in HELD_POLICIES), held_least(scale)]
    every = [*constant, *large, *stepping, *(halved(scale, policy) for policy in HALF_POLICIES)]
    if scale is Scale.SMOKE:
        return in_smoke([(replace(each, capacity=_ROWS_PER_S), 1) for each in every], (f"q11-{DS2}",))
    return [(each, runs) for each in every]
