"""The runs of Justin on real parts: queries 8 and 11 under a load for two instances, by who sizes them."""

from dataclasses import replace
from typing import Any

from penstock.benchmarks.papers.justin.real_queries import BIDS, Q8, Q11, SELLERS
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

STEP_SECONDS = {Scale.FULL: (120.0, 480.0), Scale.SHORT: (45.0, 105.0), Scale.SMOKE: (10.0, 50.0)}
"""How long each lasts."""

INTERVAL_S = {Scale.FULL: 120.0, Scale.SHORT: 20.0, Scale.SMOKE: 6.0}
"""How often policies look, those of Justin; DS2 has its own 10 s."""

_ROWS_PER_S = 420.0
"""About what one instance takes: to measure it takes longer than a small run."""

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
    every = [*constant, *(stepped(scale, policy) for policy in POLICIES)]
    if scale is Scale.SMOKE:
        return in_smoke([(replace(each, capacity=_ROWS_PER_S), 1) for each in every], (f"q11-{DS2}",))
    return [(each, runs) for each in every]
