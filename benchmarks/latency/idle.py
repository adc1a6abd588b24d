"""``python -m penstock.benchmarks.latency.idle``: the share of a core of a job that has nothing, or little, to do."""

import argparse
import sys
import time
from collections.abc import Sequence
from tempfile import TemporaryDirectory

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.dsl.job import Job

WARM_UP_S = 4.0
MOST_IDLE = {1: 0.01, 250: 0.03}
"""The share of a core that an idle job may take, by the parallelism of its three tasks or two."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a line per job."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.latency.idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args(argv)
    for parallelism, most in MOST_IDLE.items():
        instances, share = measure(0, parallelism, arguments.seconds)
        verdict = "met" if share < most else "MISSED"
        print(f"idle, {instances} instances: {share:.4f} of a core  < {most}: {verdict}")
    for rows_per_s in (1_000, 20_000):
        instances, share = measure(rows_per_s, 1, arguments.seconds)
        print(f"{rows_per_s:,} rows/s, {instances} instances: {share:.3f} of a core")
    return 0


def measure(rows_per_s: int, parallelism: int, seconds: float) -> tuple[int, float]:
    """Return how many instances a job has, and the share of a core that the process takes beside them."""
    job = Job()
    rows = ps.read(SteadySource(rows_per_s, 1_000, partitions=parallelism), job=job)
    counted = rows.rebalance().filter(ps.col("key") >= 0).key_by("key").agg(n=ps.count())
    counted.write_black_hole(mode="changelog")
    with TemporaryDirectory(prefix="penstock-") as folder:
        handle = job.start("idle", directory=folder, parallelism=parallelism)
        time.sleep(WARM_UP_S)
        instances = len(handle.metrics().instances)
        cpu_s, wall_s = time.process_time(), time.monotonic()
        time.sleep(seconds)
        share = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
        handle.stop()
    return instances, share


if __name__ == "__main__":
    sys.exit(main())
