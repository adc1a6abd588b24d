"""The guard against faltering services: what it blocks, what it lets pass, and how the paper's own rule fails."""

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.scheduler.remote_guard import backlog_correlates, explained_by_service, service_faltered

RUNS = 600
BEFORE = 40
Series = NDArray[np.float64]


def noise(random: np.random.Generator, ticks: int, mean: float, spread: float) -> Series:
    return mean * (1 + spread * random.standard_normal((ticks, RUNS)))


def blocked(seed: int, window: int, slowdown: Series, *, load: float = 1.0, answered: float = 1.0) -> Series:
    """Return the share of runs that are blocked when latency follows ``slowdown`` and the input rises by ``load``.

    A row waits for its call, so a service that is slower by s takes 1 / s of the rows; the rest is backlog.
    """
    random = np.random.default_rng(seed)
    ticks = BEFORE + 2 * window
    factor = np.ones((ticks, 1))
    factor[BEFORE:] = slowdown[: 2 * window, np.newaxis]
    latency = noise(random, ticks, 5.0, 0.05) * factor
    taken = 1000 / factor
    given = noise(random, ticks, 1000.0, 0.03)
    given[BEFORE:] *= load
    backlog = np.cumsum(np.maximum(given - taken * (1 + 0.02 * random.standard_normal(given.shape)), 0.0), axis=0)
    calls = noise(random, ticks, 500.0, 0.02) / factor
    answers = calls * np.where(np.arange(ticks)[:, np.newaxis] >= BEFORE, answered, 1.0)
    return explained_by_service(backlog, latency, calls, answers, window)


@pytest.mark.parametrize("window", [10, 20, 30])
def test_steps_ramps_and_long_slowdowns_are_blocked(window: int) -> None:
    ticks = 2 * window
    step = np.where(np.arange(ticks) < ticks // 4, 1.0, 3.0)
    ramp = np.linspace(1.0, 4.0, ticks)
    late = np.where(np.arange(ticks) < ticks // 2, 1.0, 2.0)
    for slowdown in (step, ramp, late):
        assert blocked(window, window, slowdown).mean() >= 0.99


@pytest.mark.parametrize("window", [10, 20, 30])
def test_more_input_is_not_blocked(window: int) -> None:
    assert blocked(window, window, np.ones(2 * window), load=1.5).mean() <= 0.01


@pytest.mark.parametrize("window", [10, 20, 30])
def test_independent_noise_is_let_pass(window: int) -> None:
    random = np.random.default_rng(window)
    ticks = BEFORE + 2 * window
    backlog = np.cumsum(np.abs(noise(random, ticks, 100.0, 0.5)), axis=0)
    latency, calls = noise(random, ticks, 5.0, 0.2), noise(random, ticks, 500.0, 0.2)
    assert explained_by_service(backlog, latency, calls, calls, window).mean() <= 0.05


def faltering(random: np.random.Generator, slower: float, load: float) -> tuple[Series, Series, Series]:
    """Return backlog, latency and calls; for the last 15 ticks a service is slower, or more rows come, or both."""
    ticks = BEFORE + 20
    since = np.arange(ticks)[:, np.newaxis] >= BEFORE + 5
    factor = np.where(since, slower, 1.0)
    short = 1000 * np.where(since, load, 1.0) - 1000 / factor
    backlog = np.cumsum(np.maximum(short + noise(random, ticks, 20.0, 0.5), 0.0), axis=0)
    return backlog, noise(random, ticks, 5.0, 0.05) * factor, noise(random, ticks, 500.0, 0.02) / factor


@pytest.mark.parametrize("missing", [1, 7])
def test_readings_that_are_missing_change_nothing_while_half_are_there(missing: int) -> None:
    """One or seven readings are missing: before the slowdown, as it begins, or while it lasts."""
    random = np.random.default_rng(missing)
    for first in (10, BEFORE, BEFORE + 13):
        for slower, load, least, most in ((3.0, 1.0, 0.99, 1.0), (1.0, 1.5, 0.0, 0.01)):
            backlog, latency, calls = faltering(random, slower, load)
            gone = slice(first, first + min(missing, 5 if first == BEFORE + 13 else missing))
            latency[gone] = np.nan
            assert least <= explained_by_service(backlog, latency, calls, calls, 10).mean() <= most
            calls[gone] = np.nan
            assert least <= explained_by_service(backlog, latency, calls, calls, 10).mean() <= most


@pytest.mark.parametrize("part", [slice(-6, None), slice(BEFORE, BEFORE + 11), slice(0, BEFORE // 2 + 1)])
def test_growth_is_blocked_where_most_readings_are_missing(part: slice) -> None:
    """Of the last window, of the last two, or of the time before."""
    backlog, latency, calls = faltering(np.random.default_rng(5), 1.0, 1.5)
    assert explained_by_service(backlog, latency, calls, calls, 10).mean() <= 0.01
    latency[part, :7] = np.nan
    found = explained_by_service(backlog, latency, calls, calls, 10)
    assert found[:7].all() and found[7:].mean() <= 0.01


def test_what_came_late_is_judged_by_what_was_seen_of_it() -> None:
    """An application that came a window ago has no time before, as the first one has none."""
    backlog, latency, calls = faltering(np.random.default_rng(6), 3.0, 1.0)
    for series in (backlog, latency, calls):
        series[: BEFORE + 10] = np.nan
    assert not explained_by_service(backlog, latency, calls, calls, 10).any()


def test_correlation_of_the_backlog_alone_takes_noise_for_a_cause_and_misses_what_lasts() -> None:
    """The paper's rule as it stands, with a backlog and a latency that wander, and with a service that stays slow."""
    random = np.random.default_rng(1)
    wandering = random.standard_normal((14, RUNS))
    for tick in range(1, 14):
        wandering[tick] += 0.8 * wandering[tick - 1]
    backlog = np.cumsum(random.standard_normal((10, RUNS)), axis=0)
    assert backlog_correlates(backlog, wandering, 10).mean() > 0.05
    slow = noise(random, 44, 15.0, 0.05)
    assert backlog_correlates(np.cumsum(noise(random, 44, 600.0, 0.05), axis=0), slow, 40).mean() < 0.01


def test_without_a_service_nothing_is_blamed_on_it() -> None:
    backlog = np.cumsum(np.ones((60, 3)), axis=0)
    none = np.full((60, 3), np.nan)
    assert not explained_by_service(backlog, none, none, none, 10).any()
    assert not explained_by_service(backlog[:3], none[:3], none[:3], none[:3], 10).any()


def test_errors_that_are_tried_again_are_blocked() -> None:
    random = np.random.default_rng(3)
    ticks, window = BEFORE + 20, 10
    bad = np.zeros((ticks, 1))
    bad[BEFORE + 5 :] = 1.0
    calls = noise(random, ticks, 500.0, 0.02) * (1 + bad)
    answers = calls * (1 - 0.6 * bad)
    backlog = np.cumsum(np.abs(noise(random, ticks, 5.0, 0.3)) + 300 * bad, axis=0)
    latency = noise(random, ticks, 5.0, 0.05)
    assert explained_by_service(backlog, latency, calls, answers, window).mean() >= 0.99


def test_a_backlog_of_minutes_is_put_down_to_a_service_that_was_slower_then() -> None:
    """In the last three of 35 minutes rows pile up; the service is slower then, earlier, or answers less."""
    random = np.random.default_rng(3)
    quiet = 5 * np.exp(0.1 * random.standard_normal((35, 400)))
    backlog = np.zeros((35, 400))
    backlog[-3:] = 1e4 * np.arange(1, 4)[:, np.newaxis]
    calls = np.full((35, 400), 500.0)
    slow, slow_before, fewer = quiet.copy(), quiet.copy(), calls.copy()
    slow[-3:] *= 1.6
    slow_before[-9:-5] *= 1.6
    fewer[-3:] *= 0.6
    assert service_faltered(backlog, slow, calls, calls, 10).mean() > 0.95
    assert service_faltered(backlog, quiet, calls, fewer, 10).all()
    assert service_faltered(backlog, quiet, calls, calls, 10).mean() < 0.05
    assert service_faltered(backlog, slow_before, calls, calls, 10).mean() < 0.05
    assert not service_faltered(backlog[-12:], slow[-12:], calls[-12:], calls[-12:], 10).any()
