"""Figures of one draw of a case under several policies, by name; and many draws at once, one process a core."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np

from penstock.benchmarks.papers.dissp.cases import SheddingCase
from penstock.benchmarks.papers.dissp.simulation import SheddingOutcome, SheddingPolicy, simulate
from penstock.benchmarks.papers.dissp.workload import workload
from penstock.benchmarks.papers.evaluation import Progress, Spread, spread
from penstock.model.columns import Floats
from penstock.shedding.fair_shedder import FairShedder
from penstock.shedding.shedders import EqualShareShedder, FifoShedder, RandomShedder
from penstock.shedding.sic import jain_index

Figures = Mapping[str, float]

CONTROLS = 30
"""Draws for which it is tried that an effect vanishes where it must."""

POLICIES: Mapping[str, SheddingPolicy] = {
    "random": SheddingPolicy(RandomShedder()),
    "fifo": SheddingPolicy(FifoShedder()),
    "equal-share": SheddingPolicy(EqualShareShedder(), by_cost=True),
    "fair": SheddingPolicy(FairShedder()),
    "fair by cost": SheddingPolicy(FairShedder(by_cost=True), by_cost=True),
    "balance-sic": SheddingPolicy(FairShedder(), coordinated=True),
    "balance-sic without ledger": SheddingPolicy(FairShedder(), coordinated=True, counts_since=False),
    "balance-sic and sources": SheddingPolicy(FairShedder(), coordinated=True, keep_margin=0.2),
}


def figures(case: SheddingCase, names: Iterable[str], seed: int) -> dict[str, float]:
    """Return figures of each policy on the same workload, as "J fair".

    J, mean, std, and min / mean are of nSIC; dropped, used and backlog as in `SheddingOutcome`; wave is how much a
    query's SIC of 8 intervals varies in time, std / mean, median of the queries.
    """
    work = workload(case, np.random.default_rng(seed))
    values: dict[str, float] = {}
    for name in names:
        of = simulate(work, POLICIES[name], seed)
        mean = float(of.n_sic.mean())
        values |= {
            f"J {name}": jain_index(of.n_sic),
            f"mean {name}": mean,
            f"std {name}": float(of.n_sic.std()),
            f"worst {name}": float(of.n_sic.min()) / mean if mean else 0.0,
            f"dropped {name}": of.dropped,
            f"used {name}": of.used,
            f"backlog {name}": of.backlog,
            f"wave {name}": _wave(case, of),
        }
    return values


@dataclass(frozen=True, slots=True)
class Draws:
    """Figures by name, each an array over the draws."""

    of: Mapping[str, Floats]

    def spread(self, name: str) -> Spread:
        """Return how a figure spreads."""
        return spread_of(self.of[name])

    def median(self, name: str) -> float:
        """Return the median of a figure."""
        return float(np.median(self.of[name]))

    def ratio(self, name: str, other: str) -> Floats:
        """Return how much one figure is of another, draw by draw."""
        return self.of[name] / self.of[other]


def spread_of(values: Floats) -> Spread:
    """Return how an array spreads."""
    return spread(values.tolist())


def vanishes(values: Floats) -> bool:
    """Return whether a ratio shows no effect: its median is within 5% of 1."""
    return bool(abs(float(np.median(values)) - 1) <= 0.05)


Each = Callable[[Callable[[int], Figures], Sequence[int], str], "Draws"]
"""Makes the figures of all seeds, in their order; a module must have the function, and what is done has a name."""


@contextmanager
def one_process_a_core(progress: Progress) -> Iterator[Each]:
    """Give what makes figures, in processes that it starts and stops."""
    processes = os.cpu_count() or 1
    # Not forked: whoever calls may have threads.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:

        def each(function: Callable[[int], Figures], seeds: Sequence[int], what: str) -> Draws:
            figures: list[Figures] = []
            for one in pool.map(function, seeds, chunksize=max(1, len(seeds) // (8 * processes))):
                figures.append(one)
                progress(what, len(figures), len(seeds))
            return Draws({name: np.array([one[name] for one in figures]) for name in figures[0]})

        yield each


def _wave(case: SheddingCase, of: SheddingOutcome) -> float:
    measured = of.admitted[case.warm_up_intervals : case.warm_up_intervals + case.measured_intervals]
    sums = np.cumsum(measured, axis=0)
    lately = sums[8:] - sums[:-8]
    mean = lately.mean(axis=0)
    return float(np.median(lately.std(axis=0)[mean > 0] / mean[mean > 0]))
