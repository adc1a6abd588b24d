"""What a Ray cluster takes of a core with nothing to do: without a job, and with one to which no row comes."""

import time
from collections.abc import Mapping

from penstock.benchmarks.cluster.ray_cluster import RunningCluster, running_cluster
from penstock.benchmarks.cluster.ray_jobs import steady_job

WARM_UP_S = 4.0


def measure(seconds: float) -> list[dict[str, float | str]]:
    """Return the shares of a core of head actor, task managers and Ray's own processes over ``seconds``, in percent.

    The job has two task managers, no rows, and a checkpoint each second. Its driver is not counted.
    """
    with running_cluster() as cluster:
        time.sleep(WARM_UP_S)
        lines: list[dict[str, float | str]] = [{"job": "none", **_shares(cluster, seconds)}]
        with steady_job(cluster, "idle", 0):
            time.sleep(WARM_UP_S)
            lines.append({"job": "idle", **_shares(cluster, seconds)})
    return lines


def _shares(cluster: RunningCluster, seconds: float) -> Mapping[str, float]:
    before, begun = cluster.cpu_s(), time.perf_counter()
    time.sleep(seconds)
    passed = time.perf_counter() - begun
    return {f"{part}, % of a core": (spent - before[part]) / passed * 100 for part, spent in cluster.cpu_s().items()}
