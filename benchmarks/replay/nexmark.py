"""Every Nexmark query as a stream from a topic of a real broker, and by Spark from the same offsets: are they the same?

``python -m penstock.benchmarks.replay.nexmark --events 5000000`` fills a topic of a broker of its own, prints a table,
writes it to ``benchmarks/results/replay.md``, and exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.benchmarks.nexmark.topic import SCHEME, EventTopic, fill, parse_address
from penstock.benchmarks.replay.machine import machine
from penstock.benchmarks.replay.nexmark_job import QUERIES, NexmarkJob
from penstock.benchmarks.replay.nexmark_replay import Replayed, replay_queries
from penstock.benchmarks.replay.sections import write_section
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.replay.report import write_report
from penstock.replay.session import spark_session
from penstock.replay.validation_json import to_json
from penstock.replay.validation_result import ComparisonStatus

EVENTS = 5_000_000
SPAN_S = 300
"""Seconds of event time of the events: enough for windows, sessions and auctions to end."""

START_US = 1_704_153_540_000_000
"""A minute before midnight, as some queries have groups a day."""

SHUFFLED = 100
"""Events whose order is shuffled, so that they come late, but not too late."""

TITLE = "Nexmark: streams and their replays"


def config(events: int) -> NexmarkConfig:
    """Return what the generator makes."""
    return NexmarkConfig(events, rate_per_s=events / SPAN_S, start=START_US, out_of_order_group=SHUFFLED)


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything, and return 1 if a query differs or could not be compared."""
    parser = argparse.ArgumentParser(prog="nexmark", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="events in the topic that is filled")
    parser.add_argument("--queries", type=_queries, default=QUERIES, help="q0,q1,...; all but q12 if not given")
    parser.add_argument("--topic", help=f"a topic to read instead: {SCHEME}HOST:PORT/TOPIC")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")
    parser.add_argument("--memory", default="2g", help="of Spark's driver")
    parser.add_argument("--out", type=Path, help="keep validation.json and validation.html there")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args(argv)
    settings = {"spark.driver.memory": arguments.memory, "spark.sql.shuffle.partitions": "8"}
    with TemporaryDirectory(prefix="penstock-replay-") as folder, _topic(arguments, Path(folder)) as topic:
        pipeline = NexmarkJob(topic, Path(folder), arguments.queries)
        with spark_session(arguments.master, settings=settings, name="penstock-nexmark") as session:
            replayed = replay_queries(pipeline, session, tell=_tell)
    text = render(replayed)
    print(text)
    if arguments.write:
        write_section(TITLE, text)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "validation.json").write_text(to_json(replayed.validation) + "\n", encoding="utf-8")
        write_report(replayed.validation, arguments.out / "validation.html")
    return 0 if all(query.status is ComparisonStatus.SAME for query in replayed.validation.queries) else 1


def render(replayed: Replayed) -> str:
    """Write what was found as Markdown."""
    lines = [
        f"{replayed.events:,} events as JSON in a topic of Apache Kafka. One job of all queries, parallelism 2, wrote "
        f"Parquet with {replayed.checkpoints} checkpoints in {replayed.stream_s:.0f} s. "
        f"Spark {replayed.validation.spark} replayed the topic up to the offsets of the last one "
        f"({replayed.read_s:.0f} s to read and decode it) and compared rows as multisets; "
        "seconds of a query are those of its recomputation and the comparison.",
        "",
        machine(),
        "",
        "| query | rows | missing | extra | different | verdict | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for query in replayed.validation.queries:
        counts = [f"{count:,}" for count in (query.rows_exact, query.missing, query.extra, query.different)]
        cells = [query.query, *counts, query.why or query.status, f"{replayed.query_s[query.query]:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "q12 is left out: its windows are of processing time, and which rows they held nobody knows later."]
    return "\n".join(lines) + "\n"


@contextmanager
def _topic(arguments: argparse.Namespace, folder: Path) -> Iterator[EventTopic]:
    if arguments.topic is not None:
        yield parse_address(arguments.topic).bounded()
        return
    with LocalBroker(folder / "broker", large=True) as broker:
        topic = EventTopic(broker.bootstrap, "events")
        fill(topic, config(arguments.events))
        _tell(f"topic filled with {arguments.events:,} events")
        yield topic.bounded()


def _queries(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in QUERIES:
            raise argparse.ArgumentTypeError(f"there is no query {name!r} to replay; choose from {', '.join(QUERIES)}")
    return names


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
