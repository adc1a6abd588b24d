"""What is fixed is told from what rows cost, and from which segment's, once rates have differed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.cost_fit import FIXED_MOST, CostFit, with_reading
from tests.papers_cases import cases


def fit_of(readings: list[tuple[list[float], float]]) -> CostFit:
    fit = None
    for rates, percent in readings:
        fit = with_reading(fit, np.array(rates), percent)
    assert fit is not None
    return fit


def test_at_first_cpu_is_proportional_to_rows_as_in_the_paper() -> None:
    fit = fit_of([([1000.0], 80.0)])
    assert fit.fixed == 0.0 and fit.percent(np.array([500.0])) == pytest.approx(40.0)


@settings(max_examples=cases())
@given(st.floats(5, 50), st.floats(10, 50), st.floats(0.3, 0.7), st.integers(0, 2**32 - 1))
def test_a_second_rate_tells_the_fixed_part(fixed: float, slope: float, keep: float, seed: int) -> None:
    """The error of the prediction is no more than half that of proportional CPU (window-firing costs, fetching)."""
    noise = np.random.default_rng(seed).normal(0.0, 0.1, 12)
    rates = [1000.0] * 3 + [1000.0 * keep] * 5
    fit = fit_of([([rate], fixed + slope * rate / 1000 + noise[at]) for at, rate in enumerate(rates)])
    at = 1000.0 * 0.2
    true = fixed + slope * 0.2
    proportional = (fixed + slope * keep) * 0.2 / keep
    assert abs(fit.percent(np.array([at])) - true) <= max(0.5 * abs(proportional - true), 1.5)


def test_rates_of_branches_tell_which_segment_costs_what() -> None:
    """Parsing costs 10, one side 50 and the other 20 for 1,000 rows/s; sides are shed apart, one after the other."""
    keeps = [(1.0, 1.0), (0.5, 1.0), (0.5, 0.7), (0.6, 0.9), (0.4, 0.8), (0.5, 0.6)]
    readings = [([1000.0, 1000 * a, 1000 * b], 10 + 50 * a + 20 * b) for a, b in keeps]
    parts = fit_of(readings).parts(np.array([0.0, 1000.0, 1000.0]))
    assert parts[1:].tolist() == pytest.approx([50.0, 20.0], abs=10.0)


def test_a_reading_that_is_none_changes_nothing() -> None:
    fit = fit_of([([1000.0], 80.0)])
    for rates, percent in (([np.nan], 1.0), ([0.0], 3.0), ([10.0], np.nan), ([10.0], -1.0)):
        assert with_reading(fit, np.array(rates), percent) is fit


def test_rows_that_become_dearer_on_a_full_core_are_not_taken_for_a_fixed_part() -> None:
    """Fewer of them fill the core; what shedding frees is still found."""
    fit = fit_of([([500.0], 100.0)] * 20 + [([333.0], 100.0)] * 2)
    assert fit.fixed <= FIXED_MOST
    assert fit.percent(np.array([333.0])) == pytest.approx(100.0, abs=2.0)
    assert fit.percent(np.array([750.0])) > 140.0


@settings(max_examples=cases())
@given(st.floats(0.02, 0.06), st.floats(0.05, 0.2), st.integers(0, 2**32 - 1))
def test_a_loop_that_has_little_to_do_takes_more_for_a_row(row: float, step: float, seed: int) -> None:
    """Steps are many while rows are few; what a core can take is told all the same once rates have differed.

    ``row`` and ``step`` percent of a core for one a second: 0.2 to 0.6 ms, 0.5 to 2 ms.
    """
    random = np.random.default_rng(seed)
    full = 100.0 / row
    fit = None
    for load in (0.3, 0.3, 0.5, 0.7, 0.9):
        steps = min(100.0, (100.0 - 100.0 * load) / step)
        percent = (load * 100.0 + steps * step) * (1.0 + 0.01 * random.standard_normal())
        fit = with_reading(fit, np.array([load * full]), percent, steps)
    assert fit is not None
    assert fit.percent(np.array([full])) == pytest.approx(100.0, rel=0.15)
