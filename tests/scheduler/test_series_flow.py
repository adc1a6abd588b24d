"""The flow through edges in series against networkx, from any flow that is there; and the least cut."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.scheduler.series_flow import SeriesFlow
from tests.papers_cases import cases


def random_series(seed: int) -> SeriesFlow:
    random = np.random.default_rng(seed)
    edges = int(random.integers(1, 9))
    capacity = [float(random.choice([0.0, 1.0, 2.5, random.uniform(0, 10)])) for _ in range(edges)]
    return SeriesFlow(capacity, float(random.choice([0.0, random.uniform(0, 1)])) * min(capacity))


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_the_value_is_that_of_networkx_and_of_the_cut(seed: int) -> None:
    series = random_series(seed)
    oracle = nx.DiGraph()
    for edge, whole in enumerate(series.capacity):
        oracle.add_edge(edge, edge + 1, capacity=whole)
    reached = series.augment()
    assert reached == series.value == pytest.approx(nx.maximum_flow_value(oracle, 0, len(series.capacity)), abs=1e-6)
    cut = series.cut()
    assert cut is not None and series.capacity[cut] == pytest.approx(reached, abs=1e-6)
    # The source's side of the residual network ends at the first edge that is full.
    assert all(whole > reached for whole in series.capacity[:cut])


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1), st.floats(1, 3))
def test_augmenting_goes_on_from_the_flow_that_is_there_and_never_lowers_it(seed: int, factor: float) -> None:
    """A maximum flow stays one; with larger capacities it grows in proportion, from where it was."""
    series = random_series(seed)
    before = series.value
    some = series.augment()
    assert some >= before and series.augment() == some
    series.capacity[:] = [whole * factor for whole in series.capacity]
    most = series.augment()
    assert most >= some and most == pytest.approx(some * factor, abs=1e-6)


def test_a_flow_with_room_everywhere_has_no_cut() -> None:
    assert SeriesFlow([2.0, 3.0], 1.0).cut() is None
