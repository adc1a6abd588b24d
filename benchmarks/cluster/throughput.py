"""Queries 4, 5 and 11 of Nexmark, from Parquet, in one process and in several: seconds of the clock and of all cores.

The time of a run is that of its metrics: processes are up and instances are built when it begins.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.benchmarks.cluster.settings import EMBEDDED, ONE, SETTINGS, Cores, Setting
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.dsl.job import Job

QUERIES = ("q4", "q5", "q11")


def measure(directory: Path, runs: int) -> list[dict[str, float | str]]:
    """Return a line for each query and setting: the median of ``runs`` taken in turns, the first of all left out.

    ``over_one`` and ``over_embedded`` say how many times as fast it is as one task manager, and as this process alone.
    """
    lines: list[dict[str, float | str]] = []
    for query in QUERIES:
        taken: dict[str, list[tuple[float, float]]] = {setting.name: [] for setting in SETTINGS}
        for number in range(runs + 1):
            for setting in SETTINGS:
                figures = run_query(query, directory, setting)
                if number:
                    taken[setting.name].append(figures)
        seconds = {name: _median(each, 0) for name, each in taken.items()}
        for name, each in taken.items():
            lines.append(
                {
                    "query": query,
                    "setting": name,
                    "seconds": seconds[name],
                    "cpu_s": _median(each, 1),
                    "over_one": seconds[ONE.name] / seconds[name],
                    "over_embedded": seconds[EMBEDDED.name] / seconds[name],
                }
            )
    return lines


def run_query(query: str, directory: Path, setting: Setting) -> tuple[float, float]:
    """Run a query; return its seconds, and the CPU seconds of this process and its children."""
    job = Job()
    load(query)(Events(job, directory)).write_black_hole(mode="changelog" if query == "q4" else "append")
    with TemporaryDirectory(prefix="penstock-") as folder:
        cores = Cores()
        metrics = job.run(query, directory=folder, **setting.options())
        return metrics.elapsed_ns / 1e9, cores.cpu_s()


def _median(figures: Sequence[tuple[float, float]], place: int) -> float:
    values = sorted(item[place] for item in figures)
    return values[len(values) // 2]
