"""``make bench``: our Nexmark queries beside batch engines, in one run, on one core, from the same Parquet files.

Every measurement is a process of its own pinned to one core; engines take turns, and medians are compared.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penstock.benchmarks.nexmark.chart import draw
from penstock.benchmarks.nexmark.dataset import ensure_dataset
from penstock.benchmarks.nexmark.queries import NAMES
from penstock.benchmarks.nexmark.run import WARM_UP_EVENTS
from penstock.benchmarks.processes import MeasurementFailedError, measured

PEERS = ("duckdb", "polars", "datafusion")
OURS = "penstock"
RESULTS = Path(__file__).resolve().parent.parent / "results"
STATELESS, JOINS = (0.45, 0.9), (0.25, 0.8)
DISTINCT, RANKED = (0.35, 1.0), (0.4, 1.0)
RATIOS = {
    **dict.fromkeys(("q0", "q1", "q2", "q10", "q14", "q21", "q22"), STATELESS),
    **dict.fromkeys(("q3", "q4", "q6", "q8", "q9", "q12", "q13", "q20", "q23"), JOINS),
    **dict.fromkeys(("q15", "q16"), DISTINCT),
    **dict.fromkeys(("q18", "q19"), RANKED),
    "q5": (1.5, 4.0),
    "q7": (0.4, 0.8),
    "q11": (1.2, 3.0),
    "q17": (0.8, 2.5),
}
"""Least acceptable and aimed-at ratio of our rate to the best batch engine's, per query."""

PEER_QUERIES = "penstock.benchmarks.peers"
"""What has the other engines' queries, in a checkout."""


@dataclass(frozen=True, slots=True)
class QueryTimings:
    """Median seconds of every engine for one query (None: it failed), and our peak memory."""

    query: str
    events: int
    seconds: dict[str, float | None]
    peak_rss_mb: float

    @property
    def best_peer(self) -> float | None:
        """Seconds of the fastest batch engine; None if all of them failed."""
        timed = [self.seconds[name] for name in PEERS]
        return min((value for value in timed if value is not None), default=None)

    @property
    def ratio(self) -> float | None:
        """Our rate over the best batch engine's; None if we or all of them failed."""
        ours, best = self.seconds[OURS], self.best_peer
        return None if ours is None or best is None else best / ours


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it with a chart to ``benchmarks/results``."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--queries", type=_queries, default=NAMES, help="q0,q1,...; all if not given")
    parser.add_argument("--directory", type=Path, default=Path(".nexmark"))
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args(argv)
    if find_spec(PEER_QUERIES) is None:
        parser.error("the engines' queries are not part of an installed Penstock: run make bench in a checkout")
    directory = arguments.directory / f"events-{arguments.events}"
    ensure_dataset(directory, arguments.events)
    small = ensure_dataset(arguments.directory / "warm-up", WARM_UP_EVENTS)
    lines = []
    for query in arguments.queries:
        runner = _Runner(query, directory, small)
        lines.append(_measure(runner, arguments.runs, arguments.events))
    text = render(lines, arguments.runs)
    print(text)
    if arguments.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "nexmark.md").write_text(text)
        (RESULTS / "nexmark.json").write_text(json.dumps([_plain(line) for line in lines], indent=1) + "\n")
        (RESULTS / "nexmark.svg").write_text(draw([(line.query, _rates(line)) for line in lines]))
    return 0


def render(lines: Sequence[QueryTimings], runs: int) -> str:
    """Write the table as Markdown."""
    heads = ["query", "penstock", *PEERS, "ratio to best", "floor", "goal", "peak MB"]
    rows = [
        f"# Nexmark on one core\n\n{lines[0].events:,} events from Parquet, M events/s, medians of {runs} runs taken "
        "in turns, every engine limited to one thread and pinned to one core.\n",
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
    ]
    for line in lines:
        floor, goal = RATIOS[line.query]
        cells = [line.query]
        cells += [f"{rate:.2f}" if (rate := _rates(line)[name]) else "failed" for name in (OURS, *PEERS)]
        ratio = line.ratio
        cells += [f"**{ratio:.2f}**" if ratio else "-", f"{floor:.2f}", f"{goal:.2f}", f"{line.peak_rss_mb:.0f}"]
        rows.append("| " + " | ".join(cells) + " |")
    ratios = [line.ratio for line in lines if line.ratio]
    if ratios:
        rows.append(f"\nGeometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")
    return "\n".join(rows) + "\n"


def _queries(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in NAMES:
            raise argparse.ArgumentTypeError(f"there is no query {name!r}; choose from {', '.join(NAMES)}")
    return names


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs one query on any engine, in a process of its own on one core, after a few events to warm up."""

    query: str
    directory: Path
    small: Path

    def read_files(self) -> None:
        """Bring the files into memory, so that no engine waits for the disk in another's place."""
        for path in self.directory.glob("*.parquet"):
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass

    def run(self, engine: str) -> dict[str, Any] | None:
        """Return what the process reports; None when it failed."""
        if engine == OURS:
            request = {"query": self.query, "source": str(self.directory), "events": None, "parallelism": 1}
            request |= {"batch_rows": None, "out": None}
            module, given = "penstock.benchmarks.nexmark.run", [json.dumps(request)]
        else:
            module, given = f"{PEER_QUERIES}.runner", ["--engine", engine, "--query", self.query, "--json"]
            given += ["--directory", str(self.directory), "--warm-up", str(self.small)]
        try:
            result: dict[str, Any] = measured(module, given)
        except MeasurementFailedError as error:
            print(error, file=sys.stderr)
            return None
        return result


def _measure(runner: _Runner, runs: int, events: int) -> QueryTimings:
    seconds: dict[str, list[float]] = {name: [] for name in (OURS, *PEERS)}
    peak = 0.0
    for _ in range(runs):
        for name in seconds:
            runner.read_files()
            result = runner.run(name)
            if result is None:
                continue
            seconds[name].append(result["seconds"])
            if name == OURS:
                peak = max(peak, result["peak_rss_mb"])
    medians = {name: statistics.median(values) if values else None for name, values in seconds.items()}
    print(runner.query, {name: f"{value:.3f}s" if value else None for name, value in medians.items()}, file=sys.stderr)
    return QueryTimings(runner.query, events, medians, peak)


def _rates(line: QueryTimings) -> dict[str, float]:
    return {name: line.events / value / 1e6 if value else 0.0 for name, value in line.seconds.items()}


def _plain(line: QueryTimings) -> dict[str, Any]:
    return asdict(line) | {"ratio": line.ratio}


if __name__ == "__main__":
    sys.exit(main())
