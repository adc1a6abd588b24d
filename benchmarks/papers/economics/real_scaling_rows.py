"""What QoD beside a scaler is held against: the scaler alone, no shedding in the end, and a scaler that is not told."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from penstock.benchmarks.papers.economics.real_scaling import ALONE, BLIND, LOOK, QUERY, TOGETHER
from penstock.benchmarks.papers.evaluation import Row, spread
from penstock.benchmarks.papers.real.seen import Curve, SeenRun

EQUAL = 0.98
BLIND_MOST = 0.9
"""What a scaler that is not told reaches at most of what is offered, so that the row above fails."""

SETTLED_S, WINDOW_S, END_S = 30.0, 30.0, 20.0
"""How long after the first change rates are looked at, for how long, and for how long before the end."""

Runs = Mapping[str, Sequence[SeenRun]]


def scaling_rows(runs: Runs) -> Iterator[Row]:
    """Return the rows of the runs that there are; none without those of both."""
    if TOGETHER not in runs:
        return
    own = runs[TOGETHER]
    alone, blind = (spread([reached(run) for run in runs[name]]) if name in runs else None for name in (ALONE, BLIND))
    ratio = spread([reached(run) for run in own])
    changes = "; ".join(
        f"{name}: {', '.join(map(_changes, runs[name]))}" for name in (TOGETHER, ALONE, BLIND) if name in runs
    )
    yield Row(
        0, "QoD with DS2: rate once that has acted, of what is offered", "-",
        f">= {EQUAL:g} of DS2's alone, and not so of one that is not told", ratio, alone, blind,
        met=None if alone is None or blind is None else ratio.median >= EQUAL * alone.median
        and blind.median < BLIND_MOST,
        note=f"From {SETTLED_S:g} to {SETTLED_S + WINDOW_S:g} s after the first change of instances; of a job that "
        f"changes none, after the step. At most 1 counts. Baseline: DS2 alone. Control: DS2 that sees what was let "
        f"through as what was offered. Instances: {changes}.",
    )  # fmt: skip
    shed = spread([shed_share(run) for run in own])
    yield Row(
        0, "QoD with DS2: rows shed in the end", "-", "0", shed,
        control=spread([shed_share(run) for run in runs[BLIND]]) if BLIND in runs else None, met=shed.p90 == 0.0,
        note=f"Of what was offered in the last {END_S:g} s. Shed in all: "
        f"{', '.join(f'{run.shed:,} of {_offered(run):,.0f}' for run in own)}. Control: as above.",
    )  # fmt: skip


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


def first_change_s(run: SeenRun) -> float:
    """Return when more instances looked for the first time after the step; when the step was, if it never was so."""
    begin, end = run.bounds[-1]
    inside = [
        (float(at_s), number)
        for at_s, number in zip(run.times_s, instances(run), strict=True)
        if begin <= at_s <= end and number
    ]
    return next((at_s for at_s, number in inside if number > inside[0][1]), begin)


def reached(run: SeenRun) -> float:
    """Return the rate at which rows were looked at once a scaler had acted, of that at which they came, at most 1."""
    begin = first_change_s(run) + SETTLED_S
    return min(1.0, run.accuracy(QUERY, begin, begin + WINDOW_S))


def shed_share(run: SeenRun) -> float:
    """Return the share of what came in the end that was shed."""
    end = run.bounds[-1][1]
    shed = Curve(run.times_s, np.array([sample["shed"] for sample in run.samples], np.float64))
    return shed.between(end - END_S, end) / run.offered().between(end - END_S, end)
