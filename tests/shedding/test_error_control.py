"""The rate that a wanted error needs is found from errors at any other rate, and competitors share what there is."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.keep_rates import STEPS
from penstock.shedding.error_control import (
    ErrorGoal,
    ErrorMemory,
    ErrorRule,
    error_at,
    learned,
    need,
    needed_keep,
    steadied,
)
from penstock.shedding.error_sharing import Competitor, shared
from penstock.shedding.result_errors import ErrorCounts, half_width_at
from tests.papers_cases import cases

RULE = ErrorRule()
LEAST = 1 / STEPS


def goal(error: float = 0.05, floor: float = LEAST, *, is_bounded: bool = False) -> ErrorGoal:
    return ErrorGoal(error, 0.95, floor, is_bounded)


def windows(random: np.random.Generator, units: np.ndarray, keep: float) -> ErrorCounts:
    """Return the rows of a cycle: each has kept a share of its rows that scatters around the rate."""
    keeps = np.clip(keep * random.normal(1.0, 0.02, len(units)), 0.005, 1.0) if keep < 1.0 else np.ones(len(units))
    widths = np.array([half_width_at(unit, at) for unit, at in zip(units.tolist(), keeps.tolist(), strict=True)])
    return ErrorCounts.of(widths, keeps)


@settings(max_examples=cases())
@given(st.floats(0.001, 10.0), st.floats(0.001, 0.9))
def test_at_the_needed_rate_the_error_is_the_wanted_one(unit: float, error: float) -> None:
    assert half_width_at(unit, needed_keep(unit, error)) == pytest.approx(error)


@settings(max_examples=cases())
@given(st.integers(0, 2**32), st.floats(0.01, 0.5), st.floats(0.02, 0.3), st.floats(0.05, 0.95), st.integers(20, 400))
def test_from_any_rate_it_converges_to_one_at_which_rows_have_the_wanted_error(
    seed: int, middle: float, error: float, keep: float, rows: int
) -> None:
    random = np.random.default_rng(seed)
    memory, wanted = ErrorMemory(), goal(error)
    rates = []
    for _ in range(30):
        counts = windows(random, middle * random.lognormal(0.0, 0.2, rows), keep)
        memory = steadied(RULE, learned(RULE, memory, wanted, counts), wanted)
        assert memory.need is not None
        keep = memory.need
        rates.append(keep)
    last = middle * random.lognormal(0.0, 0.2, 4_000)
    within = np.mean([half_width_at(unit, keep) <= error for unit in last.tolist()])
    assert within >= 0.9
    # The next rate below it is too low for the middle of those that miss it.
    assert keep <= needed_keep(middle * math.exp(0.2 * 2.6), error * RULE.headroom) + 0.06
    assert max(rates[10:]) - min(rates[10:]) <= 0.25


def test_before_an_error_is_known_all_rows_are_kept_or_the_minimum_accuracy() -> None:
    assert need(RULE, ErrorMemory(), goal()) == 1.0
    assert need(RULE, ErrorMemory(), goal(floor=0.3, is_bounded=True)) == 20 / 64
    assert error_at(ErrorMemory(), 0.5) is None
    assert error_at(ErrorMemory(), 1.0) == 0.0
    # Nor do rows say anything of which nothing was shed.
    exact = windows(np.random.default_rng(1), np.full(50, 0.1), 1.0)
    memory = ErrorMemory()
    assert learned(RULE, memory, goal(), exact) is memory


@settings(max_examples=cases())
@given(st.floats(1e-4, 1e3), st.floats(0.01, 0.9), st.floats(LEAST, 1.0), st.floats(1.0, 100.0))
def test_a_need_is_a_whole_step_from_the_minimum_to_1_and_falls_with_the_ratio(
    unit: float, error: float, floor: float, ratio: float
) -> None:
    memory, wanted = ErrorMemory(unit_error=unit), goal(error, floor, is_bounded=True)
    keep = need(RULE, memory, wanted)
    assert floor <= keep <= 1.0 and keep * STEPS == round(keep * STEPS)
    assert floor <= need(RULE, memory, wanted, ratio) <= keep


def test_it_moves_up_at_once_and_down_beyond_the_dead_band() -> None:
    def moved(held: float, unit: float) -> float | None:
        return steadied(RULE, ErrorMemory(unit_error=unit, need=held), goal()).need

    unit = 0.05 * RULE.headroom
    assert need(RULE, ErrorMemory(unit_error=unit), goal()) == 0.5
    assert moved(0.5 - 1 / 64, unit) == 0.5
    assert moved(0.5 + 1 / 64, unit) == 0.5 + 1 / 64
    assert moved(0.5 + 2 / 64, unit) == 0.5


def test_where_too_many_rows_have_no_interval_it_is_raised_until_they_have_one() -> None:
    memory, keep, rates = ErrorMemory(), 0.1, list[float]()
    for _ in range(60):
        widths = np.full(40, 0.001 if keep >= 0.6 else math.inf)
        memory = steadied(RULE, learned(RULE, memory, goal(), ErrorCounts.of(widths, np.full(40, keep))), goal())
        keep = memory.need or 1.0
        rates.append(keep)
    assert min(rates[12:]) >= 0.55 and max(rates[12:]) <= 0.75


class Machine:
    """A machine that reads so many rows/s of queries of such rates."""

    def __init__(self, cpu: Mapping[str, float], capacity: float) -> None:
        self._cpu, self._capacity = cpu, capacity

    def fits(self, needs: Mapping[str, float]) -> bool:
        return sum(needs[name] * cost for name, cost in self._cpu.items()) <= self._capacity


NAMES = ("a", "b", "c")
QUERY = st.tuples(st.floats(0.01, 1.0), st.floats(0.02, 0.3), st.sampled_from([0.0, 1.0]))


def competitor(priority: float, memory: ErrorMemory, wanted: ErrorGoal) -> Competitor:
    return Competitor(priority, wanted.floor, lambda ratio: need(RULE, memory, wanted, ratio))


@settings(max_examples=cases())
@given(
    st.lists(QUERY, min_size=3, max_size=3),
    st.floats(0.05, 3.5),
)
def test_those_that_compete_have_one_ratio_of_error_by_priority(
    queries: list[tuple[float, float, float]], capacity: float
) -> None:
    machine = Machine(dict.fromkeys(NAMES, 1.0), capacity)
    goals = {name: goal(query[1]) for name, query in zip(NAMES, queries, strict=True)}
    memories = {name: ErrorMemory(unit_error=query[0]) for name, query in zip(NAMES, queries, strict=True)}
    competitors = {
        name: competitor(query[2], memories[name], goals[name]) for name, query in zip(NAMES, queries, strict=True)
    }
    full = {name: need(RULE, memories[name], goals[name]) for name in NAMES}
    shares = shared(competitors, machine.fits)
    assert machine.fits(shares.needs)
    if machine.fits(full):
        assert shares.needs == full and not shares.ratios
        return
    short = {competitors[name].priority for name in shares.ratios}
    # All of a priority that gives way do, those above it have what they need, and those below the least.
    assert set(shares.ratios) == {name for name in NAMES if competitors[name].priority in short}
    for priority in short:
        ratios = {shares.ratios[name] for name in NAMES if competitors[name].priority == priority}
        assert len(ratios) == 1
        assert priority == max(short) or ratios == {math.inf}
    for name in NAMES:
        if name not in shares.ratios:
            assert shares.needs[name] == full[name]
        elif math.isfinite(shares.ratios[name]):
            assert shares.needs[name] == need(RULE, memories[name], goals[name], shares.ratios[name])


def test_nothing_fits_but_the_minimums() -> None:
    one = Competitor(0.0, 0.5, lambda ratio: 0.9)
    shares = shared({"a": one}, lambda needs: False)
    assert shares.needs == {"a": 0.5} and shares.ratios == {"a": math.inf}
