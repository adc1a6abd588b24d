"""``python -m penstock.benchmarks.cluster``: what several task managers gain and cost, both sides in one run.

Throughput of three queries, latency through an exchange, recovery after ``kill -9``, some 500 idle instances, how long
a checkpoint of 1 GB holds an operator, a change of parallelism a job, and a move its rows, which is drawn; and on a Ray
cluster throughput beside processes, what it takes with nothing to do, and how long a job takes to its first row, after
kills, and to stop.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.benchmarks.cluster import (
    held,
    idle,
    latency,
    move_curve,
    ray_idle,
    ray_throughput,
    ray_times,
    recovery,
    rescale,
    throughput,
)
from penstock.benchmarks.nexmark.dataset import ensure_dataset

RESULTS = Path(__file__).resolve().parent.parent / "results"
PARTS = (
    "throughput",
    "latency",
    "recovery",
    "idle",
    "held",
    "rescale",
    "move",
    "ray_throughput",
    "ray_idle",
    "ray_times",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print Markdown tables or, with ``--json``, the figures in them."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.cluster", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each latency and idle measurement")
    parser.add_argument("--keys", type=int, default=18_000_000, help="of the state that checkpoints hold: 1 GB")
    parser.add_argument("--checkpoints", type=int, default=20, help="of each operator")
    parser.add_argument("--rows-per-s", type=int, default=200_000)
    parser.add_argument("--directory", type=Path, default=Path(".nexmark"))
    parser.add_argument("--load", type=float, default=0.6, help="of a move: the share of what its job can take")
    parser.add_argument("--quiet-s", type=float, default=60.0, help="before and behind a move")
    parser.add_argument("--lead-s", type=float, help="of a move: begin it so long before a checkpoint is due")
    parser.add_argument("--picture", type=Path, default=RESULTS / "move.svg", help="of a move, as SVG")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    wanted = arguments.only or PARTS
    figures: dict[str, list[dict[str, Any]]] = {}
    for part, module in (("throughput", throughput), ("ray_throughput", ray_throughput)):
        if part in wanted:
            directory = ensure_dataset(arguments.directory / f"events-{arguments.events}", arguments.events)
            figures[part] = module.measure(directory.resolve(), arguments.runs)
    if "latency" in wanted:
        figures["latency"] = list(latency.measure(arguments.rows_per_s, arguments.seconds))
    if "recovery" in wanted:
        figures["recovery"] = [recovery.measure(arguments.kills)]
    if "idle" in wanted:
        figures["idle"] = [idle.measure(arguments.seconds)]
    if "held" in wanted:
        figures["held"] = held.measure(arguments.keys, arguments.checkpoints)
    if "rescale" in wanted:
        figures["rescale"] = rescale.measure(arguments.keys, arguments.rows_per_s)
    if "move" in wanted:
        given = (arguments.keys, arguments.load, arguments.quiet_s, arguments.picture)
        figures["move"] = move_curve.measure(*given, arguments.lead_s)
    if "ray_idle" in wanted:
        figures["ray_idle"] = ray_idle.measure(arguments.seconds)
    if "ray_times" in wanted:
        figures["ray_times"] = list(ray_times.measure(arguments.kills, arguments.runs))
    print(json.dumps(figures, indent=1) if arguments.json else "\n".join(_tables(figures)))
    return 0


def _tables(figures: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = []
    for name, rows in figures.items():
        columns = list(rows[0])
        lines += [f"## {name.capitalize()}", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        lines += [f"| {' | '.join(_shown(row[column]) for column in columns)} |" for row in rows]
        lines.append("")
    return lines


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
