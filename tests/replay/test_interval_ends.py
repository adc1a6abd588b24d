"""Ends of intervals that a replay works out from sums over kept rows: those that the engine's accumulators give."""

from typing import Any

import numpy as np
import pytest

from penstock.engine.accumulators.intervals import Moments, binomial, interval
from penstock.replay.operators.interval_ends import Ends, ends_of

Doubles = np.ndarray[Any, Any]
KEEPS = (1.0, 0.75, 0.5, 0.125)


def sums_of(x: Doubles, w: Doubles) -> dict[str, Doubles]:
    """Return the sums of one group, as Spark adds them up."""
    shed = w > 1
    sums = {"exact": (~shed).sum(), "n": shed.sum(), "w": w[shed].sum(), "total": (w * x).sum()}
    for name, scale in (("s", w * (w - 1)), ("t", w * (w - 1) ** 2), ("f", w * (w - 1) ** 3)):
        for power in range(5 if name == "f" else 4):
            sums[f"{name}{power}"] = (scale * x**power).sum()
    return {name: np.array([value], np.float64) for name, value in sums.items()}


def ends(function: str, x: Doubles, w: Doubles, confidence: float = 0.95) -> Ends:
    below = w[w > 1]
    rates = 1 / below if len(below) else np.array([np.nan])
    group = {"shed": np.array([len(below)]), "least": np.array([rates.min()]), "most": np.array([rates.max()])}
    return ends_of(function, group, sums_of(x, w), confidence)


def moments_of(function: str, x: Doubles, w: Doubles) -> tuple[float, Moments]:
    """Return value and moments from the errors of rows themselves, not from powers."""
    y, scale = np.ones(len(x)), 1.0
    value = w.sum()
    if function != "count":
        y, value = x, (w * x).sum()
    if function == "mean":
        scale = w.sum()
        value /= scale
        y = (x - value) / scale
    s, t, f = w * (w - 1), w * (w - 1) ** 2, w * (w - 1) ** 3
    sums = (s * y**2, s * y**3, t * y**3, f * y**4)
    return value, Moments(*(np.array([each.sum()]) for each in sums))


@pytest.mark.parametrize("seed", range(40))
def test_ends_are_those_of_the_formulas(seed: int) -> None:
    draw = np.random.default_rng(seed)
    function = ("count", "sum", "mean")[seed % 3]
    count = int(draw.integers(500, 1_500))
    x = draw.lognormal(sigma=draw.uniform(0.1, 1.2), size=count) * draw.choice([1, -3, 1000]) + draw.choice([0, 5])
    w = 1 / draw.choice(KEEPS, p=(0.1, 0.3, 0.5, 0.1) if seed % 2 else (0, 0, 1, 0), size=count)
    confidence = float(draw.choice([0.9, 0.95, 0.99]))
    found = ends(function, x, w, confidence)
    value, moments = moments_of(function, x, w)
    wanted = interval(np.array([value]), np.array([1e9]), moments, confidence)
    assert (found.low[0], found.high[0]) == pytest.approx((wanted.low[0], wanted.high[0]), rel=1e-9)
    assert found.certified[0] == wanted.certified[0]


@pytest.mark.parametrize(("kept", "keep"), [(1, 0.75), (7, 0.125), (30, 0.5), (49, 1 / 64)])
def test_counts_of_few_rows_are_exact(kept: int, keep: float) -> None:
    found = ends("count", np.ones(kept + 3), np.array([1 / keep] * kept + [1.0] * 3))
    wanted = binomial(np.array([kept]), np.array([keep]))
    assert (found.low[0], found.high[0]) == (wanted.low[0] + 3, wanted.high[0] + 3)
    assert found.certified[0]


def test_there_is_none_of_few_rows_and_of_none_that_were_shed() -> None:
    x, w = np.arange(49.0), np.full(49, 2.0)
    assert np.isnan(ends("sum", x, w).low[0]) and np.isnan(ends("mean", x, w).high[0])
    assert not np.isnan(ends("sum", np.arange(50.0), np.full(50, 2.0)).low[0])
    # A hundred rows at 1/2 beside ten at 1/10 are 17.
    assert np.isnan(ends("sum", np.arange(110.0), np.repeat([2.0, 10.0], (100, 10))).low[0])
    assert np.isnan(ends("count", x, np.ones(49)).low[0])
    assert np.isnan(ends("mean", np.full(60, 1e9), np.full(60, 2.0)).low[0])
