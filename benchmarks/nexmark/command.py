"""``penstock nexmark``: runs the Nexmark queries and shows how fast they are."""

import argparse
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

DEFAULT_EVENTS = 1_000_000
FIGURES_WIDTH = 74
"""Characters that all columns but the question take."""


def command(argv: Sequence[str]) -> int:
    """Run the command and return its exit code: 0 ok, 1 a query failed, 2 usage."""
    arguments = _parser().parse_args(argv)
    from penstock.benchmarks.nexmark.queries import NAMES

    queries = arguments.queries.split(",") if arguments.queries else list(NAMES)
    unknown = [name for name in queries if name not in NAMES]
    if unknown:
        print(f"penstock nexmark: there is no query {unknown[0]!r}; choose from {','.join(NAMES)}", file=sys.stderr)
        return 2
    if arguments.fill is not None:
        return _fill(arguments)
    wrong = _wrong_source(arguments.source, arguments.kafka_settings)
    if wrong:
        print(f"penstock nexmark: {wrong}", file=sys.stderr)
        return 2
    if arguments.source != "generator" and arguments.events is not None:
        print("penstock nexmark: --events is for the generator; all events of the source are read", file=sys.stderr)
    requests = [_request(name, arguments) for name in queries]
    results = _run_all(requests)
    if arguments.json:
        return _print_json(results)
    return _print_table(results, len(requests))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock nexmark", description="Run the Nexmark queries and time them.")
    parser.add_argument("--queries", help="comma-separated, for example q0,q5 (default: all)")
    parser.add_argument(
        "--events", type=_positive, help=f"events of all kinds the generator makes (default {DEFAULT_EVENTS:,})"
    )
    parser.add_argument("--parallelism", type=_positive, default=1, help="instances of every operator (default 1)")
    parser.add_argument(
        "--source",
        default="generator",
        help="'generator', a directory with person, auction and bid.parquet, or a topic: kafka://HOST:PORT/TOPIC",
    )
    parser.add_argument(
        "--fill",
        metavar="TOPIC",
        help="run no query: create the topic kafka://HOST:PORT/TOPIC and write the generator's events there",
    )
    parser.add_argument(
        "--kafka-setting",
        metavar="KEY=VALUE",
        dest="kafka_settings",
        action="append",
        default=[],
        help="a setting of librdkafka for the topic; secrets as env:NAME or file:PATH; may come again",
    )
    parser.add_argument("--batch-rows", type=_positive, help="the most rows in a batch (default 131,072)")
    parser.add_argument("--out", help="write each query's final result to OUT/qN.parquet")
    parser.add_argument("--json", action="store_true", help="print one JSON line a query")
    return parser


def _positive(text: str) -> int:
    value = int(text.replace("_", "").replace(",", ""))
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return value


def _wrong_source(source: str, settings: Sequence[str]) -> str | None:
    """Return what is wrong with ``--source`` and ``--kafka-setting``, or None."""
    from penstock.benchmarks.nexmark.topic import SCHEME, parse_address
    from penstock.model.errors import PenstockError

    if source.startswith(SCHEME):
        try:
            parse_address(source, settings).bounded()
        except PenstockError as error:
            return str(error)
    elif settings:
        return f"--kafka-setting is for a topic: give --source {SCHEME}HOST:PORT/TOPIC too"
    elif source != "generator" and not Path(source).is_dir():
        return (
            "--source is 'generator', a directory with person, auction and bid.parquet, or kafka://HOST:PORT/TOPIC; "
            f"there is no directory {source}"
        )
    return None


def _fill(arguments: argparse.Namespace) -> int:
    """Write the generator's events into a topic."""
    from penstock.benchmarks.nexmark.topic import PARTITIONS, fill, parse_address
    from penstock.engine.connectors.nexmark.config import NexmarkConfig
    from penstock.model.errors import OptionError, PenstockError

    try:
        topic = parse_address(arguments.fill, arguments.kafka_settings)
        events = arguments.events or DEFAULT_EVENTS
        fill(topic, NexmarkConfig(events=events))
    except PenstockError as error:
        print(f"penstock nexmark: {error}", file=sys.stderr)
        return 2 if isinstance(error, OptionError) else 1
    print(f"{events:,} events are in {PARTITIONS} partitions of {topic.address}")
    return 0


def _request(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "query": name,
        "source": arguments.source,
        "kafka_settings": arguments.kafka_settings,
        "events": arguments.events or DEFAULT_EVENTS,
        "parallelism": arguments.parallelism,
        "batch_rows": arguments.batch_rows,
        "out": arguments.out,
    }


def _run_all(requests: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any] | None, str]]:
    """Run each query in a process of its own; yield its result, or None with what it said when it failed.

    One is measured at a time. Where there is another core, the next one starts and loads its kernels there meanwhile.
    """
    ahead = 2 if (os.cpu_count() or 1) > 1 else 1
    started: deque[subprocess.Popen[str]] = deque()
    coming = iter(requests)
    try:
        for request in requests:
            started.extend(_start(item) for item in islice(coming, ahead - len(started)))
            process = started[0]
            output, said = process.communicate("go\n")
            started.popleft()
            lines = output.strip().splitlines()
            if process.returncode == 0 and lines:
                yield json.loads(lines[-1]), ""
            else:
                yield None, f"{request['query']} failed:\n{said.strip()}"
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _start(request: dict[str, Any]) -> "subprocess.Popen[str]":
    """Start a query's process, which measures once it is told to."""
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.benchmarks.nexmark.run", json.dumps(request | {"wait": True})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _print_json(results: Iterator[tuple[dict[str, Any] | None, str]]) -> int:
    failed = False
    for result, error in results:
        if result is None:
            failed = True
            print(error, file=sys.stderr)
        else:
            print(json.dumps(result), flush=True)
    return 1 if failed else 0


def _print_table(results: Iterator[tuple[dict[str, Any] | None, str]], total: int) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console()
    errors: list[str] = []
    measured: list[dict[str, Any]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("Nexmark", total=total)
        for result, error in results:
            progress.advance(bar)
            if result is None:
                errors.append(error)
            else:
                measured.append(result)
                progress.update(bar, description=f"Nexmark {result['query']}")
    if measured:
        console.print(_table(measured, console.width))
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


def _table(measured: Sequence[dict[str, Any]], width: int) -> Any:
    from rich import box
    from rich.table import Table

    from penstock.benchmarks.nexmark.queries import question

    first = measured[0]
    table = Table(
        title=f"Nexmark, {first['events']:,} events, parallelism {first['parallelism']}, one core",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("query", no_wrap=True, min_width=5)
    table.add_column("question", no_wrap=True, overflow="ellipsis", max_width=max(16, width - FIGURES_WIDTH))
    for heading in ("seconds", "M events/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("rows", "peak MB"):
        table.add_column(heading, justify="right", no_wrap=True)
    fastest = max(result["events_per_s"] for result in measured)
    for result in measured:
        bar = "█" * max(1, round(12 * result["events_per_s"] / fastest))
        table.add_row(
            result["query"],
            question(result["query"]),
            f"{result['seconds']:.2f}",
            f"{result['events_per_s'] / 1e6:.2f}",
            bar,
            f"{result['rows']:,}",
            f"{result['peak_rss_mb']:.0f}",
        )
    return table
