"""The loads of key groups, by which they are dealt out: those that differ by more than chance."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.control.key_group_loads import likely_loads, loads_of
from penstock.model.snapshot import BucketColumns, ClusterSnapshot
from tests.engine.control.readings import graph
from tests.engine.control.recorded import second

GRAPH = graph()
COUNT = 1
AGG = "agg-1"
"""The operator of the count, by whose keys its state lies; its sink is in the same task."""


def seen(rows: list[float] | None, buckets: list[int] | None = None) -> ClusterSnapshot:
    """Return a snapshot in which the key groups of the count got so many rows."""
    number = list(range(len(rows or []))) if buckets is None else buckets
    columns = BucketColumns(
        task=np.full(len(number), COUNT, np.int32),
        bucket=np.array(number, np.int32),
        instance=np.zeros(len(number), np.int32),
        records_in=None if rows is None else np.array(rows, np.float64),
    )
    return replace(second(1), buckets=columns)


def test_loads_are_those_of_the_operators_that_lie_by_key() -> None:
    every = [GRAPH.graph.operators[operator].name for task in GRAPH.tasks for operator in task.operators]
    loads = loads_of(every, GRAPH, seen([10.0, 400.0, 30.0]))
    assert list(loads) == [AGG]
    assert loads[AGG][1] > 10 * loads[AGG][0] and sum(loads[AGG]) == pytest.approx(440)
    assert loads_of([], GRAPH, seen([10.0, 400.0, 30.0])) == {}


@pytest.mark.parametrize(
    "snapshot",
    [seen(None), seen([]), seen([10.0, 400.0], [0, 2]), seen([10.0, float("nan"), 400.0]), seen([0.0, 0.0])],
    ids=("not measured", "none", "one is missing", "one is not measured", "no rows"),
)
def test_what_is_not_known_of_all_is_no_load(snapshot: ClusterSnapshot) -> None:
    assert loads_of([AGG], GRAPH, snapshot) == {}


@given(st.integers(2, 200), st.floats(0.5, 50), st.integers(0, 1_000))
def test_chance_alone_makes_hardly_a_difference(groups: int, mean: float, seed: int) -> None:
    rows = np.random.default_rng(seed).poisson(mean, groups).astype(np.float64)
    loads = likely_loads(rows)
    if loads is not None:
        assert loads.sum() == pytest.approx(rows.sum()) and (loads > 0).all()
        assert loads.std() < rows.std()


def test_shares_that_differ_are_seen_as_they_are() -> None:
    rows = np.random.default_rng(3).poisson([20.0, 40.0, 400.0, 60.0]).astype(np.float64)
    loads = likely_loads(rows)
    assert loads is not None and np.allclose(loads, rows, rtol=0.1)
