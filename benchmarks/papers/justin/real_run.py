"""The evaluation of Justin on real parts: its runs in turn, rows and charts. Called by `EVALUATION`."""

from pathlib import Path

from penstock.benchmarks.papers.evaluation import Progress, Result
from penstock.benchmarks.papers.justin.real_cases import cases
from penstock.benchmarks.papers.justin.real_rows import charts, rows
from penstock.benchmarks.papers.justin.real_state import state_cases, state_runs
from penstock.benchmarks.papers.real.kept_runs import kept_runs
from penstock.benchmarks.papers.real.scale import Scale


def run(scale: Scale, runs: int, folder: Path, progress: Progress) -> Result:
    """Return rows and charts of the runs in a folder; those that are not there yet are made."""
    states = state_runs(state_cases(scale), 1 if scale is Scale.SMOKE else runs, folder, progress)
    seen = kept_runs(cases(scale, runs), folder, progress)
    return Result(tuple(rows(states, seen)), charts(states, seen))
