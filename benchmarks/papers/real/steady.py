"""``python -m penstock.benchmarks.papers.real.steady --out DIR``: a job under steady load, recorded, decided on by all.

A broker, an injector and WordCount on two task managers, with 2 ms of blocking work a row; nobody acts. Its action log
has what its head saw each second, and every policy decides on that once more: after its warm-up it is to want nothing.
A run that is there is not made again. Exits with 1 if a policy would act, or could not see the job.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from penstock.benchmarks.papers.flink_er.real_cases import case
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.seen import ACTIONS, SeenRun
from penstock.benchmarks.papers.real.steady_policies import PolicyLine, lines, ticks_of
from penstock.tables import Column, print_table

NAME = "steady"
LOAD = 1.3
"""Of what one instance can take: two are busy for 0.65 of the time."""

CONTROL = {"cores": 4.0}
"""What policies that scale may have."""

_QUERIES = {"counts": (0.5, 1)}
"""A minimum accuracy, so that those that shed have somebody to shed for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Record the job, and print a line for each policy."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.papers.real.steady", description=__doc__)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="where the run is kept")
    parser.add_argument("--minutes", metavar="M", type=float, default=30.0, help="how long the load lasts")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    run = recorded(steady_case(60.0 * arguments.minutes), arguments.out / NAME)
    found = lines(ticks_of(run.folder / ACTIONS), CONTROL)
    with (arguments.out / "policies.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(line)) + "\n" for line in found)
    show(run, found)
    return 0 if is_calm(found) else 1


def steady_case(seconds: float) -> RealCase:
    """Return the run: one load for so long, nobody acts."""
    words = case(Scale.SHORT, "zipf-0.5")
    options: dict[str, Any] = {"contracts": _QUERIES, "counting": 2}
    return replace(
        words, name=NAME, loads=((LOAD, seconds),), control={}, is_watched=True, task_managers=2, options=options,
        catch_up_s=0.0, exact="",
    )  # fmt: skip


def recorded(steady: RealCase, folder: Path) -> SeenRun:
    """Return a run, which is made if it is not there."""
    return SeenRun(run_case(steady, folder, lambda text: print(text, file=sys.stderr)).parent)


def is_calm(found: Sequence[PolicyLine]) -> bool:
    """Return whether every policy that looked once it was warm saw the job and would have left it alone."""
    return all(line.actions == 0 and line.measured == line.looks for line in found)


def show(run: SeenRun, found: Sequence[PolicyLine]) -> None:
    """Print the table."""
    text = ("policy", "first action")
    titles = ("policy", "every s", "looks", "measured", "actions", "first action")
    print_table(
        [Column(title, figures=title not in text) for title in titles],
        [
            [line.policy, f"{line.every_s:g}", *map(str, (line.looks, line.measured, line.actions)), line.first]
            for line in found
        ],
        stream=sys.stdout,
    )
    print(f"{run.bounds[-1][1] / 60:.3g} minutes at {LOAD:g} of what one instance can take; two ran")


if __name__ == "__main__":
    raise SystemExit(main())
