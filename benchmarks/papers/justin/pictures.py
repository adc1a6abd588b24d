"""Charts of Justin's Figure 5: what queries end with, the way of q11, and what it saves by the size of its state."""

from collections.abc import Sequence

import numpy as np

from penstock.benchmarks.papers.evaluation import Chart, ChartLine, Progress, in_turn
from penstock.benchmarks.papers.justin.figure_5 import DS2, FIGURE, LABELS, OURS, Q11, TWO, Results, contenders
from penstock.benchmarks.papers.justin.outcome import outcome
from penstock.benchmarks.papers.justin.queries import MAIN, REPORT_S, parameters, ran
from penstock.model.memory_levels import MIB

PAPER = {
    "paper, DS2": ((8, 15, 25, 13, 25), (2317, 4965, 8275, 4303, 8275)),
    "paper, Justin": ((8, 15, 25, 7, 13), (1379, 4491, 8117, 3107, 6041)),
}
"""Cores and memory (MB) of q1, q3, q5, q11 and q8: q1's as printed, the others by the slot model of its section 5."""
GIGABYTES = (0.1, 0.3, 0.6, 1.0, 1.4, 1.8, 2.5)


def bars(results: Results) -> tuple[Chart, Chart]:
    """Return cores and memory of the last configurations, medians beside the paper's."""
    places = [float(place) for place in range(len(FIGURE))]
    names = tuple(query.name for query in FIGURE)
    charts = []
    for column, (figure, label, unit) in enumerate((("cores", "Cores", "tasks"), ("memory_mib", "Memory", "MB"))):
        lines = [
            ChartLine(name, places, [results.of(query, name, figure).median for query in FIGURE])
            for name in (DS2, TWO, OURS)
        ]
        lines += [ChartLine(name, places, [float(value) for value in both[column]]) for name, both in PAPER.items()]
        title = f"{label} at the end, but for sources (Figure 5)"
        charts.append(Chart(f"justin_{figure}", title, "", unit, tuple(lines), True, names))
    return charts[0], charts[1]


def q11_over_time(draw: int) -> tuple[Chart, Chart, Chart]:
    """Return what q11 reads, its instances and their managed memory over time, by policy."""
    figures = parameters(None)
    rate, instances, memory = [], [], []
    for name, policy in contenders(Q11).items():
        _, done = ran(figures, Q11, policy, draw)
        series = done.series
        times = series.times_s
        rate.append(ChartLine(name, times, (series.task("fetched", "source0") / REPORT_S).tolist()))
        instances.append(ChartLine(name, times, series.task("instances", MAIN).tolist()))
        memory.append(ChartLine(name, times, (series.task("managed_bytes", MAIN) / MIB).tolist()))
    return (
        Chart("justin_q11_rate", "q11: rows read", "s", "rows/s", tuple(rate)),
        Chart("justin_q11_instances", "q11: instances of the main operator", "s", "instances", tuple(instances)),
        Chart("justin_q11_memory", "q11: managed memory of the main operator", "s", "MB", tuple(memory)),
    )


def by_state(seeds: Sequence[int], progress: Progress) -> Chart:
    """Return cores and memory over DS2's by the size of q11's state, held still: where memory helps, and where not."""
    few = seeds[: max(1, min(5, len(seeds) // 10))]
    series: dict[str, list[float]] = {f"{figure}, {name}": [] for name in (TWO, OURS) for figure in LABELS.values()}
    for size in in_turn(GIGABYTES, "q11 by the size of its state", progress):
        figures = parameters(None).having(query__q11__start_bytes=size * 1e9, query__q11__most_bytes=size * 1e9)
        policies = contenders(Q11)
        ends = {name: [outcome(figures, Q11, policies[name], draw) for draw in few] for name in (DS2, TWO, OURS)}
        for name in (TWO, OURS):
            for figure, label in LABELS.items():
                pairs = zip(ends[name], ends[DS2], strict=True)
                ratios = [getattr(own, figure) / getattr(base, figure) for own, base in pairs]
                series[f"{label}, {name}"].append(float(np.median(ratios)))
    lines = tuple(ChartLine(name, GIGABYTES, values) for name, values in series.items())
    return Chart("justin_by_state", "q11 over DS2, by the size of its state", "GB", "x", lines)
