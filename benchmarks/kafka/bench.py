"""Nexmark queries from a Kafka topic per second of CPU, beside what a bare consumer and the decoders take.

Fills a topic of a broker of its own, or reads one that is there; measurements take turns, each in a process of its own,
and medians are shown.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.benchmarks.kafka.measurement import CONSUMER, DECODER, GENERAL, ConsumerMeasurement
from penstock.benchmarks.nexmark.topic import SCHEME, EventTopic, fill, parse_address
from penstock.benchmarks.processes import measured
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.nexmark.config import NexmarkConfig

RESULTS = Path(__file__).resolve().parent.parent / "results" / "kafka.md"
EVENTS = 3_000_000
QUERIES = ("q0", "q2", "q5")
FLINK = {"q0": 0.22, "q2": 0.26, "q5": 0.19}
"""M messages per second of CPU of Flink 2.3 SQL, measured once on the same messages; for q5 its inner count."""

FLOOR, GOAL = 2.0, 4.0
"""Least and aimed-at ratio of our rate to Flink's."""

_NAMES = {
    CONSUMER: "bare consumer that counts",
    GENERAL: "pyarrow.json alone, fields of q0",
    DECODER: "decoder alone, fields of q0",
    **{query: f"job {query}" for query in QUERIES},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure everything and write the table; return 1 if a query is below its floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="events in the topic that is filled")
    parser.add_argument("--runs", type=int, default=3, help="how often each measurement is made")
    parser.add_argument("--topic", help=f"a topic to read instead: {SCHEME}HOST:PORT/TOPIC")
    parser.add_argument("--no-write", action="store_true", help="only print")
    options = parser.parse_args(argv)
    with _topic(options.topic, options.events) as topic:
        measured: dict[str, list[ConsumerMeasurement]] = {what: [] for what in _NAMES}
        for _ in range(options.runs):
            for what, runs in measured.items():
                runs.append(_measure(what, topic))
                print(f"{what} {_cpu_rate(runs[-1:]):.2f} M/CPU-s", file=sys.stderr)
    table = _table(measured)
    print(table)
    if not options.no_write:
        RESULTS.write_text(table)
    return 0 if all(_ratio(query, measured) >= FLOOR for query in QUERIES) else 1


@contextmanager
def _topic(address: str | None, events: int) -> Iterator[EventTopic]:
    if address is not None:
        yield parse_address(address)
        return
    with TemporaryDirectory(prefix="penstock-bench-") as folder, LocalBroker(folder, large=True) as broker:
        topic = EventTopic(broker.bootstrap, "events")
        fill(topic, NexmarkConfig(events=events))
        yield topic


def _measure(what: str, topic: EventTopic) -> ConsumerMeasurement:
    module = "penstock.benchmarks.kafka.measurement"
    return ConsumerMeasurement(**measured(module, [what, topic.address], cores=None))


def _cpu_rate(runs: Sequence[ConsumerMeasurement]) -> float:
    return statistics.median(run.messages / run.cpu_s / 1e6 for run in runs)


def _ratio(query: str, measured: dict[str, list[ConsumerMeasurement]]) -> float:
    return _cpu_rate(measured[query]) / FLINK[query]


def _table(measured: dict[str, list[ConsumerMeasurement]]) -> str:
    runs = next(iter(measured.values()))
    lines = [
        "# JSON messages from Kafka",
        "",
        f"{runs[0].messages:,} Nexmark messages of about 330 bytes in 4 partitions, M messages/s of CPU time of all "
        f"threads and by the clock, medians of {len(runs)} runs in turns. Flink 2.3 SQL was measured once per second "
        "of CPU; for q5 its count per auction alone.",
        "",
        "| | per CPU second | by the clock | Flink SQL | ratio | floor | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, name in _NAMES.items():
        clock = statistics.median(run.messages / run.wall_s / 1e6 for run in measured[what])
        beside = " | | | |"
        if what in FLINK:
            beside = f"{FLINK[what]:.2f} | **{_ratio(what, measured):.1f}** | {FLOOR:.1f} | {GOAL:.1f} |"
        lines.append(f"| {name} | {_cpu_rate(measured[what]):.2f} | {clock:.2f} | {beside}")
    both = 1 / (1 / _cpu_rate(measured[CONSUMER]) + 1 / _cpu_rate(measured[DECODER]))
    lines += ["", f"A bare consumer and the decoder leave {both:.2f} M messages/s of CPU."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
