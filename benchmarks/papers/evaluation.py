"""Results of a paper's evaluation: rows to be held against the paper's figures, and charts.

Each folder beside this one has an `EVALUATION`; `command` runs it (docs/design/simulated-cluster.md 11).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from penstock.benchmarks.papers.cluster_model.action_logs import LoggedRun
from penstock.benchmarks.papers.real.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over draws of the parameters: the median, and the 10th and 90th percentile; and how many draws."""

    median: float
    p10: float
    p90: float
    draws: int = field(default=1, compare=False)


def spread(values: Sequence[float]) -> Spread:
    """Return how draws spread.

    Raises:
        ValueError: there are none.
    """
    if not len(values):
        raise ValueError("a spread needs a draw")
    p10, median, p90 = np.percentile(np.asarray(values, np.float64), (10, 50, 90))
    return Spread(float(median), float(p10), float(p90), len(values))


def share(flags: Sequence[float]) -> Spread:
    """Return in which part of the draws it is so, which does not spread.

    Raises:
        ValueError: there are none.
    """
    if not len(flags):
        raise ValueError("a share needs a draw")
    part = sum(map(bool, flags)) / len(flags)
    return Spread(part, part, part, len(flags))


def draw_seeds(seed: int, draws: int) -> list[int]:
    """Return a seed for each draw; fewer draws have the first of those that more have."""
    return [int(value) for value in np.random.default_rng(seed).integers(0, 2**31, draws)]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of a paper beside ours.

    ``paper``: what the paper has, in words. ``goal``: what is asked, in words. ``ours``, ``baseline`` (what it is
    compared with) and ``control`` (where the effect must vanish) in ``unit``; None: there is none. ``met``: whether the
    median meets the goal and the control is as it must be; None: reported, nothing is asked. ``softened``: in what the
    goal asks less than the paper has, empty where it does not. ``real``: it was measured on real parts, and not
    simulated.
    """

    seed: int
    row: str
    paper: str
    goal: str
    ours: Spread
    baseline: Spread | None = None
    control: Spread | None = None
    met: bool | None = None
    unit: str = ""
    note: str = ""
    softened: str = ""
    real: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON lines."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RealRow(Row):
    """A figure that was measured on real parts."""

    real: bool = field(default=True, init=False)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A series of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one axis, or bars beside one another; ``name`` is the file's."""

    name: str
    title: str
    x_label: str
    y_label: str
    lines: tuple[ChartLine, ...]
    bars: bool = False
    ticks: tuple[str, ...] = ()
    """Names of the places 0, 1, 2... on the x axis."""
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """Rows and charts of one run, and what policies saw and decided in those that the charts show, by file name."""

    rows: tuple[Row, ...]
    charts: tuple[Chart, ...] = ()
    logs: Mapping[str, LoggedRun] = field(default_factory=dict)


Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]
"""Told what is being done, how many of its steps are, and how many there are."""


def in_turn(items: Sequence[Item], what: str, progress: Progress) -> Iterator[Item]:
    """Give one seed, or whatever a run is made for, after the other, and say how far it is."""
    for done, item in enumerate(items):
        progress(what, done, len(items))
        yield item
    progress(what, len(items), len(items))


def figures_by_name(
    seeds: Sequence[int], what: str, progress: Progress, of_draw: Callable[[int], Mapping[str, float]]
) -> dict[str, list[float]]:
    """Return each figure of all draws, in their order."""
    values: dict[str, list[float]] = {}
    for draw in in_turn(seeds, what, progress):
        for name, value in of_draw(draw).items():
            values.setdefault(name, []).append(value)
    return values


def collected(
    seeds: Sequence[int], what: str, progress: Progress, of_draw: Callable[[int], Mapping[str, float]]
) -> dict[str, Spread]:
    """Return how each figure spreads over the draws."""
    return {name: spread(values) for name, values in figures_by_name(seeds, what, progress, of_draw).items()}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A paper's evaluation; ``run`` takes a seed and how many draws headline rows have, and is deterministic.

    ``run_real`` does it on real parts, as far as is wanted. It takes the folder that its runs are kept in; those that
    are there are not made again.
    """

    name: str
    title: str
    run: Callable[[int, int, Progress], Result]
    run_real: Callable[[Wanted, Path, Progress], Result]
