"""Keep rates move in steps, and never below a minimum."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.keep_rates import STEPS, KeepRates, in_steps, steps_of


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_rate_in_steps_is_the_least_that_keeps_the_minimum(keep: float, minimum: float) -> None:
    rate = in_steps(keep, minimum)
    assert (rate * STEPS).is_integer()
    assert max(keep, minimum) <= rate <= 1.0
    assert rate - 1 / STEPS < max(keep, minimum)
    assert steps_of(rate) / STEPS == rate


@pytest.mark.parametrize(
    ("rates", "sheds"),
    [
        (KeepRates(), False),
        (KeepRates({"clicks": 1.0}, {("clicks", "hot"): 1.0}), False),
        (KeepRates({"clicks": 0.5}), True),
        (KeepRates({"clicks": 1.0}, {("clicks", "hot"): 0.25}), True),
    ],
)
def test_rates_below_one_shed(rates: KeepRates, sheds: bool) -> None:
    assert rates.is_shedding() == sheds
