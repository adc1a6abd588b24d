"""Curves of runs of Flink-ER on real parts: how late rows are around the step, and what is counted in a second."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.benchmarks.papers.evaluation import Chart, ChartLine
from penstock.benchmarks.papers.flink_er.real_figures import Written
from penstock.benchmarks.papers.real.seen import SeenRun

_STEP_S = 0.5


def charts(runs: Mapping[str, Sequence[tuple[SeenRun, Written]]]) -> tuple[Chart, ...]:
    """Return the charts of the runs that there are; the first of each case is shown."""
    shown = {name: own[0] for name, own in runs.items()}
    return (
        Chart(
            "real_lag", "How late rows are counted", "s", "s", tuple(_late(name, *run) for name, run in shown.items())
        ),
        Chart(
            "real_rate", "Rows counted", "s", "rows/s", tuple(_rate(name, *run) for name, run in shown.items())
        ),
    )  # fmt: skip


def _edges(run: SeenRun) -> list[float]:
    return np.arange(0.0, run.bounds[-1][1] + 1e-9, _STEP_S).tolist()


def _late(name: str, run: SeenRun, rows: Written) -> ChartLine:
    edges = _edges(run)
    counted, _ = np.histogram(rows.at_s, edges)
    late, _ = np.histogram(rows.at_s, edges, weights=rows.late_s)
    there = np.flatnonzero(counted)
    return ChartLine(name, np.array(edges)[there].tolist(), (late[there] / counted[there]).tolist())


def _rate(name: str, run: SeenRun, rows: Written) -> ChartLine:
    edges = _edges(run)
    counted, _ = np.histogram(rows.at_s, edges)
    return ChartLine(name, edges[:-1], (counted / _STEP_S).tolist())
