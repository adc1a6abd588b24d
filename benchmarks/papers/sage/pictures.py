"""Charts of the Sage evaluation."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.benchmarks.papers.cluster_model.loop import Run
from penstock.benchmarks.papers.evaluation import Chart, ChartLine
from penstock.benchmarks.papers.sage.cases import FLEET, Drawn
from penstock.benchmarks.papers.sage.outcomes import GROUP, Outcome


def sizes_over_time(drawn: Sequence[Drawn], sizings: Sequence[Outcome], runs: Sequence[Run]) -> Chart:
    """Return the sizes of an application of which all kinds of resources grew, over its optimum."""
    number = max(range(len(sizings)), key=lambda place: _fitness(sizings[place], place))
    series, best = runs[number // FLEET].series, drawn[number].optimum.given
    minutes = [time / 60 for time in series.times_s]
    given = {
        "heap": (series.table("heap"), best.heap_bytes),
        "memory": (series.table("memory"), best.memory_bytes),
        "cores": (series.table("cores"), best.cores),
        "threads": (series.table("instances"), float(best.threads)),
    }
    lines = [
        ChartLine(name, minutes, (table[:, number % FLEET] / one).tolist()) for name, (table, one) in given.items()
    ]
    lines.append(ChartLine("optimum", minutes, [1.0] * len(minutes)))
    return Chart("sage_sizes", "A starved application under Sage", "min", "given, over the optimum", tuple(lines))


def oversizes(by_policy: Mapping[str, Sequence[Outcome]]) -> Chart:
    """Return the oversize of one application of each archetype under each policy, sorted."""
    lines = []
    for name, ends in by_policy.items():
        over = np.sort([item.oversize for item in ends[:FLEET]])
        lines.append(ChartLine(name, [float(place) for place in range(1, len(over) + 1)], over.tolist()))
    lines.append(ChartLine("14%", [1.0, float(len(over))], [0.14, 0.14]))
    return Chart("sage_oversize", "Starved applications, 3 h later", "application, sorted", "oversize", tuple(lines))


def _fitness(item: Outcome, place: int) -> tuple[int, bool, bool, int]:
    """Return what makes an application a good example: much grew, in order, and it is well in the end."""
    kinds = len({GROUP[action.resource] for action in item.actions if action.is_up})
    return kinds, item.in_order(), item.holds, -place
