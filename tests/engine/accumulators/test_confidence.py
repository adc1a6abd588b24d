"""Intervals at other confidences than 95% cover as often as they say."""

import numpy as np
import pytest

from penstock.engine.accumulators.intervals import Moments, expansion, interval
from penstock.engine.kernels.interval_ends import student

RUNS, ROWS = 4_000, 400


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("keep", [0.25, 0.75])
@pytest.mark.parametrize("sigma", [0.0, 0.5, 1.0])
def test_so_many_intervals_of_sums_cover_the_sum_of_all_rows(confidence: float, keep: float, sigma: float) -> None:
    random = np.random.default_rng(17)
    values = random.lognormal(0.0, sigma, (RUNS, ROWS)) if sigma else 1.0 + random.random((RUNS, ROWS))
    kept = values * (random.random((RUNS, ROWS)) < keep)
    w = 1.0 / keep
    s, t, f = w * w - w, w * (w - 1) ** 2, w * (w - 1) ** 3
    moments = Moments(*(scale * (kept**power).sum(axis=1) for scale, power in ((s, 2), (s, 3), (t, 3), (f, 4))))
    found = interval(w * kept.sum(axis=1), (kept > 0).sum(axis=1).astype(np.float64), moments, confidence)
    exact = values.sum(axis=1)
    covered = ((found.low <= exact) & (exact <= found.high))[found.valid].mean()
    assert found.valid.mean() > 0.99
    # Four standard errors, and what the weights page allows at 95%: two in a hundred.
    scale = (1.0 - confidence) / 0.05
    assert covered == pytest.approx(confidence, abs=0.02 * scale + 4 * np.sqrt(confidence * (1 - confidence) / RUNS))
    assert found.certified[found.valid].mean() > (0.9 if sigma < 1.0 else 0.2)


@pytest.mark.parametrize(
    ("confidence", "freedom", "quantile"),
    [
        (0.9, 4, 2.1318),
        (0.95, 4, 2.7764),
        (0.99, 4, 4.6041),
        (0.99, 10, 3.1693),
        (0.99, np.inf, 2.5758),
        (0.999, 16, 4.0150),
    ],
)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: float, quantile: float) -> None:
    assert student(float(freedom), expansion(confidence)) == pytest.approx(quantile, rel=3e-3)
