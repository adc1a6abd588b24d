"""The runs of DISSP on real parts: fair shedding and its rivals at twice the capacity, and a load that is none."""

from dataclasses import replace

from penstock.benchmarks.papers.dissp.real_queries import APPLICATION, MESSAGES, QUERIES, names, rates
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import LENGTHS, Scale
from penstock.benchmarks.papers.real.wanted import Times, in_smoke

FAIR, RANDOM, FIFO, EQUAL = "fair", "random", "fifo", "equal-share"
SHEDDERS = (FAIR, RANDOM, FIFO, EQUAL)
LIGHT = "light"
"""Fair shedding where nothing is too much."""

OVERLOAD, LIGHT_LOAD = 2.0, 0.8
"""Parts of the capacity."""

WARM_UP_S = 30.0
"""It takes the source time window of 10 s, and some, until the standing of queries is that of a long run."""

_WARM_UP_SMOKE_S = 5.0
_ROWS, _ROWS_SMOKE = 110, 25
"""Rows of the slowest query that the capacity is measured with."""


def case(scale: Scale, shedder: str, load: float = OVERLOAD, queries: int = QUERIES) -> RealCase:
    """Return a run of so many queries with a shedder: a phase that is not judged, and one that is."""
    is_smoke = scale is Scale.SMOKE
    topics = names(queries)
    phases = (_WARM_UP_SMOKE_S if is_smoke else WARM_UP_S, LENGTHS[scale].phase_s)
    return RealCase(
        shedder,
        APPLICATION,
        dict.fromkeys(topics, MESSAGES),
        (1.0,),
        tuple((load, seconds) for seconds in phases),
        control={"shed": "sic", "mode": "act", "shedder": shedder, "period_s": 1},
        options={"contracts": dict.fromkeys(topics, (0.0, 1))},
        calibration_rows=_ROWS_SMOKE if is_smoke else _ROWS,
        rates=dict(zip(topics, rates(queries).tolist(), strict=True)),
        batch_rows=32,
    )


def cases(scale: Scale, runs: int) -> Times:
    """Return what can be run, and how often each is."""
    light = replace(case(scale, FAIR, LIGHT_LOAD), name=LIGHT)
    every = [*((case(scale, shedder), runs) for shedder in SHEDDERS), (light, max(1, runs // 3))]
    return in_smoke(every, (FAIR,)) if scale is Scale.SMOKE else every
