"""The evaluation of Justin on real parts: its runs in turn, rows and charts. Called by `EVALUATION`."""

from pathlib import Path

from penstock.benchmarks.papers.evaluation import Progress, Result
from penstock.benchmarks.papers.justin.real_cases import cases
from penstock.benchmarks.papers.justin.real_rows import charts, rows
from penstock.benchmarks.papers.justin.real_state import STATE, state_cases, state_runs
from penstock.benchmarks.papers.real.kept_runs import kept_runs
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.wanted import Wanted


def run(wanted: Wanted, folder: Path, progress: Progress) -> Result:
    """Return rows and charts of the runs in a folder; those that are not there yet are made.

    Raises:
        OptionError: there is no such case, or a folder has a run of another one.
    """
    times = wanted.times(cases, [STATE])
    runs = 1 if wanted.scale is Scale.SMOKE else wanted.runs
    states = state_runs(state_cases(wanted.scale), runs, folder, progress) if wanted.has(STATE) else []
    seen = kept_runs(times, folder, progress)
    return Result(tuple(rows(states, seen)), charts(states, seen))
