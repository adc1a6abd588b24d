"""Reweighted aggregates of shed rows: unbiased, with intervals that hold.

As docs/design/papers/stream-economics.md 11 has it.
"""

from collections.abc import Callable

import numpy as np
import pytest

from penstock.shedding.estimators import Estimate, count, mean, relative_error, total
from tests.papers_cases import cases

ROWS = 2_000
RUNS = max(1_000, cases())
"""Enough for the coverage of intervals, and the spread of estimates, to be measured."""


def estimates(
    estimator: Callable[[np.ndarray, np.ndarray], Estimate | None], x: np.ndarray, d: np.ndarray
) -> list[Estimate]:
    found = []
    for run in range(RUNS):
        kept = np.random.default_rng([7, run]).random(len(x)) < d
        estimate = estimator(x[kept], 1.0 / d[kept])
        assert estimate is not None
        found.append(estimate)
    return found


def check(found: list[Estimate], truth: float) -> None:
    values = np.array([estimate.value for estimate in found])
    held = np.mean([estimate.low <= truth <= estimate.high for estimate in found])
    assert 0.93 <= held <= 0.97, held
    assert abs(values.mean() - truth) <= 2 * values.std() / np.sqrt(len(values))
    assert np.mean([estimate.variance for estimate in found]) == pytest.approx(values.var(), rel=0.15)


SKEWED = np.random.default_rng(1).gamma(2.0, 3.0, ROWS)
EVEN, MIXED = np.full(ROWS, 0.3), np.random.default_rng(2).choice([0.2, 0.5, 1.0], ROWS)


@pytest.mark.parametrize("d", [EVEN, MIXED], ids=["one rate", "rates by row"])
def test_sums(d: np.ndarray) -> None:
    check(estimates(total, SKEWED, d), float(SKEWED.sum()))


@pytest.mark.parametrize("d", [EVEN, MIXED], ids=["one rate", "rates by row"])
def test_counts(d: np.ndarray) -> None:
    check(estimates(lambda _, w: count(w), SKEWED, d), float(ROWS))


@pytest.mark.parametrize("d", [EVEN, MIXED], ids=["one rate", "rates by row"])
def test_means(d: np.ndarray) -> None:
    check(estimates(mean, SKEWED, d), float(SKEWED.mean()))


def test_nothing_was_dropped() -> None:
    found = total(SKEWED, np.ones(ROWS))
    assert found.low == found.value == found.high == pytest.approx(SKEWED.sum())


def test_a_mean_of_nothing_is_none() -> None:
    assert mean(np.zeros(0), np.zeros(0)) is None
    assert total(np.zeros(0), np.zeros(0)) == Estimate(0.0, 0.0)


def test_the_error_that_is_expected_beforehand() -> None:
    found = estimates(total, SKEWED, EVEN)
    cv = SKEWED.std() / SKEWED.mean()
    measured = np.std([estimate.value for estimate in found]) / SKEWED.sum()
    assert relative_error(0.3, ROWS, cv) == pytest.approx(measured, rel=0.1)
