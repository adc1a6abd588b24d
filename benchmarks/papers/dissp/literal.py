"""Equations 5.1 to 5.3 as they stand, in a closed loop: what is shed decides how many tuples are processed next."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.benchmarks.papers.dissp.cases import drawn
from penstock.benchmarks.papers.dissp.runs import POLICIES, Each, Figures
from penstock.benchmarks.papers.dissp.simulation import simulate
from penstock.benchmarks.papers.dissp.workload import workload
from penstock.benchmarks.papers.evaluation import Row
from penstock.shedding.cost_model import PaperCost
from penstock.shedding.overload import PaperDetector
from penstock.shedding.sic import jain_index

LOADS = {"half": 0.5, "bursts": 0.5, "idle": 0.8, "twice": 2.0}
"""Work asked for over what a node can do."""
BURSTS = 2.0
"""Noise of a source's rows in an interval where they come in bursts, in parts of their mean."""
NO_FIGURE = "no figure"


def draw(seed: int) -> Figures:
    """Return what the equations as they stand, and ours, use and drop at each load."""
    values: dict[str, float] = {}
    for name, load in LOADS.items():
        case = replace(drawn("single", np.random.default_rng(seed)), overload_low=load, overload_high=load)
        case = replace(case, rate_noise=BURSTS) if name == "bursts" else case
        work = workload(case, np.random.default_rng(seed))
        ours = simulate(work, POLICIES["fair"], seed)
        paper = simulate(work, POLICIES["fair"], seed, PaperCost(case.interval_ms), PaperDetector())
        for who, outcome in (("ours", ours), ("paper", paper)):
            values[f"{who} dropped {name}"] = outcome.dropped
            values[f"{who} throughput {name}"] = (1 - outcome.dropped) * load if load > 1 else 1 - outcome.dropped
            values[f"{who} J {name}"] = jain_index(outcome.n_sic)
    return values


def rows(seed: int, seeds: Sequence[int], each: Each) -> list[Row]:
    """Return the rows: what is dropped where nothing need be, and how much of a node is used where it is too small."""
    of = each(draw, seeds, "equations 5.1 to 5.3 as they stand")
    note = "elapsed time for useful time, and the raw input buffer; baseline: useful time, and the mean of 4 buffers"
    result = [
        Row(
            seed, f"one node, 5.1-5.3 as they stand: rows dropped at x{LOADS[name]:g} load{how}", NO_FIGURE, "<= 0.01",
            of.spread(f"paper dropped {name}"), of.spread(f"ours dropped {name}"),
            met=of.median(f"paper dropped {name}") <= 0.01, note=note,
        )
        for name, how in (("half", ""), ("idle", ""), ("bursts", ", in bursts"))
    ]  # fmt: skip
    result.append(
        Row(
            seed, "one node, 5.1-5.3 as they stand: throughput at x2 load", NO_FIGURE, ">= 0.95 of capacity",
            of.spread("paper throughput twice"), of.spread("ours throughput twice"),
            met=of.median("paper throughput twice") >= 0.95, note=note,
        )
    )  # fmt: skip
    own = of.spread("paper J twice")
    return [
        *result,
        Row(seed, "one node, 5.1-5.3 as they stand: J at x2 load", NO_FIGURE, "-", own, of.spread("ours J twice")),
    ]
