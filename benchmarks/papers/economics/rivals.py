"""The rival of the controller: an equal drop at all sources, without minimums, priorities or moves."""

from dataclasses import dataclass

import numpy as np

from penstock.model.plan import Decision, NoChange, ShedPlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.group_sums import total
from penstock.shedding.qod_figures import FigureOptions, read_figures
from penstock.shedding.qod_sources import NO_LAGS


@dataclass(frozen=True, slots=True)
class EqualDrop:
    """Every source keeps the same part of its rows: the one that the fullest machine can carry."""

    reading: FigureOptions = FigureOptions()

    def start(self) -> None:
        """Remember nothing."""

    def decide(self, snapshot: ClusterSnapshot, memory: None) -> tuple[Decision, None]:
        """Return keep = min over machines of aCpu(tm) / sum of cpu(t(i)) / cAc(t(i)), at most 1."""
        figures = read_figures(snapshot, self.reading, NO_LAGS)
        if isinstance(figures, NoChange):
            return figures, None
        wanted = total(figures.cpu / np.maximum(figures.c_ac, 1e-9), figures.machine, len(figures.a_cpu))
        keep = float(np.min(figures.a_cpu / np.maximum(wanted, 1e-9), initial=1.0))
        queries = (keep,) * len(snapshot.queries)
        if keep >= 1.0:
            return ShedPlan({}, {}, queries, "all fits"), None
        sources = np.flatnonzero(snapshot.tasks.is_source).tolist()
        return ShedPlan(dict.fromkeys(sources, keep), {}, queries, "the fullest machine"), None
