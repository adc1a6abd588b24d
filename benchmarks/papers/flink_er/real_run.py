"""The Flink-ER evaluation on real parts: its runs in turn, rows and charts. Called by `EVALUATION`."""

from pathlib import Path

from penstock.benchmarks.papers.evaluation import Progress, Result
from penstock.benchmarks.papers.flink_er.real_cases import cases
from penstock.benchmarks.papers.flink_er.real_charts import charts
from penstock.benchmarks.papers.flink_er.real_figures import written
from penstock.benchmarks.papers.flink_er.real_rows import rows
from penstock.benchmarks.papers.real.kept_runs import kept_runs
from penstock.benchmarks.papers.real.wanted import Wanted


def run(wanted: Wanted, folder: Path, progress: Progress) -> Result:
    """Return rows and charts of the runs in a folder; those that are not there yet are made.

    Raises:
        OptionError: there is no such case, or a folder has a run of another one.
    """
    seen = {
        name: [(each, written(each)) for each in own]
        for name, own in kept_runs(wanted.times(cases), folder, progress).items()
    }
    return Result(tuple(rows(seen)), charts(seen))
