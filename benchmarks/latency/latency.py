"""``python -m penstock.benchmarks.latency.latency``: how soon rows are seen at the sink, from when they were due.

``filter``: every row, half of them filtered out. ``count``: a count per key with `emit("updates")`; a change is as old
as the latest row of its key in it, and older rows of the key that it is the first to show are not looked at.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.dsl.job import Job

MOST_MS = {"filter": ("p50", 3.0), "count": ("p99", 250.0)}
"""What is asked of each pipeline."""

WARM_UP_S = 3.0
"""Rows that come before are not counted: kernels are compiled."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a line per pipeline."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.latency.latency", description=__doc__)
    parser.add_argument("--rows-per-s", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--parallelism", type=int, default=1)
    arguments = parser.parse_args(argv)
    print(f"{arguments.rows_per_s:,} rows/s, {arguments.keys:,} keys, parallelism {arguments.parallelism}")
    print(f"{'':8}{'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'core':>6}")
    for name, build in (("filter", _filter), ("count", _count)):
        ages_ms, share = measure(build, arguments.rows_per_s, arguments.keys, arguments.seconds, arguments.parallelism)
        p50, p99 = np.quantile(ages_ms, 0.5), np.quantile(ages_ms, 0.99)
        what, most_ms = MOST_MS[name]
        verdict = "met" if (p50 if what == "p50" else p99) <= most_ms else "MISSED"
        print(f"{name:8}{p50:8.2f} {p99:8.2f} {ages_ms.max():8.2f} {share:6.2f}  {what} <= {most_ms:.0f} ms: {verdict}")
    return 0


def measure(
    build: Callable[[ps.Stream], ps.Stream], rows_per_s: int, keys: int, seconds: float, parallelism: int
) -> tuple["np.ndarray[tuple[int], np.dtype[np.float64]]", float]:
    """Return the ages of all rows at the sink in ms, and the share of a core that the process took."""
    ages: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    begun_ns = time.monotonic_ns()

    def note(rows: pa.RecordBatch) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - begun_ns > WARM_UP_S * 1e9:
            due_ns = rows.column("due_ns").to_numpy()
            if "weight" in rows.schema.names:
                due_ns = due_ns[rows.column("weight").to_numpy() > 0]
            ages.append(now_ns - due_ns)

    job = Job()
    rows = ps.read(SteadySource(rows_per_s, keys, WARM_UP_S + seconds), job=job)
    stream = build(rows)
    stream.for_each_batch(note, mode="append" if build is _filter else "changelog")
    with TemporaryDirectory(prefix="penstock-") as folder:
        cpu_s, wall_s = time.process_time(), time.monotonic()
        job.run("latency", directory=folder, parallelism=parallelism)
        share = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
    return np.concatenate(ages) / 1e6, share


def _filter(rows: ps.Stream) -> ps.Stream:
    return rows.filter(ps.col("key") % 2 == 0)


def _count(rows: ps.Stream) -> ps.Stream:
    return rows.key_by("key").agg(n=ps.count(), due_ns=ps.max_("due_ns"))


if __name__ == "__main__":
    sys.exit(main())
