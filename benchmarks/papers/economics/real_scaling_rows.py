"""What QoD beside a scaler is held against: the scaler alone, no shedding in the end, and a scaler that is not told."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from penstock.benchmarks.papers.economics.real_scaling import ALONE, BLIND, LOOK, QUERY, TOGETHER
from penstock.benchmarks.papers.evaluation import RealRow, Row, Spread, spread
from penstock.benchmarks.papers.real.seen import Curve, SeenRun

EQUAL = 0.98
BLIND_MOST = 0.9
"""What a scaler that is not told reaches at most of what is offered, so that the row fails with it."""

END_S = 30.0
"""So long before the end of the load rates are looked at, which is long after scalers have acted."""

Runs = Mapping[str, Sequence[SeenRun]]
Figure = Callable[[SeenRun], float]


def scaling_rows(runs: Runs) -> Iterator[Row]:
    """Return the rows of the runs that there are; none without those of both."""
    if TOGETHER not in runs:
        return
    own = runs[TOGETHER]
    rate, alone, blind = (_of(runs, name, reached) for name in (TOGETHER, ALONE, BLIND))
    assert rate is not None
    changes = "; ".join(
        f"{name}: {', '.join(map(_changes, runs[name]))}" for name in (TOGETHER, ALONE, BLIND) if name in runs
    )
    yield RealRow(
        0, "QoD with DS2: rate once that has acted, of what is offered", "-",
        f">= {EQUAL:g} of DS2's alone, and not so of one that is not told", rate, alone, blind,
        met=None
        if alone is None or blind is None
        else rate.median >= EQUAL * alone.median and blind.median < BLIND_MOST,
        note=f"In the last {END_S:g} s of the load, at most 1. Baseline: DS2 alone. Control: DS2 that sees what was "
        f"let through as what was offered. Instances: {changes}.",
    )  # fmt: skip
    shed = spread([shed_share(run) for run in own])
    yield RealRow(
        0, "QoD with DS2: rows shed in the end", "-", "0", shed, control=_of(runs, BLIND, shed_share),
        met=shed.p90 == 0.0,
        note=f"Of what was offered in the last {END_S:g} s. Shed in all: "
        f"{', '.join(f'{run.shed:,} of {_offered(run):,.0f}' for run in own)}. Control: as above.",
    )  # fmt: skip
    waited = spread([most_waiting_s(run) for run in own])
    yield RealRow(
        0, "QoD with DS2: rows that wait behind the step", "-", "less than with DS2 alone", waited,
        _of(runs, ALONE, most_waiting_s), met=_is_less(waited, _of(runs, ALONE, most_waiting_s)), unit="s of input",
        note="The most at any time. Baseline: DS2 alone.",
    )  # fmt: skip


def _of(runs: Runs, name: str, figure: Figure) -> Spread | None:
    return spread([figure(run) for run in runs[name]]) if name in runs else None


def _is_less(ours: Spread, other: Spread | None) -> bool | None:
    return None if other is None else ours.median < other.median


def _changes(run: SeenRun) -> str:
    """Return how many instances have looked one after the other."""
    numbers = [number for number in instances(run) if number]
    return " to ".join(str(number) for place, number in enumerate(numbers) if not place or number != numbers[place - 1])


def _offered(run: SeenRun) -> float:
    return run.offered().between(0.0, run.bounds[-1][1])


def instances(run: SeenRun) -> list[int]:
    """Return at each sample how many instances look."""
    return [
        sum(number for task, number in sample["instances"].items() if LOOK in task.split(" -> "))
        for sample in run.samples
    ]


def reached(run: SeenRun) -> float:
    """Return the rate at which rows were looked at in the end, of that at which they came, at most 1."""
    end = run.bounds[-1][1]
    return min(1.0, run.accuracy(QUERY, end - END_S, end))


def shed_share(run: SeenRun) -> float:
    """Return the share of what came in the end that was shed."""
    end = run.bounds[-1][1]
    shed = Curve(run.times_s, np.array([sample["shed"] for sample in run.samples], np.float64))
    return shed.between(end - END_S, end) / run.offered().between(end - END_S, end)


def most_waiting_s(run: SeenRun) -> float:
    """Return the most that waited to be read at any time behind the step, seconds of the input as it comes then."""
    return float(run.input_s()[run.within(*run.bounds[-1])].max())
