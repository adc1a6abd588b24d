"""The runs of Stream-Economics on real parts: the peak with shedding, and the controls."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.benchmarks.papers.economics import real_moving_knn as beside_knn
from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.economics.real_applications import BOTH, KNN_ALONE, KNN_SINK, POINTS, RIDES, TAXI
from penstock.benchmarks.papers.economics.real_moving import FULL, INSTANCES, MOVING, ZONED_RIDES
from penstock.benchmarks.papers.economics.real_scaling import scaling_cases
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import LENGTHS, Scale
from penstock.benchmarks.papers.real.schedule import uneven_shares
from penstock.benchmarks.papers.real.wanted import Times, in_smoke

SHED, OFF, WHOLE, LIGHT = "shed", "off", "minimum-1", "light"
"""Taxi Drives at the peak, and its controls: no shedding, minimums of 1, and a load that is none."""

KNN_SHED, BOTH_SHED, LAG_MAXIMA, MANAGED = "knn", "both", "lag-maxima", "managed"
"""K-Nearest Neighbors, both in one job, Taxi Drives acting by the paper's estimator, and on a task manager."""

MOVES = "moves"
"""Scenario 1, its first move: two task managers, on one of which minimums do not fit."""

MOVES_KNN = "moves-knn"
"""Scenario 2: the same beside K-Nearest Neighbors, which has less weight than either sink."""

MINIMUMS = {SINKS[0]: 0.3, SINKS[1]: 0.5}
ALL_MINIMUMS = {KNN_SINK: 0.2, **MINIMUMS}
"""By query, in the order of their priorities, the least important first."""

LOADS = (0.6, 1.4, 1.8, 0.6)
"""The phases of the peak, parts of the capacity."""

PARTITIONS, SKEW = 4, 0.2
_ACTS = {"shed": "qod", "mode": "act"}
_EXACT = "penstock.benchmarks.papers.economics.real_coverage:exact_fares"


def cases(scale: Scale, runs: int) -> Times:
    """Return what can be run, and how often each is."""
    lengths, is_smoke = LENGTHS[scale], scale is Scale.SMOKE
    peak = RealCase(
        SHED,
        TAXI,
        RIDES,
        uneven_shares(PARTITIONS, SKEW),
        tuple((load, lengths.phase_s) for load in (LOADS[:3] if is_smoke else LOADS)),
        control=_ACTS,
        options=_contracts(MINIMUMS),
        calibration_rows=1_500 if is_smoke else 4_000,
        exact=_EXACT,
    )
    step = ((LOADS[0], lengths.control_s / 2), (LOADS[1], lengths.control_s))
    off = replace(peak, name=OFF, loads=step, control={}, exact="")
    few = max(1, runs // 5)
    every = [
        (peak, runs),
        (off, few),
        (replace(off, name=WHOLE, control=_ACTS, options=_contracts(dict.fromkeys(MINIMUMS, 1.0))), few),
        (replace(peak, name=LIGHT, loads=((0.9, lengths.light_s),), exact=""), 1),
        (
            replace(
                peak, name=KNN_SHED, application=KNN_ALONE, topics=POINTS, options=_contracts(ALL_MINIMUMS), exact=""
            ),
            few,
        ),
        (replace(peak, name=BOTH_SHED, application=BOTH, topics=RIDES | POINTS, options=_contracts(ALL_MINIMUMS)), few),
        (replace(peak, name=LAG_MAXIMA, control={**_ACTS, "offered": "lag maxima"}), few),
        (replace(peak, name=MANAGED, executor="processes", exact=""), few),
        (moves(lengths.phase_s), runs),
        (moves_beside_knn(lengths.phase_s), runs),
        *((each, few) for each in scaling_cases(scale)),
    ]
    return in_smoke(every, (SHED, MOVES_KNN)) if is_smoke else every


def moves(phase_s: float) -> RealCase:
    """Return the run in which minimums fit on two task managers, and then on one of them no more."""
    return RealCase(
        MOVES,
        MOVING,
        {"rides": ZONED_RIDES},
        uneven_shares(PARTITIONS, SKEW),
        ((0.5, phase_s / 2), (1.0, 2 * phase_s)),
        control=_ACTS,
        executor="processes",
        task_managers=INSTANCES,
        batch_rows=16,
        # A default channel holds minutes of rows that take so long.
        start={"parallelism": INSTANCES, "channel_bytes": 16_384, "checkpoint_interval": "10s"},
        has_checkpoints=True,
        capacity=FULL,
    )


def moves_beside_knn(phase_s: float) -> RealCase:
    """Return the run in which K-Nearest Neighbors sheds first, then the first sink, of which an instance moves then."""
    *sheds, last = beside_knn.LOADS
    alone = moves(phase_s)
    return replace(
        alone,
        name=MOVES_KNN,
        application=beside_knn.MOVING_BESIDE_KNN,
        topics={"rides": beside_knn.SPREAD_RIDES, "points": beside_knn.POINTS},
        rates={"points": beside_knn.POINTS_RATE},
        loads=(*((load, phase_s) for load in sheds), (last, 2 * phase_s)),
        capacity=beside_knn.FULL,
        # What waits in a channel has been let in, and is paid for later: half a second of rows.
        start={**alone.start, "channel_bytes": 2_048},
    )


def _contracts(minimums: Mapping[str, float]) -> dict[str, Any]:
    return {"contracts": {query: (minimum, place) for place, (query, minimum) in enumerate(minimums.items(), 1)}}
