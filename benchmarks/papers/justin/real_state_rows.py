"""What reads, writes and updates by memory are held against: the shapes of Figure 4."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from penstock.benchmarks.papers.evaluation import Chart, ChartLine, RealRow, Row, Spread, spread
from penstock.benchmarks.papers.justin.real_state import KINDS, StateRun

RISES = 1.2
"""Reads with all of the memory are at least so many times those with the least."""

STEADY = 0.1
"""By so much writes may differ."""


def state_rows(runs: Sequence[StateRun]) -> Iterator[Row]:
    """Yield a row for each kind, and the rates by memory; none without runs."""
    if not runs:
        return
    memory = sorted({run.case.memory_mb for run in runs})
    least, most = memory[0], memory[-1]
    cached = _ratio(runs, "read", most, least, direct=False)
    read = _ratio(runs, "read", most, least)
    rises = all(
        _median(runs, "read", after) >= (1 - STEADY) * _median(runs, "read", before)
        for before, after in pairwise(memory)
    )
    yield RealRow(
        0, f"reads, {most} MB over {least} MB", "rises with memory", f">= {RISES:g} x, and falls at no step", read,
        control=cached, met=rises and read.median >= RISES, unit="x",
        note=f"{_rates(runs, 'read')} Control: through the page cache of the system, which hides every miss.",
    )  # fmt: skip
    write = _ratio(runs, "write", most, least)
    yield RealRow(
        0, f"writes, {most} MB over {least} MB", "constant", f"within {STEADY:.0%}", write,
        met=abs(write.median - 1) < STEADY, unit="x", note=_rates(runs, "write"),
    )  # fmt: skip
    steps = [_median(runs, "update", after) / _median(runs, "update", before) for before, after in pairwise(memory)]
    last = _ratio(runs, "update", most, memory[-2])
    yield RealRow(
        0, f"updates, {most} MB over {memory[-2]} MB", "levels off", "gains less than a step before", last,
        met=last.median < max(steps[:-1]) if len(steps) > 1 else None, unit="x",
        note=f"{_rates(runs, 'update')} "
        + (f"Steps: {', '.join(f'{step:.2f}' for step in steps)}." if len(steps) > 1 else "One step: not judged."),
    )  # fmt: skip


def state_chart(runs: Sequence[StateRun]) -> Chart:
    """Return operations a second by memory."""
    memory = sorted({run.case.memory_mb for run in runs})
    places = [float(place) for place in range(len(memory))]
    lines = tuple(ChartLine(kind, places, [_median(runs, kind, each) for each in memory]) for kind in KINDS)
    return Chart(
        "real_state", "Operations on values of 1 KB by memory (Figure 4)", "MB", "1/s", lines,
        ticks=tuple(map(str, memory)),
    )  # fmt: skip


def _of(runs: Sequence[StateRun], kind: str, memory_mb: int, *, direct: bool = True) -> list[float]:
    wanted = kind, memory_mb, direct
    return [run.per_s for run in runs if (run.case.kind, run.case.memory_mb, run.case.direct) == wanted]


def _median(runs: Sequence[StateRun], kind: str, memory_mb: int) -> float:
    return float(np.median(_of(runs, kind, memory_mb)))


def _ratio(runs: Sequence[StateRun], kind: str, over_mb: int, under_mb: int, *, direct: bool = True) -> Spread:
    over, under = (_of(runs, kind, memory_mb, direct=direct) for memory_mb in (over_mb, under_mb))
    return spread([a / b for a, b in zip(over, under, strict=True)])


def _rates(runs: Sequence[StateRun], kind: str) -> str:
    memory = sorted({run.case.memory_mb for run in runs})
    return ", ".join(f"{_median(runs, kind, each):,.0f}/s at {each} MB" for each in memory) + "."
