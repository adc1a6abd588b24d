"""What a tuple costs, and how many can be processed (docs/design/papers/dissp.md 3)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.cost_model import (
    SMOOTHED,
    IntervalHistory,
    PaperCost,
    QueryCosts,
    UsefulCost,
    average_cost_ms,
    tuples_in_interval,
)
from tests.papers_cases import cases


def history_of(*intervals: tuple[float, float, int]) -> IntervalHistory:
    history = IntervalHistory()
    for interval in intervals:
        history = history.after(*interval)
    return history


def test_the_example_of_the_paper() -> None:
    assert average_cost_ms(300, 5000) == pytest.approx(0.06)
    assert int(tuples_in_interval(250, 0.06)) == 4166
    saturated = history_of((300, 300, 5000))
    for model in (PaperCost(), UsefulCost()):
        assert model.tuple_cost_ms(saturated) == pytest.approx(0.06)
        n_tuples = model.n_tuples(saturated)
        assert n_tuples is not None and int(n_tuples) == 4166


@given(
    cost_ms=st.floats(1e-3, 1.0),
    load=st.floats(0.05, 1.0),
    intervals=st.integers(1, 60),
    elapsed_ms=st.floats(200, 400),
    threads=st.integers(1, 4),
    operators=st.integers(1, 5),
)
@settings(max_examples=cases())
def test_useful_time_tells_the_capacity_at_any_load(
    cost_ms: float, load: float, intervals: int, elapsed_ms: float, threads: int, operators: int
) -> None:
    # The whole chain counts as busy, and a row counts once.
    cost_ms *= operators / 1000
    busy_ms = [threads * load * elapsed_ms * (1 + number % 3) for number in range(intervals)]
    history = history_of(*((elapsed_ms, busy, round(busy / cost_ms)) for busy in busy_ms))
    n_tuples = UsefulCost(threads=threads).n_tuples(history)
    assert n_tuples == pytest.approx(threads * 250 / cost_ms, rel=0.01)
    assert len(history.rows) == min(SMOOTHED, intervals)


def test_elapsed_time_takes_an_idle_node_for_a_slow_one() -> None:
    # Half-loaded: 0.06 ms a tuple, 2,083 come in 250 ms. The literal model says that no more are possible.
    idle = history_of(*[(250, 125, 2083)] * 50)
    assert PaperCost().n_tuples(idle) == pytest.approx(2083)
    assert UsefulCost().n_tuples(idle) == pytest.approx(4166, rel=1e-3)


@given(st.lists(st.tuples(st.floats(100, 500), st.integers(1, 10_000)), min_size=1, max_size=50))
@settings(max_examples=cases())
def test_the_two_agree_while_saturated_and_steady(measured: list[tuple[float, int]]) -> None:
    t, n = measured[0]
    steady = history_of(*[(t, t, n)] * len(measured))
    assert PaperCost().n_tuples(steady) == pytest.approx(UsefulCost().n_tuples(steady))
    # The ratio of sums weighs intervals by their rows, so that it is right whatever their lengths.
    mixed = history_of(*((t, t, n) for t, n in measured))
    recent = measured[-SMOOTHED:]
    expected = sum(t for t, _ in recent) / sum(n for _, n in recent)
    assert UsefulCost().tuple_cost_ms(mixed) == pytest.approx(expected)


def test_what_was_not_measured() -> None:
    nothing = history_of((250, 0, 0))
    for model in (PaperCost(), UsefulCost()):
        assert model.tuple_cost_ms(nothing) is None
        assert model.n_tuples(nothing) is None


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases())
def test_costs_by_query_settle_and_follow_a_jump(seed: int) -> None:
    random = np.random.default_rng(seed)
    cost_ms = random.uniform(0.01, 1.0, 5)
    costs = QueryCosts.unknown(6)
    for _ in range(10):
        rows = np.append(random.integers(1, 100, 5), 0)
        costs = costs.after(np.append(cost_ms * rows[:5] * random.uniform(0.95, 1.05, 5), 0.0), rows)
    np.testing.assert_allclose(costs.mean_ms[:5], cost_ms, rtol=0.06)
    assert np.isnan(costs.mean_ms[5]) and costs.relative_to(0.1)[5] == 1.0
    np.testing.assert_allclose(costs.relative_to(0.5)[:5], costs.mean_ms[:5] / 0.5)
    # Three times the cost: an average of gain 0.1 alone would be half way after 7 intervals.
    rows = np.full(6, 100)
    after = costs.after(np.append(3 * cost_ms, 0.0) * rows, rows)
    np.testing.assert_allclose(after.mean_ms[:5], 3 * cost_ms)


def test_a_slow_rise_is_averaged() -> None:
    costs = QueryCosts.unknown(1).after(np.array([10.0]), np.array([10]))
    assert costs.after(np.array([10.5]), np.array([10])).mean_ms[0] == pytest.approx(1.005)
    for _ in range(4):
        costs = costs.after(np.array([5.0]), np.array([10]))
    assert costs.mean_ms[0] == pytest.approx(0.5)
