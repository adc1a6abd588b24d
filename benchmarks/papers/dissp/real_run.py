"""The DISSP evaluation on real parts: its runs in turn, rows and charts. Called by `EVALUATION`."""

from pathlib import Path

from penstock.benchmarks.papers.dissp.real_cases import cases
from penstock.benchmarks.papers.dissp.real_charts import charts
from penstock.benchmarks.papers.dissp.real_drops import ROWS, drop_runs
from penstock.benchmarks.papers.dissp.real_rows import rows
from penstock.benchmarks.papers.evaluation import Progress, Result
from penstock.benchmarks.papers.real.kept_runs import kept_runs
from penstock.benchmarks.papers.real.scale import Scale


def run(scale: Scale, runs: int, folder: Path, progress: Progress) -> Result:
    """Return rows and charts of the runs in a folder; those that are not there yet are made."""
    seen = kept_runs(cases(scale, runs), folder, progress)
    is_smoke = scale is Scale.SMOKE
    drops = drop_runs(1 if is_smoke else runs, ROWS // 10 if is_smoke else ROWS, folder, progress)
    return Result(tuple(rows(seen, drops)), charts(seen))
