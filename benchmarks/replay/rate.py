"""Rate at which a replay reads Kafka, beside Spark and DuckDB on the same messages as lines of files, all on two cores.

``python -m penstock.benchmarks.replay.rate`` fills a topic of a broker of its own and files with Nexmark bids as JSON,
lets the engines take turns, each in a process of its own, and writes ``benchmarks/results/replay.md``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.benchmarks.replay.bids import PARTITIONS, write_bids
from penstock.benchmarks.replay.machine import machine
from penstock.benchmarks.replay.process_tree import PeakMemory
from penstock.benchmarks.replay.rate_measurement import COUNT, ENGINES, GROUPED, OURS, QUERIES, WIDE, Request, Run
from penstock.benchmarks.replay.sections import write_section
from penstock.dev.kafka_broker import LocalBroker

BIDS = 10_000_000
TITLE = "JSON messages per second"
_TOPIC = "bids"


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurement of one engine: seconds until it was ready, its runs, and its greatest memory in MB."""

    engine: str
    session_s: float
    runs: Sequence[Run]
    total_mb: float
    java_mb: float
    python_mb: float

    def first(self, query: str) -> Run:
        """Return the first run of a query."""
        return next(run for run in self.runs if run.query == query)

    def later_s(self, query: str) -> float:
        """Return the median seconds of the later runs of a query."""
        return statistics.median([run.seconds for run in self.runs if run.query == query][1:])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure everything and print the table; return 1 if the engines' answers are not the same."""
    parser = argparse.ArgumentParser(prog="rate", description=__doc__)
    parser.add_argument("--bids", type=int, default=BIDS)
    parser.add_argument("--runs", type=int, default=3, help="of each query, the first of them cold")
    parser.add_argument("--engines", default=",".join(ENGINES), help=argparse.SUPPRESS)
    parser.add_argument("--memory", default="1g", help="of Spark's driver")
    parser.add_argument("--folder", type=Path, help="where topic and files are written (a temporary directory)")
    parser.add_argument("--json", type=Path, help="keep every measurement there")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args(argv)
    if arguments.runs < 2:
        parser.error("--runs must be at least 2: the first is cold")
    engines = [engine for engine in ENGINES if engine in arguments.engines]
    with (
        TemporaryDirectory(prefix="penstock-rate-", dir=arguments.folder) as temporary,
        LocalBroker(Path(temporary) / "broker", large=True) as broker,
    ):
        folder = Path(temporary)
        stops = write_bids(broker.bootstrap, _TOPIC, folder, arguments.bids)
        size = sum(file.stat().st_size for file in folder.glob("*.jsonl"))
        _tell(f"{arguments.bids:,} bids, {size / 1e6:,.0f} MB")
        measured = []
        for engine in engines:
            files = str(folder / "*.jsonl")
            request = Request(
                engine,
                broker.bootstrap,
                _TOPIC,
                stops,
                files,
                broker.pid or 0,
                arguments.runs,
                arguments.memory,
            )
            measured.append(_measure(request))
    text = render(measured, arguments.bids, size)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(one) for one in measured], indent=1) + "\n")
    if arguments.write:
        write_section(TITLE, text)
    return 0 if agree(measured, arguments.bids) else 1


def agree(measured: Sequence[Measured], bids: int) -> bool:
    """Return whether every run has counted every bid, and all have the same sums."""
    answers: Mapping[str, set[tuple[int, ...]]] = {
        query: {tuple(run.answer) for one in measured for run in one.runs if run.query == query} for query in QUERIES
    }
    answers[GROUPED].update(answers[WIDE])
    return all(len(distinct) == 1 and next(iter(distinct))[1] == bids for distinct in answers.values())


def render(measured: Sequence[Measured], bids: int, size: int) -> str:
    """Write the table as Markdown."""
    lines = [
        f"{bids:,} Nexmark bids as JSON, {size / bids:.0f} bytes each, in {PARTITIONS} partitions of a topic of Apache "
        "Kafka, and the same bytes as lines of files, which the system has in memory. M messages/s by the clock, "
        "medians of the runs behind the first one. *count*: how many messages there are. *count, sum*: both by "
        "channel, two fields declared; *all declared*: the same, with all seven fields declared. Each engine has two "
        "cores, which the replay shares with the broker.",
        "",
        machine("pyspark", "duckdb", "confluent-kafka"),
        "",
        "| | session, s | first query, s | count | count, sum | all declared | CPU s of count, sum | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in measured:
        rates = [f"{bids / one.later_s(query) / 1e6:.2f}" for query in (COUNT, GROUPED, WIDE)]
        run = [run for run in one.runs if run.query == GROUPED][-1]
        broker = f" + {run.broker_cpu_s:.1f} of the broker" if one.engine == OURS else ""
        memory = f"{one.total_mb:,.0f}" + (f" (Java {one.java_mb:,.0f})" if one.java_mb else "")
        cells = [f"{one.session_s:.1f}", f"{one.first(COUNT).seconds:.1f}", *rates, f"{run.cpu_s:.1f}{broker}", memory]
        lines.append(f"| {one.engine} | {' | '.join(cells)} |")
    lines += ["", "Peak memory is that of all processes of an engine together, pages that they share counted once."]
    return "\n".join(lines) + "\n"


def _measure(request: Request) -> Measured:
    command = [sys.executable, "-m", "penstock.benchmarks.replay.rate_measurement", json.dumps(asdict(request))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, PeakMemory(process.pid) as peak:
        output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"measuring {request.engine} failed; its own words stand above")
    measurement = json.loads(output.splitlines()[-1])
    runs = [Run(**run) for run in measurement["runs"]]
    for run in runs:
        _tell(f"{request.engine}, {run.query}: {run.seconds:.2f} s, CPU {run.cpu_s:.1f} s + {run.broker_cpu_s:.1f} s")
    return Measured(request.engine, measurement["session_s"], runs, peak.total_mb, peak.java_mb, peak.python_mb)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
