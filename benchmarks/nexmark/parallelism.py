"""``python -m penstock.benchmarks.nexmark.parallelism``: what a second instance costs when both share one core.

The embedded executor runs every instance in one loop, so parallelism 2 adds an exchange and gains nothing; two cores
need two processes. Both parallelisms run in turns, each in a process of its own on one core.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.benchmarks.nexmark.dataset import ensure_dataset

RESULTS = Path(__file__).resolve().parent.parent / "results"
QUERIES = ("q5", "q11", "q4")
MOST = 0.15
"""The share of its rate that a query may lose."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it to ``benchmarks/results/parallelism.md``."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.nexmark.parallelism", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--directory", type=Path, default=Path(".nexmark"))
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args(argv)
    directory = arguments.directory / f"events-{arguments.events}"
    ensure_dataset(directory, arguments.events)
    lines = [
        f"# Two instances on one core\n\n{arguments.events:,} events from Parquet, M events/s, medians of "
        f"{arguments.runs} runs taken in turns. The cost is the share of time that parallelism 2 adds; at most "
        f"{MOST:.0%} is aimed at.\n",
        "| query | parallelism 1 | parallelism 2 | cost |",
        "|---|---|---|---|",
    ]
    for query in arguments.queries.split(","):
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(arguments.runs):
            for parallelism, values in seconds.items():
                values.append(_run(query, directory, parallelism))
        one, two = (statistics.median(values) for values in seconds.values())
        rates = [arguments.events / value / 1e6 for value in (one, two)]
        lines.append(f"| {query} | {rates[0]:.2f} | {rates[1]:.2f} | **{two / one - 1:.0%}** |")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.write:
        (RESULTS / "parallelism.md").write_text(text)
    return 0


def _run(query: str, directory: Path, parallelism: int) -> float:
    request = {"query": query, "source": str(directory), "events": None, "parallelism": parallelism}
    request |= {"batch_rows": None, "out": None}
    core = max(os.sched_getaffinity(0))
    ran = subprocess.run(
        [sys.executable, "-m", "penstock.benchmarks.nexmark.run", json.dumps(request)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    return float(json.loads(ran.stdout.strip().splitlines()[-1])["seconds"])


if __name__ == "__main__":
    sys.exit(main())
