"""Queries of Nexmark on two task managers: as processes, and as actors of a Ray cluster that runs already.

The time of a run is that of its metrics: task managers are up and instances are built when it begins.
"""

from pathlib import Path

from penstock.benchmarks.cluster.ray_cluster import running_cluster
from penstock.benchmarks.cluster.settings import TWO, on_ray
from penstock.benchmarks.cluster.throughput import QUERIES, run_query


def measure(directory: Path, runs: int) -> list[dict[str, float | str]]:
    """Return a line for each query and setting: the median of ``runs`` taken in turns, the first of all left out.

    ``over_processes`` says how many times as fast it is as processes.
    """
    lines: list[dict[str, float | str]] = []
    with running_cluster() as cluster:
        settings = (TWO, on_ray(cluster.address))
        for query in QUERIES:
            taken: dict[str, list[float]] = {setting.name: [] for setting in settings}
            for number in range(runs + 1):
                for setting in settings:
                    seconds, _ = run_query(query, directory, setting)
                    if number:
                        taken[setting.name].append(seconds)
            medians = {name: sorted(each)[len(each) // 2] for name, each in taken.items()}
            for name, seconds in medians.items():
                lines.append(
                    {"query": query, "setting": name, "seconds": seconds, "over_processes": medians[TWO.name] / seconds}
                )
    return lines
