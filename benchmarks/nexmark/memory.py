"""Shows that memory is bounded: runs queries over many generated events and samples the resident memory on the way.

``python -m penstock.benchmarks.nexmark.memory --events 100000000 --queries q5,q7,q8,q11``
"""

import argparse
import json
import sys
from collections.abc import Sequence

import psutil

from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.nexmark.run import CountingSink
from penstock.benchmarks.processes import measured
from penstock.dsl.job import Job, embed
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.jobs.metrics import JobMetrics
from penstock.runs.run_options import RunOptions

SAMPLES = 20
"""Points of the curve."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run each query in a process of its own and print its curve: resident MB after each twentieth of the events."""
    parser = argparse.ArgumentParser(prog="memory", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--queries", default="q5,q7,q8,q11")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.events)))
        return 0
    for query in arguments.queries.split(","):
        arguments_of_one = ["--events", str(arguments.events), "--one", query]
        result = measured("penstock.benchmarks.nexmark.memory", arguments_of_one, cores=None)
        curve = " ".join(f"{value:.0f}" for value in result["rss_mb"])
        print(f"{query}: {result['seconds']:.0f} s, resident MB: {curve}", flush=True)
    return 0


def measure(query: str, events: int) -> dict[str, object]:
    """Run a query over generated events; return seconds and the resident memory in MB at even steps of its way."""
    job = Job()
    stream = load(query)(Events(job, NexmarkConfig(events=events)))
    stream.write(CountingSink(), mode="changelog" if stream.updating else "append").name(query)
    embedded = embed(job, RunOptions(query))
    shares = {"person": 0.02, "auction": 0.06, "bid": 0.92}
    share = sum(shares[node.name] for node in job.graph.operators.values() if not node.inputs)
    process = psutil.Process()
    curve: list[float] = []

    def sample(metrics: JobMetrics) -> None:
        if metrics.source_rows >= (len(curve) + 1) * events * share / SAMPLES:
            curve.append(process.memory_info().rss / 2**20)

    embedded.run(sample)
    return {"query": query, "seconds": embedded.metrics().elapsed_ns / 1e9, "rss_mb": curve}


if __name__ == "__main__":
    sys.exit(main())
