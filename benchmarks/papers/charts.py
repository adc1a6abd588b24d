"""Draws charts as SVG and PNG with matplotlib; imported only when something is drawn. Called by `command`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

from penstock.benchmarks.papers.evaluation import Chart

_STYLE: Any = {
    "svg.hashsalt": "penstock",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.prop_cycle": cycler(color=["#0b6e99", "#e0a030", "#7a9e3b", "#a05a8c", "#555555", "#c0504d"]),
}


def draw(charts: Sequence[Chart], directory: Path) -> list[Path]:
    """Write every chart as SVG and PNG into a directory that is there; the same chart gives the same SVG."""
    written = []
    with mpl.rc_context(_STYLE):
        for chart in charts:
            figure = _figure(chart)
            for kind, metadata in (("svg", {"Date": None}), ("png", {})):
                path = directory / f"{chart.name}.{kind}"
                figure.savefig(path, dpi=130, metadata=metadata)
                written.append(path)
    return written


def _figure(chart: Chart) -> Figure:
    figure = Figure(figsize=(6.8, 3.8), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / max(len(chart.lines), 1)
    for number, line in enumerate(chart.lines):
        if chart.bars:
            shift = (number - (len(chart.lines) - 1) / 2) * width
            axes.bar([x + shift for x in line.x], line.y, width, label=line.name)
        else:
            axes.plot(line.x, line.y, label=line.name, linewidth=1.4)
    if chart.log_y:
        axes.set_yscale("log")
    if chart.ticks:
        axes.set_xticks(range(len(chart.ticks)), chart.ticks)
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    if len(chart.lines) > 1:
        axes.legend(frameon=False, fontsize=8)
    return figure
