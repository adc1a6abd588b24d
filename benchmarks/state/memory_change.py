"""``python -m penstock.benchmarks.state.memory_change``: how long a change of its memory holds an operator up.

Nexmark's query 11 runs as fast as it can over sessions that outgrow their budget; the budget is halved, and doubled,
and so on. The job is a process of its own.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.processes import measured
from penstock.dsl.handle import Handle
from penstock.dsl.job import Job
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.dataflow.worker import Outcome, Worker
from penstock.engine.jobs.plain import PlainJob
from penstock.engine.paging.paged_operator import PagedOperator

RESULTS = Path(__file__).resolve().parent.parent / "results"
MODULE = "penstock.benchmarks.state.memory_change"
MB = 1 << 20
MOST_MS = 50.0
"""Time limit for what a change may hold an operator up in one go."""
PHASES = ("as it is", "halved", "half", "doubled")
LOOK_S = 0.02


@dataclass
class Turns:
    """Times of one phase in ns: of turns of the loop, and of slices of the change itself."""

    turns: list[int] = field(default_factory=list)
    slices: list[int] = field(default_factory=list)


@contextmanager
def watched(turns: list[Turns]) -> Iterator[None]:
    """Note in the last of these how long each turn of a loop takes in this process, and what a change does in it."""
    step, shrink = Worker.step, PagedOperator._shrink

    def stepped(worker: Worker) -> Outcome:
        began_ns = time.perf_counter_ns()
        outcome = step(worker)
        turns[-1].turns.append(time.perf_counter_ns() - began_ns)
        return outcome

    def shrunk(operator: PagedOperator, now_ns: int) -> Iterator[Any]:
        began_ns = time.perf_counter_ns()
        yield from shrink(operator, now_ns)
        turns[-1].slices.append(time.perf_counter_ns() - began_ns)

    with patch.object(Worker, "step", stepped), patch.object(PagedOperator, "_shrink", shrunk):
        yield


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it to ``benchmarks/results/memory_change.md``."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--budget-mb", type=int, default=128)
    parser.add_argument("--rate", type=float, default=4e6, help="events per second of event time")
    parser.add_argument("--phase", type=float, default=4.0, help="seconds before the next change, once one is done")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2, help="what it shares with RocksDB")
    parser.add_argument("--no-write", action="store_true", help="leave the table in benchmarks/results as it is")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        print(json.dumps(_one(json.loads(arguments.one))))
        return 0
    request = {name: getattr(arguments, name) for name in ("budget_mb", "rate", "phase", "rounds")}
    result = measured(MODULE, ["--one", json.dumps(request)], cores=arguments.cores)
    text = table(request | {"cores": arguments.cores}, result)
    print(text)
    if not arguments.no_write:
        (RESULTS / "memory_change.md").write_text(text)
    return 0


def table(request: dict[str, Any], result: dict[str, Any]) -> str:
    """Return the page of a measurement."""
    lines = [
        f"# How long a change of memory holds an operator up\n\nQuery 11 of Nexmark as fast as it runs, "
        f"{request['cores']} cores, sessions of {result['state_mb']:,.0f} MB in memory and on disk, a budget of "
        f"{request['budget_mb']} MB that is halved and doubled {request['rounds']} times, without a restart. `slice`: "
        "what the change itself did in one go, between two pieces of work; `turn`: a turn of the loop, with the work "
        "that there is anyway, as buckets are read and written.\n",
        f"`python -m {MODULE} --rounds {request['rounds']}`\n",
        "| memory | slices | longest slice ms | turns | turn p99 ms | longest turn ms | done after s |",
        "|---|---|---|---|---|---|---|",
    ]
    for phase in PHASES:
        item = result["phases"][phase]
        longest = f"**{item['slice_ms']:.1f}**" if item["slices"] else ""
        done = f"{item['done_s']:.2f}" if item["done_s"] else ""
        lines.append(
            f"| {phase} | {item['slices'] or ''} | {longest} | {item['turns']:,} | {item['turn_p99_ms']:.1f} | "
            f"{item['turn_ms']:.1f} | {done} |"
        )
    lines.append(f"\nAt most {MOST_MS:.0f} ms of a slice are asked. {result['rows']:,} events.\n")
    return "\n".join(lines)


def _one(request: dict[str, Any]) -> dict[str, Any]:
    turns = [Turns()]
    phases: dict[str, list[Turns]] = {phase: [] for phase in PHASES}
    done_s: dict[str, list[float]] = {"halved": []}
    with TemporaryDirectory(prefix="penstock-") as folder, watched(turns):
        job = Job()
        sessions = load("q11")(Events(job, NexmarkConfig(rate_per_s=request["rate"])))
        sessions.write_black_hole().name("out")
        budget = request["budget_mb"] * MB
        handle = job.start("memory", state_bytes=budget, directory=Path(folder) / "job")
        assert isinstance(handle._job, PlainJob)
        (operator,) = (item.operator for item in handle._job.memory().operators)
        _await_pages(handle, budget)

        def phase(name: str, size: int | None = None) -> None:
            turns.append(Turns())
            phases[name].append(turns[-1])
            began_s = time.monotonic()
            if size is not None:
                handle.set_memory({operator: size})
            while name == "halved" and size is not None and handle.metrics().state_bytes > 0.75 * size:
                time.sleep(LOOK_S)
            if name == "halved":
                done_s[name].append(time.monotonic() - began_s)
            else:
                time.sleep(request["phase"])

        for _ in range(request["rounds"]):
            phase("as it is")
            phase("halved", budget // 2)
            phase("half")
            phase("doubled", budget)
        state_mb = handle.metrics().state_bytes / MB
        rows = handle.metrics().source_rows
        handle.stop()
    return {
        "phases": {name: _figures(items, done_s.get(name, [])) for name, items in phases.items()},
        "state_mb": state_mb,
        "rows": rows,
    }


def _figures(items: Sequence[Turns], done_s: Sequence[float]) -> dict[str, float]:
    turns = np.array([ns for item in items for ns in item.turns]) / 1e6
    # Most calls find that nothing is to be done.
    slices = np.array([ns for item in items for ns in item.slices if ns > 100_000]) / 1e6
    return {
        "turns": len(turns),
        "turn_ms": float(turns.max()),
        "turn_p99_ms": float(np.quantile(turns, 0.99)),
        "slices": len(slices),
        "slice_ms": float(slices.max(initial=0.0)),
        "done_s": max(done_s, default=0.0),
    }


def _await_pages(handle: Handle, budget: int) -> None:
    """Wait until the state fills its budget."""
    while handle.metrics().state_bytes < 0.4 * budget:
        time.sleep(LOOK_S)
    time.sleep(1.0)


if __name__ == "__main__":
    sys.exit(main())
