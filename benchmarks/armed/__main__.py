"""``python -m penstock.benchmarks.armed``: throughput of a query armed and idle over unarmed, and of shed aggregates.

A query is armed that has a contract, and whose source hashes what it reads, while all is kept. Aggregates take half of
their rows as a shedder leaves them, beside the same rows from a source that has only these. Each measurement is made in
a process of its own on one core, in CPU seconds; both sides of a pair take turns, and the median of pairs counts.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.benchmarks.armed.measurement import AGGREGATES, ARMED, BARE, KEPT, SHED
from penstock.benchmarks.nexmark.dataset import ensure_dataset
from penstock.benchmarks.nexmark.topic import EventTopic, fill
from penstock.benchmarks.processes import measured
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.nexmark.config import NexmarkConfig

QUERIES = ("q5", "q11", "q17")
KAFKA = "kafka"
"""q0 from a topic."""

IDLE_FLOOR, SHED_FLOOR = 0.98, 0.95


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each; return 1 if one is below its floor."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.armed", description=__doc__)
    choices = (*QUERIES, KAFKA, *AGGREGATES)
    parser.add_argument("--only", nargs="+", choices=choices, default=choices, help="what is measured")
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--directory", type=Path, default=Path(".nexmark"))
    options = parser.parse_args(argv)
    print(f"{'':<18} {'median':>7} {'least':>7} {'most':>7}  floor")
    met = True
    for what in options.only:
        first, second = (KEPT, SHED) if what in AGGREGATES else (BARE, ARMED)
        floor = SHED_FLOOR if what in AGGREGATES else IDLE_FLOOR
        with _source(what, options.events, options.directory) as source:
            ratios = [_pair(what, source, options.events, (first, second), turn) for turn in range(options.pairs)]
        median = statistics.median(ratios)
        met &= median >= floor
        print(f"{what:<18} {median:>7.3f} {min(ratios):>7.3f} {max(ratios):>7.3f}  {floor}", flush=True)
    return 0 if met else 1


@contextmanager
def _source(what: str, events: int, directory: Path) -> Iterator[str]:
    """Yield where the events of a measurement are: a folder, the address of a topic, or nowhere."""
    if what in QUERIES:
        yield str(ensure_dataset(directory / f"events-{events}", events).resolve())
    elif what == KAFKA:
        with TemporaryDirectory(prefix="penstock-bench-") as folder, LocalBroker(folder, large=True) as broker:
            topic = EventTopic(broker.bootstrap, "events")
            fill(topic, NexmarkConfig(events=events))
            yield topic.address
    else:
        yield ""


def _pair(what: str, source: str, events: int, sides: tuple[str, str], turn: int) -> float:
    """Return the throughput of the second side over that of the first; every other time the second goes first."""
    order = sides if turn % 2 == 0 else sides[::-1]
    query = "q0" if what == KAFKA else what
    taken = {
        side: measured(
            "penstock.benchmarks.armed.measurement",
            [json.dumps({"query": query, "source": source, "events": events, "side": side})],
        )["cpu_s"]
        for side in order
    }
    return float(taken[sides[0]] / taken[sides[1]])


if __name__ == "__main__":
    sys.exit(main())
