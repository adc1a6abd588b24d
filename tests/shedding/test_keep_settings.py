"""Keep rates are whole steps between minimum and 1, nested along branches, and stay for small changes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.keep_rates import STEPS, KeepRates, steps_of
from penstock.shedding.keep_settings import DEAD_BAND, ShedderQueries, keep_rates
from tests.papers_cases import cases

EDGE = ("parse", "hot")
ONE = ShedderQueries({"clicks": ("hot", "totals")}, {EDGE: ("hot",)}, {EDGE: "clicks"}, {"clicks": 0.7}, {EDGE: 0.3})
WHOLE = KeepRates()


def test_a_source_keeps_what_its_most_demanding_query_desires_and_a_branch_what_its_own_does() -> None:
    rates = keep_rates({"hot": 0.4, "totals": 0.8}, ONE, WHOLE)
    # Rounded down, as CPU for more is not there.
    assert rates == KeepRates({"clicks": 51 / 64}, {EDGE: 25 / 64})


def test_a_minimum_is_never_missed_by_rounding() -> None:
    assert keep_rates({"hot": 0.3, "totals": 0.7}, ONE, WHOLE) == KeepRates({"clicks": 45 / 64}, {EDGE: 20 / 64})
    assert keep_rates({"hot": 0.0, "totals": 0.0}, ONE, WHOLE) == KeepRates({"clicks": 45 / 64}, {EDGE: 20 / 64})


def test_a_rate_that_would_move_less_than_the_dead_band_stays() -> None:
    before = keep_rates({"hot": 0.8, "totals": 0.8}, ONE, WHOLE)
    assert before.sources == {"clicks": 51 / 64}
    assert keep_rates({"hot": 0.815, "totals": 0.815}, ONE, before) == before
    assert keep_rates({"hot": 0.85, "totals": 0.85}, ONE, before).sources == {"clicks": 54 / 64}


def test_all_is_kept_again_however_small_the_step_is() -> None:
    before = KeepRates({"clicks": 63 / 64})
    assert not keep_rates({"hot": 1.0, "totals": 1.0}, ONE, before).is_shedding()


def test_a_minimum_that_was_raised_holds_though_the_rate_moves_less_than_the_dead_band() -> None:
    before = KeepRates({"clicks": 44 / 64})
    assert keep_rates({"hot": 0.7, "totals": 0.7}, ONE, before).sources == {"clicks": 45 / 64}


@settings(max_examples=cases())
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, STEPS), st.integers(0, STEPS))
def test_rates_are_steps_at_least_the_minimum_and_no_branch_is_above_its_source(
    hot: float, totals: float, source: int, branch: int
) -> None:
    before = KeepRates({"clicks": source / STEPS}, {EDGE: min(source, branch) / STEPS})
    rates = keep_rates({"hot": hot, "totals": totals}, ONE, before)
    kept = rates.sources.get("clicks", 1.0)
    through = rates.branches.get(EDGE, kept)
    for rate in (kept, through):
        assert steps_of(rate) / STEPS == rate
    assert kept >= 0.7 and through >= 0.3 and through <= kept
    assert kept >= min(1.0, max(hot, totals)) - 1 / STEPS - DEAD_BAND
