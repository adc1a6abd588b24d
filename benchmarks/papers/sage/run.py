"""The whole Sage evaluation, deterministic by seed. Called through `EVALUATION`."""

from penstock.benchmarks.papers.evaluation import Progress, Result, draw_seeds
from penstock.benchmarks.papers.sage import at_once_rows, remote_rows, sizing_rows
from penstock.benchmarks.papers.sage.cases import (
    CONTROL_S,
    FLEET,
    again,
    at_once,
    by_chance,
    drawn_applications,
    ours,
    right,
    sized,
    starved,
    steady,
)
from penstock.benchmarks.papers.sage.pictures import oversizes, sizes_over_time
from penstock.benchmarks.papers.sage.rivals import Independent, ParallelismFirst, bounds_of


def run(seed: int, draws: int, progress: Progress) -> Result:
    """Return rows and charts; each headline row rests on so many draws, each an application of its own."""
    seeds = draw_seeds(seed, draws)
    drawn = drawn_applications(seeds, progress)
    sage = ours()
    first = ParallelismFirst(**bounds_of(sage))
    mixed, _ = sized(drawn, by_chance, sage, progress, "sizes by chance")
    best, _ = sized(drawn, right, sage, progress, "the optimum and the margin", CONTROL_S)
    quick, _ = sized(drawn, by_chance, at_once(), progress, "sizes by chance, at once")
    quick_best, _ = sized(drawn, right, at_once(), progress, "the optimum and the margin, at once", CONTROL_S)
    rested, _ = sized(drawn[:FLEET], again(mixed, drawn), sage, progress, "sizes that came to rest", CONTROL_S)
    flat = [steady(item) for item in drawn]
    poor, runs = sized(flat, starved, sage, progress, "starved in everything")
    poor_first, _ = sized(flat[:FLEET], starved, first, progress, "starved, parallelism first")
    poor_alone, _ = sized(flat[:FLEET], starved, Independent.like(sage), progress, "starved, independent rules")
    rows = [
        *sizing_rows.rows(seed, mixed, best, rested, [by_chance(item) for item in drawn]),
        *at_once_rows.rows(seed, quick, mixed, quick_best),
        *sizing_rows.starved_rows(seed, poor, poor_first, poor_alone, best),
        *remote_rows.rows(seed, seeds, progress),
    ]
    curves = {"Sage": poor, "parallelism first": poor_first, "independent rules": poor_alone}
    return Result(tuple(rows), (sizes_over_time(flat, poor, runs), oversizes(curves)))
