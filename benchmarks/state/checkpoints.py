"""``python -m penstock.benchmarks.state.checkpoints``: what checkpoints every ten seconds cost q5, q8 and q11.

Each query runs over generated events with and without checkpoints in turns, every run a process of its own on one core.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.nexmark.run import CountingSink
from penstock.benchmarks.processes import measured
from penstock.dsl.job import Job
from penstock.engine.connectors.nexmark.config import NexmarkConfig

RESULTS = Path(__file__).resolve().parent.parent / "results"
MODULE = "penstock.benchmarks.state.checkpoints"
QUERIES = ("q5", "q8", "q11")
LEAST = 0.85
"""The share of its rate without checkpoints that a query must keep."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it to ``benchmarks/results/checkpoints.md``."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.state.checkpoints", description=__doc__)
    parser.add_argument("--events", type=int, default=150_000_000)
    parser.add_argument("--interval", default="10s")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        print(json.dumps(_one(json.loads(arguments.one))))
        return 0
    lines = [
        f"# Checkpoints every {arguments.interval}\n\n{arguments.events:,} generated events, M events/s on one core, "
        f"medians of {arguments.runs} runs in turns; at least {LEAST:.0%} is asked.\n",
        "| query | without | with | kept | checkpoints |",
        "|---|---|---|---|---|",
    ]
    for query in QUERIES:
        rates: dict[bool, list[float]] = {False: [], True: []}
        taken = 0
        for _ in range(arguments.runs):
            for checkpoints, values in rates.items():
                interval = arguments.interval if checkpoints else None
                request = {"query": query, "events": arguments.events, "interval": interval}
                result = measured(MODULE, ["--one", json.dumps(request)])
                values.append(result["rate"])
                taken = max(taken, result["checkpoints"])
        without, with_them = (statistics.median(values) for values in rates.values())
        lines.append(f"| {query} | {without:.2f} | {with_them:.2f} | **{with_them / without:.0%}** | {taken} |")
        print(lines[-1], file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    (RESULTS / "checkpoints.md").write_text(text)
    return 0


def _one(request: dict[str, Any]) -> dict[str, Any]:
    with TemporaryDirectory(prefix="penstock-") as folder:
        few = NexmarkConfig(events=5_000)
        _run(request["query"], few, Path(folder) / "few", None)
        began = time.perf_counter()
        metrics = _run(request["query"], replace(few, events=request["events"]), Path(folder), request["interval"])
        rate = request["events"] / (time.perf_counter() - began) / 1e6
    return {"rate": rate, "checkpoints": metrics.checkpoints.committed if metrics.checkpoints else 0}


def _run(query: str, source: NexmarkConfig, folder: Path, interval: str | None) -> Any:
    job = Job()
    stream = load(query)(Events(job, source))
    stream.write(CountingSink(), mode="changelog" if stream.updating else "append").name(query)
    for number, node in enumerate(list(job.graph.operators.values())):
        if not node.named:
            job.change(node.id, name=f"operator {number}", named=True)
    options: dict[str, Any] = {"directory": folder / "job"}
    if interval is not None:
        options |= {"checkpoint_dir": folder / "checkpoints", "checkpoint_interval": interval}
    return job.run("measured", **options)


if __name__ == "__main__":
    sys.exit(main())
