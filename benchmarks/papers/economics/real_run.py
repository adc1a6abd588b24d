"""The Stream-Economics evaluation on real parts: its runs in turn, rows and charts. Called by `EVALUATION`."""

from pathlib import Path

from penstock.benchmarks.papers.economics.real_cases import cases
from penstock.benchmarks.papers.economics.real_charts import charts
from penstock.benchmarks.papers.economics.real_rows import rows
from penstock.benchmarks.papers.evaluation import Progress, Result, in_turn
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.seen import SeenRun


def run(scale: Scale, runs: int, folder: Path, progress: Progress) -> Result:
    """Return rows and charts of the runs in a folder; those that are not there yet are made."""
    wanted = [
        (case, folder / f"{case.name}-{number}") for case, times in cases(scale, runs) for number in range(1, times + 1)
    ]
    seen: dict[str, list[SeenRun]] = {}
    for case, own in in_turn(wanted, "runs", progress):
        run_case(case, own)
        seen.setdefault(case.name, []).append(SeenRun(own))
    return Result(tuple(rows(seen)), charts(seen))
