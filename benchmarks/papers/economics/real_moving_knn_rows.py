"""What runs of scenario 2 are held against: who sheds first, who moves, and who gives way to it."""

from collections.abc import Iterator, Mapping, Sequence

from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.economics.real_applications import KNN_SINK
from penstock.benchmarks.papers.economics.real_figures import CALM_CYCLES, CYCLE_S
from penstock.benchmarks.papers.economics.real_moving_figures import failed, is_named, moves
from penstock.benchmarks.papers.economics.real_moving_knn import CONTRACTS
from penstock.benchmarks.papers.evaluation import RealRow, Row, share
from penstock.benchmarks.papers.real.seen import SeenRun

WHOLE = 0.95
"""A query whose accuracy is at least this sheds nothing: rows that wait are counted later."""

LESS = 0.03
"""It gives way where its accuracy falls by so much."""

_KNN_SHEDS, _FIRST_SHEDS, _MOVES = 1, 2, 3
"""The phases, by the places of `LOADS`."""

_NOT_HERE = (
    "Not on real parts: that K-Nearest Neighbors starts where most is free, with its neighbours at their minimum "
    "meanwhile; queries of a job start together."
)


def moving_knn_rows(runs: Sequence[SeenRun]) -> Iterator[Row]:
    """Return the rows of runs of scenario 2."""
    kept = [[accuracies(run, phase) for phase in range(len(run.phases))] for run in runs]
    first = share([
        each[_KNN_SHEDS][KNN_SINK] < WHOLE <= min(each[_KNN_SHEDS][sink] for sink in SINKS) for each in kept
    ])  # fmt: skip
    yield RealRow(
        0, f"{KNN_SINK} sheds before {SINKS[0]}, two task managers", "shown", "in all runs", first,
        met=first.median == 1.0, note=f"{_said(kept, _KNN_SHEDS)} {_NOT_HERE}",
    )  # fmt: skip
    next_ = share([each[_FIRST_SHEDS][SINKS[0]] < WHOLE <= each[_FIRST_SHEDS][SINKS[1]] for each in kept])
    yield RealRow(
        0, f"{SINKS[0]} sheds before {SINKS[1]}, two task managers", "shown", "in all runs", next_,
        met=next_.median == 1.0, note=_said(kept, _FIRST_SHEDS),
    )  # fmt: skip
    named = [[name for name, _ in moves(run)] for run in runs]
    moved = share([is_named(run) for run in runs])
    yield RealRow(
        0, f"{SINKS[0]} moves beside {KNN_SINK}, {SINKS[1]} stays", "shown", "in all runs", moved,
        met=moved.median == 1.0,
        note=f"Moves: {'; '.join(', '.join(own) or 'none' for own in named)}. "
        f"In vain: {sum(len(failed(run)) for run in runs)}.",
    )  # fmt: skip
    gives_way = share([each[_MOVES][KNN_SINK] < each[_FIRST_SHEDS][KNN_SINK] - LESS for each in kept])
    yield RealRow(
        0, f"{KNN_SINK} gives way to what has moved", "shown", "in all runs", gives_way,
        met=gives_way.median == 1.0, note=_said(kept, _MOVES),
    )  # fmt: skip


def accuracies(run: SeenRun, phase: int) -> Mapping[str, float]:
    """Return by query the rows that went into it over those that came, in the calm part of a phase."""
    begin_s, end_s = run.bounds[phase]
    calm_s = min(begin_s + CALM_CYCLES * CYCLE_S, (begin_s + end_s) / 2)
    return {query: run.accuracy(query, calm_s, end_s) for query in CONTRACTS}


def _said(kept: Sequence[Sequence[Mapping[str, float]]], phase: int) -> str:
    runs = ["/".join(f"{each[phase][query]:.2f}" for query in CONTRACTS) for each in kept]
    return f"Accuracies of {', '.join(CONTRACTS)} in the calm part of the phase: {'; '.join(runs)}."
