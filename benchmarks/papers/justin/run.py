"""The whole evaluation of Justin and DS2, deterministic by seed. Called through `EVALUATION`."""

from penstock.benchmarks.papers.evaluation import Progress, Result, draw_seeds
from penstock.benchmarks.papers.justin import figure_5, steps
from penstock.benchmarks.papers.justin.pictures import bars, by_state, q11_over_time


def run(seed: int, draws: int, progress: Progress) -> Result:
    """Return rows and charts; each headline row rests on so many draws of the parameters."""
    seeds = draw_seeds(seed, draws)
    results = figure_5.results(seeds, progress)
    curve, sigma_chart = steps.curve(seed, seeds, progress)
    rows = [*figure_5.rows(seed, results), *steps.rows(seed, seeds, progress), *curve]
    charts = (*bars(results), *q11_over_time(seeds[0]), by_state(seeds, progress), sigma_chart)
    return Result(tuple(rows), charts)
