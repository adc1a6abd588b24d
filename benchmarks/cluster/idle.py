"""A job of some 500 instances on two task managers: how long until it runs, and what it takes with nothing to do."""

import time
from tempfile import TemporaryDirectory

import penstock as ps
from penstock.benchmarks.cluster.settings import TWO, Cores
from penstock.benchmarks.latency.steady import SteadySource
from penstock.dsl.job import Job

WIDTH = 32
PIPELINES = 5
WARM_UP_S = 4.0


def measure(seconds: float) -> dict[str, float]:
    """Return the instances, the seconds until all are up, and the share of a core over ``seconds``, all processes."""
    job = Job()
    for _ in range(PIPELINES):
        rows = ps.read(SteadySource(0, 1_000, partitions=WIDTH), job=job)
        counted = rows.rebalance().filter(ps.col("key") >= 0).key_by("key").agg(n=ps.count())
        counted.write_black_hole(mode="changelog")
    with TemporaryDirectory(prefix="penstock-") as folder:
        begun = time.perf_counter()
        handle = job.start("idle", directory=folder, **{**TWO.options(), "parallelism": WIDTH})
        up_s = time.perf_counter() - begun
        time.sleep(WARM_UP_S)
        instances = len(handle.metrics().instances)
        cores = Cores()
        begun = time.perf_counter()
        time.sleep(seconds)
        share = cores.cpu_s() / (time.perf_counter() - begun)
        handle.stop()
    return {"instances": instances, "up_s": up_s, "core": share}
