"""Rows that every evaluation on real parts has: whether the capacity held still, and who else used CPU."""

from collections.abc import Iterator, Mapping, Sequence

from penstock.benchmarks.papers.evaluation import RealRow, Row, spread
from penstock.benchmarks.papers.real.seen import SeenRun


def capacity_row(runs: Mapping[str, Sequence[SeenRun]]) -> Row:
    """Return whether loads were what they say."""
    ratios = {run.folder.name: run.capacity_after / run.capacity for seen in runs.values() for run in seen}
    other = [name for name, ratio in ratios.items() if not 0.9 <= ratio <= 1.1]
    note = f"Loads of {', '.join(other)} were not what they say." if other else ""
    return RealRow(
        0, "capacity after a run over that before", "", "0.9 to 1.1", spread(list(ratios.values())), met=not other,
        note=note,
    )  # fmt: skip


def beside_rows(runs: Sequence[SeenRun]) -> Iterator[Row]:
    """Yield the CPU of what ran beside jobs, of which there may be none."""
    for process in ("injector", "broker") if runs else ():
        yield RealRow(
            0, f"CPU of the {process}", "a machine of their own", "", unit="% of a core",
            ours=spread([run.cpu_percent()[process] for run in runs]), note="On the other core.",
        )  # fmt: skip
