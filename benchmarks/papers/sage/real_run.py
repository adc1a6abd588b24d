"""The evaluation of Sage on real parts: its runs in turn, rows and charts. Called by `EVALUATION`."""

from pathlib import Path

from penstock.benchmarks.papers.evaluation import Progress, Result
from penstock.benchmarks.papers.real.kept_runs import kept_runs
from penstock.benchmarks.papers.real.wanted import Wanted
from penstock.benchmarks.papers.sage.real_cases import cases
from penstock.benchmarks.papers.sage.real_rows import charts, rows


def run(wanted: Wanted, folder: Path, progress: Progress) -> Result:
    """Return rows and charts of the runs in a folder; those that are not there yet are made.

    Raises:
        OptionError: there is no such case, or a folder has a run of another one.
    """
    seen = kept_runs(wanted.times(cases), folder, progress)
    return Result(tuple(rows(seen)), charts(seen))
