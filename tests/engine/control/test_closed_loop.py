"""Load shedding in a loop with what it controls: it settles, works its lag off, and never swings with the guard."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.control import Control
from penstock.model.plan import Cause, Decision, NoChange
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.guarded import Guarded
from tests.engine.control.simulated_stream import SimulatedStream

FIXED, OVERLOAD = st.floats(0.0, 0.4), st.floats(1.1, 3.0)
COST_S = st.floats(2e-4, 2e-3)


def steady(keeps: list[float]) -> bool:
    """Return whether rates moved by no more than their dead band, once the lag was worked off."""
    return float(np.ptp(keeps[-6:])) <= 2 / 64


@settings(max_examples=8, deadline=None)
@given(COST_S, FIXED, OVERLOAD, st.floats(0.0, 0.01), st.integers(0, 2**32 - 1))
def test_an_overload_ends_in_a_steady_rate_and_little_lag(
    row_s: float, fixed: float, overload: float, noise: float, seed: int
) -> None:
    stream = SimulatedStream(row_s, fixed, noise=noise, seed=seed)
    capacity = (1.0 - fixed) / row_s
    rate = overload * capacity
    lags, keeps = [], []
    for _ in range(40):
        keeps.append(stream.cycle(rate))
        lags.append(stream.lag)
    assert lags[-1] <= 1.5 * rate and max(lags) <= 3 * 5.0 * (rate - capacity) + rate
    assert steady(keeps)
    assert keeps[-1] == pytest.approx(1.0 / overload, abs=0.05)
    # After the peak all is kept within two cycles, of those in which nothing waits.
    for _ in range(6):
        stream.cycle(0.5 * capacity)
    assert stream.keep == 1.0


@settings(max_examples=8, deadline=None)
@given(COST_S, OVERLOAD, st.booleans())
def test_a_slow_sink_ends_in_a_steady_rate(row_s: float, overload: float, blocks: bool) -> None:
    """One that blocks the loop is shed for as if it were CPU; one that makes rows wait holds its source back."""
    stream = SimulatedStream(row_s, sink_rate=0.4 / row_s, blocks=blocks)
    carried = 1.0 / (row_s + 2.5 * row_s) if blocks else 0.4 / row_s
    keeps = [stream.cycle(overload * carried) for _ in range(40)]
    assert steady(keeps)
    if not blocks:
        assert set(keeps) == {1.0} and stream.lag > 0


@pytest.mark.parametrize("overload", [1.4, 1.8, 3.0])
@pytest.mark.parametrize(("lost", "steps"), [(0.08, 0.0), (0.0, 90.0), (0.05, 60.0)])
def test_a_loop_that_cannot_use_all_of_its_time_keeps_what_waits_within_its_bound(
    overload: float, lost: float, steps: float
) -> None:
    """The controller alone, as the guard would hide it: it looks around between steps, and these take a millisecond."""
    stream = SimulatedStream(1e-3, 0.05, lost=lost, steps=steps, step_s=1e-3, noise=0.01, guards=False)
    capacity = (0.95 - lost - steps * 1e-3) / 1e-3
    rate = overload * capacity
    for _ in range(8):
        stream.cycle(rate)
    lags = []
    for _ in range(20):
        stream.cycle(rate)
        lags.append(stream.lag / rate)
    assert np.mean(lags) <= 0.65 and max(lags) <= 1.5, lags
    assert stream.keep == pytest.approx(1.0 / overload, abs=0.04)
    for _ in range(4):
        stream.cycle(0.6 * capacity)
    assert stream.keep == 1.0


def test_a_lag_within_its_bound_does_not_let_more_in_until_it_is_beyond_it() -> None:
    """The plan has 8% more of the loop than there is: without what waits within the bound it would forget that."""
    highest = []
    for overload in (1.2, 1.4, 1.8):
        stream = SimulatedStream(1e-3, 0.05, lost=0.08, noise=0.01, guards=False)
        rate = overload * (0.95 - 0.08) / 1e-3
        for _ in range(4):
            stream.cycle(rate)
        lags = []
        for _ in range(60):
            stream.cycle(rate)
            lags.append(stream.lag / rate)
        highest.append(float(np.percentile(lags, 95)))
    assert np.mean(highest) <= 0.75, highest


@pytest.mark.parametrize(("slower", "most_s"), [(0.12, 0.9), (0.25, 1.2)])
def test_what_waits_stays_short_while_rows_take_longer_for_a_while(slower: float, most_s: float) -> None:
    """Rows take that much longer in every other ten seconds: the guard acts before the controller's next decision."""
    lags, keeps = {}, {}
    for guards in (True, False):
        stream = SimulatedStream(1e-3, 0.05, lost=0.06, noise=0.01, guards=guards)
        rate = 1.8 * 0.89 / 1e-3
        lags[guards], keeps[guards] = [], []
        for cycle in range(60):
            stream.row_s = 1e-3 * (1.0 + slower * (cycle >= 12 and cycle % 4 < 2))
            keeps[guards].append(stream.cycle(rate))
            lags[guards].append(stream.lag / rate)
    assert max(lags[True][12:]) <= most_s < max(lags[False][12:])
    # No more is dropped for it than by the controller alone.
    assert np.mean(keeps[True][12:]) >= np.mean(keeps[False][12:])


@pytest.mark.parametrize("load", [0.9, 1.0])
def test_what_others_had_of_its_core_is_soon_forgotten(load: float) -> None:
    """Its loop takes steps as long as it has time, so it is full before and after somebody else has part of it."""
    stream = SimulatedStream(1e-3, 0.02, lost=0.03, steps=4.0, step_s=1e-3, fills=True, noise=0.01)
    capacity = (1.0 - 0.03 - 0.024) / 1e-3
    for part in (0.3, 0.5, 0.7, 0.9) * 2:
        stream.cycle(part * capacity)
    stream.stolen = 0.4
    keeps = [stream.cycle(load * capacity) for _ in range(6)]
    assert keeps[-1] < 0.7
    stream.stolen = 0.0
    keeps = [stream.cycle(load * capacity) for _ in range(20)]
    assert set(keeps[6:]) == {1.0}, keeps


def test_below_capacity_nothing_is_ever_shed() -> None:
    stream = SimulatedStream(1e-3, noise=0.01)
    assert {stream.cycle(900.0) for _ in range(120)} == {1.0}


def test_at_its_minimum_a_source_is_held_back_and_that_is_said() -> None:
    stream = SimulatedStream(1e-3, minimum=0.75)
    for _ in range(4):
        keep = stream.cycle(2_000.0)
    assert keep == 0.75 and stream.lag > 5_000.0
    assert "minimum accuracies cannot be met" in stream.infeasible


def test_without_a_contract_lag_grows_and_nothing_is_shed() -> None:
    stream = SimulatedStream(1e-3, minimum=1.0)
    assert {stream.cycle(2_000.0) for _ in range(6)} == {1.0}
    assert stream.lag == pytest.approx(30_000.0)


@dataclass(frozen=True)
class Standing(Policy[None]):
    """Changes nothing, for a cause."""

    cause: Cause

    def start(self) -> None:
        """Return nothing."""

    def decide(self, snapshot: ClusterSnapshot, memory: None) -> tuple[Decision, None]:
        """Return no change."""
        return NoChange("in words of its own", cause=self.cause), None


@pytest.mark.parametrize("cause", Cause)
def test_rates_stay_where_a_policy_could_not_decide_whatever_it_says(cause: Cause) -> None:
    stream = SimulatedStream(1e-3)
    for _ in range(6):
        before = stream.cycle(2_000.0)
    stream.shedding.take_policy(Guarded(Standing(cause)))
    assert before < 1.0 and stream.cycle(2_000.0) == (1.0 if cause is Cause.DECIDED else before)


def test_the_papers_way_leaves_its_backlog_in_the_log() -> None:
    stream = SimulatedStream(1e-3, control=Control("qod-paper", "act"))
    for _ in range(10):
        stream.cycle(2_000.0)
    assert stream.keep == pytest.approx(0.5, abs=0.05) and stream.lag > 1_000.0
