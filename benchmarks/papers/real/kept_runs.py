"""Runs of an evaluation in a folder: those that are there are read, the others are made first."""

from collections.abc import Sequence
from pathlib import Path

from penstock.benchmarks.papers.evaluation import Progress, in_turn
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.kept_case import kept_run
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.seen import SeenRun


def numbered(cases: Sequence[tuple[RealCase, int]]) -> list[tuple[RealCase, int]]:
    """Return each case with the numbers of its runs, from 1 on: the first of all, then the second of all, and so on.

    So whoever stops in between has about equally many of each, and what changes on the machine meets all of them.
    """
    most = max((times for _, times in cases), default=0)
    return [(case, number) for number in range(1, most + 1) for case, times in cases if number <= times]


def kept_runs(cases: Sequence[tuple[RealCase, int]], folder: Path, progress: Progress) -> dict[str, list[SeenRun]]:
    """Return the runs of cases, each so many times, by the case's name and in their order.

    Raises:
        OptionError: a folder has a run of another case; none is made then.
    """
    wanted = [(case, folder / f"{case.name}-{number}") for case, number in numbered(cases)]
    for case, own in wanted:
        kept_run(case, own)
    seen: dict[str, list[SeenRun]] = {}
    for case, own in in_turn(wanted, "runs", progress):
        run_case(case, own)
        seen.setdefault(case.name, []).append(SeenRun(own))
    return seen
