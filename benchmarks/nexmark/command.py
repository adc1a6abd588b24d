"""``penstock nexmark``: runs the Nexmark queries and shows how fast they are.

Heavy imports stand inside the command.
"""

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.commands.arguments import Address, BatchRows, ExecutorChoice, KafkaSettings, TaskManagers, TransportChoice
from penstock.commands.exit_codes import FAILED, Debug, Json, errors_as_exit_codes
from penstock.model.errors import OptionError

GENERATOR = "generator"
DEFAULT_EVENTS = 1_000_000
FIGURES_WIDTH = 74
"""Characters that all columns but the question take."""


@dataclass(frozen=True, slots=True)
class MeasurementSetup:
    """The events that queries are measured on, how many instances of an operator run them, and where."""

    source: str = GENERATOR
    kafka_settings: tuple[str, ...] = ()
    events: int = DEFAULT_EVENTS
    parallelism: int = 1
    batch_rows: int | None = None
    out: str | None = None
    executor: str = "embedded"
    task_managers: int | None = None
    transport: str | None = None
    address: str | None = None

    def check(self) -> None:
        """Check the options before anything is started.

        Raises:
            OptionError: there is no such source, it takes no settings of Kafka, or the executor no task managers.
        """
        from penstock.benchmarks.nexmark.topic import SCHEME, parse_address
        from penstock.runs.run_options import check_executor

        check_executor(self.executor, self.task_managers, self.transport, self.address)
        if self.source.startswith(SCHEME):
            parse_address(self.source, self.kafka_settings).bounded()
        elif self.kafka_settings:
            raise OptionError(f"--kafka-setting is for a topic: give --source {SCHEME}HOST:PORT/TOPIC too")
        elif self.source != GENERATOR and not Path(self.source).is_dir():
            raise OptionError(
                f"--source is '{GENERATOR}', a directory with person, auction and bid.parquet, or "
                f"kafka://HOST:PORT/TOPIC; there is no directory {self.source}"
            )


def _count(text: str) -> int:
    try:
        value = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        value = 0
    if value < 1:
        raise typer.BadParameter(f"a count of 1 or more, such as 1_000_000, not {text!r}")
    return value


def command(
    context: typer.Context,
    queries: Annotated[
        str | None,
        typer.Option(metavar="Q,Q..", help="Which queries, such as q0,q5; all by default.", show_default=False),
    ] = None,
    events: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=_count,
            help=f"Events of all kinds that the generator makes; {DEFAULT_EVENTS:,} by default.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str,
        typer.Option(
            metavar="SOURCE",
            help=f"{GENERATOR}, a directory with person, auction and bid.parquet, or kafka://HOST:PORT/TOPIC.",
        ),
    ] = GENERATOR,
    kafka_settings: KafkaSettings = None,
    fill: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Run no query: create the topic kafka://HOST:PORT/TOPIC and write the generator's events there.",
            show_default=False,
        ),
    ] = None,
    parallelism: Annotated[int, typer.Option(min=1, metavar="P", help="Instances per operator.")] = 1,
    executor: ExecutorChoice = None,
    task_managers: TaskManagers = None,
    transport: TransportChoice = None,
    address: Address = None,
    batch_rows: BatchRows = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write each query's final result to DIR/qN.parquet.", show_default=False),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the Nexmark queries and time them.

    From a topic, messages of the reference are read up to the ends it has at the start. With --json a query is a line.
    """
    failed = 0
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.benchmarks.nexmark.queries import NAMES

        names = queries.split(",") if queries else list(NAMES)
        unknown = [name for name in names if name not in NAMES]
        if unknown:
            raise OptionError(f"there is no query {unknown[0]!r}; choose from {','.join(NAMES)}")
        count = events or DEFAULT_EVENTS
        if fill is not None:
            _fill(fill, count, kafka_settings or ())
            return
        measurement = MeasurementSetup(
            source,
            tuple(kafka_settings or ()),
            count,
            parallelism,
            batch_rows,
            out,
            executor or "embedded",
            task_managers,
            transport,
            address,
        )
        measurement.check()
        if source != GENERATOR and events is not None:
            print("note: --events is for the generator; all events of the source are read", file=sys.stderr)
        results = _run_all([{"query": name, **asdict(measurement)} for name in names])
        failed = _print_json(results) if as_json else _print_table(results, len(names))
    if failed:
        raise typer.Exit(FAILED)


def _fill(address: str, events: int, settings: Sequence[str]) -> None:
    """Write the generator's events into a topic."""
    from penstock.benchmarks.nexmark.topic import PARTITIONS, fill, parse_address
    from penstock.engine.connectors.nexmark.config import NexmarkConfig

    topic = parse_address(address, settings)
    fill(topic, NexmarkConfig(events=events))
    print(f"{events:,} events are in {PARTITIONS} partitions of {topic.address}")


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
            output, errors = process.communicate("go\n")
            started.popleft()
            lines = output.strip().splitlines()
            if process.returncode == 0 and lines:
                yield json.loads(lines[-1]), ""
            else:
                yield None, f"{request['query']} failed:\n{errors.strip()}"
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
    """Print a line a query, and return how many failed."""
    failed = 0
    for result, error in results:
        if result is None:
            failed += 1
            print(error, file=sys.stderr)
        else:
            print(json.dumps(result), flush=True)
    return failed


def _print_table(results: Iterator[tuple[dict[str, Any] | None, str]], total: int) -> int:
    """Print a table of all queries, and return how many failed."""
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
    return len(errors)


def _table(measured: Sequence[dict[str, Any]], width: int) -> Any:
    from rich import box
    from rich.table import Table

    from penstock.benchmarks.nexmark.queries import question

    first = measured[0]
    table = Table(
        title=f"Nexmark, {first['events']:,} events, parallelism {first['parallelism']}, {_where(first)}",
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


def _where(result: dict[str, Any]) -> str:
    """Return where a query ran, in words."""
    managers = result["task_managers"]
    if managers is None:
        return "one core"
    return f"executor {result['executor']} with {managers} task manager{'s' * (managers > 1)}"
