"""The DISSP evaluation on real parts: its runs in turn, rows and charts. Called by `EVALUATION`."""

from pathlib import Path

from penstock.benchmarks.papers.dissp.real_cases import cases
from penstock.benchmarks.papers.dissp.real_charts import charts
from penstock.benchmarks.papers.dissp.real_drops import DROPS, ROWS, drop_runs
from penstock.benchmarks.papers.dissp.real_rows import rows
from penstock.benchmarks.papers.evaluation import Progress, Result
from penstock.benchmarks.papers.real.kept_runs import kept_runs
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.wanted import Wanted


def run(wanted: Wanted, folder: Path, progress: Progress) -> Result:
    """Return rows and charts of the runs in a folder; those that are not there yet are made.

    Raises:
        OptionError: there is no such case, or a folder has a run of another one.
    """
    seen = kept_runs(wanted.times(cases, [DROPS]), folder, progress)
    is_smoke = wanted.scale is Scale.SMOKE
    runs, messages = (1, ROWS // 10) if is_smoke else (wanted.runs, ROWS)
    drops = drop_runs(runs, messages, folder, progress) if wanted.has(DROPS) else []
    return Result(tuple(rows(seen, drops)), charts(seen))
