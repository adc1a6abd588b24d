"""``python -m penstock.benchmarks.state.bench``: rates and memory with state ten times its budget, on one core.

Every line is a process of its own. Beside the microworkloads stands bare rocksdict, one operation at a time, with the
same memory.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from penstock.benchmarks.processes import measured
from penstock.benchmarks.state.bare import bare_rocksdict
from penstock.benchmarks.state.workloads import Counted, Workload, inner_join, keyed_counts, micro, sessions
from penstock.dsl.job import Job

RESULTS = Path(__file__).resolve().parent.parent / "results"
MODULE = "penstock.benchmarks.state.bench"
MB = 1 << 20
MEMORY_OVER_BUDGET_MB = 400
MICRO_MB = (64, 256, 1_024)

LARGE: dict[str, tuple[Callable[[], Workload], int]] = {
    "counts": (lambda: keyed_counts(20_000_000, 40_000_000), 64),
    "join": (lambda: inner_join(8_000_000, 8_000_000), 64),
    "sessions": (lambda: sessions(4_000_000, 8_000_000), 64),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the tables, and write them to ``benchmarks/results/state.md``."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.state.bench", description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000, help="of each microworkload")
    parser.add_argument("--keys", type=int, default=1_000_000, help="of each microworkload")
    parser.add_argument("--only", choices=[*LARGE, "micro"], help="measure this alone, and write nothing")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        print(json.dumps(_one(json.loads(arguments.one))))
        return 0
    text = [
        "# State larger than memory\n\nOne core, a process for each line; M rows/s, all rows counted. State is about "
        f"ten times its budget; memory may be {MEMORY_OVER_BUDGET_MB} MB above it.\n"
    ]
    if arguments.only != "micro":
        text += _large([arguments.only] if arguments.only else list(LARGE))
    if arguments.only in (None, "micro"):
        text += _micro(arguments.keys, arguments.operations)
    print("\n".join(text))
    if not arguments.only:
        (RESULTS / "state.md").write_text("\n".join(text) + "\n")
    return 0


def _large(names: Sequence[str]) -> list[str]:
    lines = ["| workload | budget MB | M rows/s | peak MB | of its limit | correct |", "|---|---|---|---|---|---|"]
    for name in names:
        budget_mb = LARGE[name][1]
        result = _measured({"kind": name, "budget_mb": budget_mb})
        share = result["peak_mb"] / (budget_mb + MEMORY_OVER_BUDGET_MB)
        right = "yes" if result["right"] else "NO"
        figures = f"{result['rate']:.2f} | {result['peak_mb']:.0f} | {share:.0%}"
        _add(lines, f"| {result['name']} | {budget_mb} | {figures} | {right} |")
    return [*lines, ""]


def _micro(keys: int, operations: int) -> list[str]:
    lines = [
        f"Values of 1 KB under {keys:,} uniform keys, M operations/s.\n",
        "| workload | memory MB | penstock | bare rocksdict | ratio | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for kind in ("read", "write", "update"):
        for budget_mb in MICRO_MB:
            request = {"kind": kind, "budget_mb": budget_mb, "keys": keys, "operations": operations}
            ours, bare = _measured(request), _measured({**request, "bare": True})
            rates = f"{ours['rate']:.2f} | {bare['rate']:.2f} | {ours['rate'] / bare['rate']:.1f}"
            _add(lines, f"| {kind} | {budget_mb} | {rates} | {ours['peak_mb']:.0f} |")
    return lines


def _add(lines: list[str], line: str) -> None:
    """Add a line, and show it while the others are measured."""
    lines.append(line)
    print(line, file=sys.stderr, flush=True)


def _measured(request: dict[str, Any]) -> Any:
    return measured(MODULE, ["--one", json.dumps(request)])


def _one(request: dict[str, Any]) -> dict[str, Any]:
    kind, budget = request["kind"], request["budget_mb"] * MB
    with TemporaryDirectory(prefix="penstock-") as folder:
        if request.get("bare"):
            rate = bare_rocksdict(kind, request["keys"], request["operations"], budget, Path(folder)) / 1e6
            return {"name": kind, "rate": rate, "peak_mb": _peak_mb(), "right": True}
        workload = LARGE[kind][0]() if kind in LARGE else micro(kind, request["keys"], request["operations"])
        job, counted = Job(), Counted()
        workload.build(job, counted)
        began = time.perf_counter()
        job.run("state", state_bytes=budget, directory=folder)
        # Filling before is not measured, but for what of it still waits to be worked off.
        rate = workload.rows / (time.perf_counter() - (counted.began_s or began)) / 1e6
    peak_mb = _peak_mb()
    return {"name": workload.name, "rate": rate, "peak_mb": peak_mb, "right": workload.expected(counted)}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
