"""One measurement, in a process of its own: a query that is bare, armed, of shed rows, or of these rows alone.

``python -m penstock.benchmarks.armed.measurement REQUEST`` prints its CPU seconds as a line of JSON.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import penstock as ps
from penstock.benchmarks.armed.kept_rows import KeptRows
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.nexmark.run import CountingSink
from penstock.benchmarks.nexmark.topic import parse_address
from penstock.dsl.job import Job, embed
from penstock.model.aggregates import AggregateCall
from penstock.model.config import LoopOptions
from penstock.model.errors import BugError
from penstock.model.job_graph import SourceSpec
from penstock.model.keep_rates import KeepRates
from penstock.runs.run_options import RunOptions

BARE, ARMED, SHED, KEPT = "bare", "armed", "shed", "kept"
"""Without a contract; with one, and all is kept; rows that half were dropped beside; and the same rows on their own."""

HALF = 0.5
NAME = "measured"
READER = "rows"

AGGREGATES: Mapping[str, Callable[[], dict[str, AggregateCall]]] = {
    "count": lambda: {"n": ps.count()},
    "count, sum, mean": lambda: {"n": ps.count(), "total": ps.sum_("x"), "mean": ps.mean("x")},
}
"""Aggregates of windows by key."""

_WITHOUT_COLUMNS = ("q5",)
"""Queries whose last join makes rows anew: of these it cannot be said how good they are."""
_WARM_ROWS = 300_000


def cpu_s(query: str, source: str, events: int, side: str) -> float:
    """Return the CPU seconds of a run, once a shorter or equal one before it has compiled what it needs."""
    if query in AGGREGATES:
        _aggregated(query, _WARM_ROWS, side)
        return _aggregated(query, events, side)
    _queried(query, source, side)
    return _queried(query, source, side)


def _queried(query: str, source: str, side: str) -> float:
    job = Job()
    at = parse_address(source).bounded() if "://" in source else Path(source)
    stream = load(query)(Events(job, at))
    sink = stream.write(CountingSink(), mode="changelog" if stream.updating else "append").name(query)
    if side == ARMED:
        sink.with_min_accuracy(HALF, columns=query not in _WITHOUT_COLUMNS)
    return _run(job, side)


def _aggregated(name: str, rows: int, side: str) -> float:
    job = Job()
    stream = ps.read(KeptRows(rows), time="at", job=job).name(READER)
    windows = stream.key_by("key").window(ps.tumbling("10s")).agg(**AGGREGATES[name]())
    sink = windows.write(CountingSink()).name(name)
    if side == SHED:
        sink.with_min_accuracy(HALF / 2)
    return _run(job, side)


def _run(job: Job, side: str) -> float:
    """Run a job, and return the CPU seconds that it took."""
    if side in (ARMED, SHED):
        for node in job.graph.operators.values():
            if isinstance(node.spec, SourceSpec):
                # What ends by itself is never shed.
                node.spec.source.bounded = False
    running = embed(job, RunOptions(NAME, 1, None, LoopOptions()))
    if side == ARMED:
        running.attempt.set_keep(KeepRates())
    if side == SHED:
        running.attempt.set_keep(KeepRates({READER: HALF}))
    before_s = time.process_time()
    running.run()
    taken_s = time.process_time() - before_s
    shed = running.metrics().ledger.shed
    if (shed > 0) != (side == SHED):
        raise BugError(f"{shed} rows were shed of a job that is {side}")
    return taken_s


def main(argv: Sequence[str]) -> int:
    """Measure what a JSON argument describes."""
    print(json.dumps({"cpu_s": cpu_s(**json.loads(argv[0]))}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
