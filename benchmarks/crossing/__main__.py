"""``python -m penstock.benchmarks.crossing``: what rows cost that cross between two processes, by transport.

Four tables: ways into shared memory; rows as fast as they go; rows that come to a busy loop; query 11 on one process
and on two. Every figure is the best of several runs taken in turns; CPU counts both processes.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.benchmarks.crossing.measurements import measure_all
from penstock.benchmarks.crossing.report import render
from penstock.benchmarks.nexmark.dataset import ensure_dataset


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print tables or, with ``--json``, the figures in them."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.crossing", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each run beside a busy loop")
    parser.add_argument("--directory", type=Path, default=Path(".nexmark"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    directory = ensure_dataset(arguments.directory / f"events-{arguments.events}", arguments.events)
    figures = measure_all(directory.resolve(), arguments.events, arguments.runs, arguments.seconds)
    print(json.dumps(figures, indent=1) if arguments.json else render(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
