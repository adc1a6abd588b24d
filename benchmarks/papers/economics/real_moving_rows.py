"""What runs with a move are held against: the instance that Algorithm 2 names moves, and its neighbours run on."""

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.economics.real_moving_figures import (
    calm_dips,
    counted,
    dips,
    failed,
    first_move,
    is_named,
    moves,
)
from penstock.benchmarks.papers.evaluation import RealRow, Row, share, spread
from penstock.benchmarks.papers.real.seen import SeenRun

DIP_PERCENT = 5.0


def moving_rows(runs: Sequence[SeenRun]) -> Iterator[Row]:
    """Return the rows of runs of scenario 1."""
    found = [(run, rows, first_move(run, rows)) for run, rows in ((run, counted(run)) for run in runs)]
    named = share([moved is not None and is_named(run) for run, _, moved in found])
    yield RealRow(
        0, f"{SINKS[0]} moves where minimums do not fit, {SINKS[1]} never, two task managers", "shown", "in all runs",
        named, met=named.median == 1.0,
        note=f"Moves: {'; '.join(', '.join(name for name, _ in moves(run)) or 'none' for run in runs)}. "
        f"In vain: {sum(len(failed(run)) for run in runs)}. All that the instance has goes; it stays.",
    )  # fmt: skip
    done = [(run, rows, moved) for run, rows, moved in found if moved is not None]
    if not done:
        return
    worst = [dips(rows, moved.who[0], moved.begin_s, moved.end_s) for _, rows, moved in done]
    own = spread([max(each.values()) for each in worst])
    calm = [dip for each in done for dip in calm_dips(*each)]
    control = spread(calm) if calm else None
    said = "; ".join(", ".join(f"{sink}[{number}] {dip:.1f}" for (sink, number), dip in each.items()) for each in worst)
    yield RealRow(
        0, "throughput of its neighbours dips", "-", f"<= {DIP_PERCENT:g}%", own, control=control,
        met=own.median <= DIP_PERCENT, unit="%",
        note=f"The worst mean of 10 s around the move, of the 10 s before it, by instance: {said}. "
        "Control: the same at times when nothing moves.",
    )  # fmt: skip
    pauses = spread([1e3 * float(np.percentile(moved.pauses_s, 99)) for _, _, moved in done])
    took = ", ".join(f"{moved.said['took_ms']:.0f} ms ({moved.said['key_groups']} key groups)" for _, _, moved in done)
    yield RealRow(
        0, "nobody counts a row of a zone that moves, p99", "it restarts", "", pauses, unit="ms",
        note=f"Rows come every third of a second to a zone. The job says that the moves took {took}.",
    )  # fmt: skip
