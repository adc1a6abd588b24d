"""``python -m penstock.benchmarks.nexmark.parallelism``: what a second instance costs when both share one core.

The embedded executor runs every instance in one loop, so parallelism 2 adds an exchange and gains nothing; two cores
need two processes. Both parallelisms run in turns in one process on one core; the first round does not count, because
it pays for memory that is new to the process, and a stream runs for longer than that.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.benchmarks.nexmark.dataset import ensure_dataset
from penstock.benchmarks.nexmark.run import run_query
from penstock.benchmarks.processes import measured

MODULE = "penstock.benchmarks.nexmark.parallelism"
RESULTS = Path(__file__).resolve().parent.parent / "results"
QUERIES = ("q5", "q11", "q4")
MOST = 0.15
"""The share of its rate that a query may lose."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it to ``benchmarks/results/parallelism.md``."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--directory", type=Path, default=Path(".nexmark"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args(argv)
    directory = arguments.directory / f"events-{arguments.events}"
    if arguments.one:
        print(json.dumps(_in_turns(arguments.one, directory, arguments.runs)))
        return 0
    ensure_dataset(directory, arguments.events)
    lines = [
        f"# Two instances on one core\n\n{arguments.events:,} events from Parquet, M events/s, the best of "
        f"{arguments.runs} runs taken in turns in one process, after one that does not count. The cost is the share of "
        f"time that parallelism 2 adds; at most {MOST:.0%} is aimed at.\n",
        "| query | parallelism 1 | parallelism 2 | cost |",
        "|---|---|---|---|",
    ]
    given = ["--events", str(arguments.events), "--runs", str(arguments.runs), "--directory", str(arguments.directory)]
    for query in arguments.queries.split(","):
        one, two = (min(seconds) for seconds in measured(MODULE, ["--one", query, *given]))
        rates = [arguments.events / value / 1e6 for value in (one, two)]
        lines.append(f"| {query} | {rates[0]:.2f} | {rates[1]:.2f} | **{two / one - 1:.0%}** |")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.write:
        (RESULTS / "parallelism.md").write_text(text)
    return 0


def _in_turns(query: str, directory: Path, runs: int) -> list[list[float]]:
    """Return the seconds of every run at parallelism 1 and at 2."""
    rounds = [[run_query(query, directory, parallelism=count).seconds for count in (1, 2)] for _ in range(runs + 1)]
    return [list(seconds) for seconds in zip(*rounds[1:], strict=True)]


if __name__ == "__main__":
    sys.exit(main())
