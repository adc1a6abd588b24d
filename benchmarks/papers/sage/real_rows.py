"""What runs of Sage on real parts are held against: the least size of a grid that is enough, order, and rivals."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from penstock.benchmarks.papers.evaluation import Chart, ChartLine, RealRow, Row, share, spread
from penstock.benchmarks.papers.real.common_rows import beside_rows
from penstock.benchmarks.papers.real.seen import ACTIONS, SeenRun
from penstock.benchmarks.papers.sage.real_cases import (
    ALL,
    CPU,
    FIRST,
    GRID,
    LACKING,
    LOADED,
    MB,
    MEMORY,
    SLOW,
    UNGUARDED,
    WORKERS,
)
from penstock.benchmarks.papers.sage.real_figures import (
    LATE_S,
    actions,
    end_p95,
    keeps_order,
    late_share,
    lateness,
    sizes,
    undone,
)

TOO_MUCH = 0.14
"""Over the optimum, at most."""

OF_15 = 13 / 15
"""The part of the runs in which that is so."""

Runs = Mapping[str, Sequence[SeenRun]]
_SCALED = "Windows of minutes are seconds (windows = 1/60), slow calls of minutes are 25 s."


def rows(runs: Runs) -> list[Row]:
    """Return the rows of the runs that there are."""
    made = [*_size_rows(runs), *_order_rows(runs), *_service_rows(runs)]
    every = [run for own in runs.values() for run in own]
    return [*made, *beside_rows(every)]


def charts(runs: Runs) -> tuple[Chart, ...]:
    """Return how late rows are in the first run of each application, and the cores that it had."""
    shown = {name: own[0] for name, own in runs.items() if "-at-" not in name}
    if not shown:
        return ()
    late, cores = [], []
    for name, run in shown.items():
        found, had = lateness(run), sizes(run)
        seconds = np.arange(0.0, run.bounds[-1][1])
        p95 = [found.p95(second, second + 1) for second in seconds.tolist()]
        there = np.isfinite(p95)
        late.append(ChartLine(name, seconds[there].tolist(), np.array(p95)[there].tolist()))
        cores.append(ChartLine(name, had.at_s.tolist(), had.cores.tolist()))
    return (
        Chart("real_late", "How late 95 of 100 rows are", "s", "s", tuple(late), log_y=True),
        Chart("real_cores", "Cores of the whole job, since its first look", "s", "cores", tuple(cores)),
    )


def had(run: SeenRun, lacking: str) -> float:
    """Return how much a run had in the end of what it had lacked, in the unit of `GRID`."""
    found = sizes(run)
    last = {MEMORY: found.memory[-1] / MB, CPU: found.cores[-1], WORKERS: found.workers[-1]}
    return float(last[lacking])


def optimum(runs: Runs, lacking: str) -> float | None:
    """Return the least size of the grid with which rows are not late, and that no larger one contradicts.

    None: there is none.
    """
    least = None
    for value in sorted(GRID[lacking], reverse=True):
        seen = runs.get(f"{lacking}-at-{value:g}")
        if not seen or end_p95(seen[0]) > LATE_S:
            break
        least = value
    return least


def _size_rows(runs: Runs) -> Iterator[Row]:
    over: list[float] = []
    late: list[float] = []
    for lacking in LACKING:
        seen, best = runs.get(lacking, ()), optimum(runs, lacking)
        if not seen:
            continue
        late += [end_p95(run) for run in seen]
        if best is None:
            continue
        own = [had(run, lacking) / best - 1 for run in seen]
        over += own
        unit = {MEMORY: "MB", CPU: "cores", WORKERS: "task managers"}[lacking]
        yield RealRow(
            0, f"lacks {lacking}: what it has in the end", "", "", spread([had(run, lacking) for run in seen]),
            spread([best]), unit=unit, note="Baseline: the least of a grid with which rows are not late.",
        )  # fmt: skip
    if over:
        fits = share([each <= TOO_MUCH for each in over])
        yield RealRow(
            0, f"runs with at most {TOO_MUCH:.0%} over the optimum", "14% at most", f">= {OF_15:.2f} of runs", fits,
            met=fits.median >= OF_15, note=f"Of {len(over)} runs; over by {_percents(over)}. {_SCALED}",
        )  # fmt: skip
    if late:
        in_time = share([each <= LATE_S for each in late])
        yield RealRow(
            0, f"runs in which 95 of 100 rows are at most {LATE_S:g} s late in the end", "", "all", in_time,
            met=in_time.median == 1.0, note=f"95 of 100 rows: {', '.join(f'{each:.2f}' for each in sorted(late))} s.",
        )  # fmt: skip


def _order_rows(runs: Runs) -> Iterator[Row]:
    ours, first = runs.get(ALL, ()), runs.get(FIRST, ())
    if ours:
        done = [actions(run.folder / ACTIONS) for run in ours]
        kept = share([keeps_order(each) for each in done])
        again = sum(map(undone, done))
        baseline = share([keeps_order(actions(run.folder / ACTIONS)) for run in first]) if first else None
        words = "; ".join(", ".join(f"{it.what} {'up' if it.is_up else 'down'}" for it in each) for each in done)
        yield RealRow(
            0, "lacks everything: memory grows before cores, and these before task managers", "always", "all runs",
            kept, baseline, met=kept.median == 1.0,
            note=f"Baseline: parallelism first. {words}. Undone: {again}.",
        )  # fmt: skip
    if ours and first:
        own, other = spread([late_share(run) for run in ours]), spread([late_share(run) for run in first])
        yield RealRow(
            0, "lacks everything: seconds in which rows are late", "", "less than parallelism first", own, other,
            met=own.median < other.median, unit="of the run",
        )  # fmt: skip


def _service_rows(runs: Runs) -> Iterator[Row]:
    slow, loaded, unguarded = (runs.get(name, ()) for name in (SLOW, LOADED, UNGUARDED))
    if slow:
        ours = spread([float(_growths(run)) for run in slow])
        rival = spread([float(_growths(run)) for run in unguarded]) if unguarded else None
        yield RealRow(
            0, "growth of task managers while a service is slow", "none", "0; without a guard more", ours, rival,
            met=None if rival is None else ours.p90 == 0 and rival.median > 0, unit="actions",
            note="Baseline: no guard. A real HTTP server answers after 0.25 s in place of 0.05 s for 25 s.",
        )  # fmt: skip
    if loaded:
        found = spread([float(_growths(run)) for run in loaded])
        yield RealRow(
            0, "growth of task managers as twice as many rows come", "at least one", ">= 1", found,
            met=found.p10 >= 1, unit="actions",
        )  # fmt: skip


def _growths(run: SeenRun) -> int:
    done = actions(run.folder / ACTIONS)
    return sum(action.is_up and action.what == "parallelism" for action in done)


def _percents(values: Sequence[float]) -> str:
    return ", ".join(f"{value:+.0%}" for value in sorted(values))
