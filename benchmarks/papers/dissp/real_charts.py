"""Curves of runs of DISSP on real parts: what each query gets, how fair that is in time, and the lag."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.benchmarks.papers.dissp.real_cases import LIGHT
from penstock.benchmarks.papers.dissp.real_figures import n_sic, of_phase
from penstock.benchmarks.papers.evaluation import Chart, ChartLine
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.model.sic import SIC_WINDOW_S
from penstock.shedding.sic import jain_index

_STEP_S = 1.0


def charts(runs: Mapping[str, Sequence[SeenRun]]) -> tuple[Chart, ...]:
    """Return the charts of the runs that there are; the first of each shedder is shown."""
    shown = {name: own[0] for name, own in runs.items() if name != LIGHT}
    if not shown:
        return ()
    return (
        Chart(
            "real_nsic", "What queries get of their input at twice the capacity", "query, poorest first", "nSIC",
            tuple(_sorted(name, run) for name, run in shown.items()),
        ),
        Chart(
            "real_jain", "Fairness of the last 10 s", "s", "Jain's index",
            tuple(_fairness(name, run) for name, run in shown.items()),
        ),
        Chart(
            "real_lag", "Lag at twice the capacity", "s", "s of input",
            tuple(_lag(name, run) for name, run in shown.items()),
        ),
    )  # fmt: skip


def _sorted(name: str, run: SeenRun) -> ChartLine:
    share = np.sort(of_phase(run))
    return ChartLine(name, [float(place) for place in range(1, len(share) + 1)], share.tolist())


def _fairness(name: str, run: SeenRun) -> ChartLine:
    end_s = run.bounds[-1][1]
    at_s = np.arange(min(SIC_WINDOW_S, end_s), end_s + 1e-9, _STEP_S)
    return ChartLine(name, at_s.tolist(), [jain_index(n_sic(run, max(0.0, at - SIC_WINDOW_S), at)) for at in at_s])


def _lag(name: str, run: SeenRun) -> ChartLine:
    at_s = np.arange(0.0, run.bounds[-1][1], _STEP_S / 2)
    return ChartLine(name, at_s.tolist(), np.interp(at_s, run.times_s, run.input_s()).tolist())
