"""The whole Stream-Economics evaluation, deterministic by seed but for the times of cycles. Called by `EVALUATION`."""

from penstock.benchmarks.papers.economics import overload_rows, scenario_rows, tracking_rows
from penstock.benchmarks.papers.economics.charts import charts
from penstock.benchmarks.papers.evaluation import Progress, Result, draw_seeds


def run(seed: int, draws: int, progress: Progress) -> Result:
    """Return rows, charts and logs; each headline row rests on so many draws of the parameters."""
    seeds = draw_seeds(seed, draws)
    rows = [
        *overload_rows.peak_rows(seed, seeds, progress),
        *tracking_rows.rows(seed, seeds, progress),
        *scenario_rows.rows(seed, seeds, progress),
        *overload_rows.figure_8_rows(seed, seeds, progress),
        *overload_rows.sharing_rows(seed, seeds, progress),
        *tracking_rows.speed_rows(seed, progress),
    ]
    return Result(tuple(rows), *charts(seeds[0]))
