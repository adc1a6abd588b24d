"""Lag maxima of a running job: what waits at its partitions when a cycle ends."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.control.lag_maxima import with_lag_maxima
from penstock.model.plan import NoChange
from penstock.model.snapshot import ClusterSnapshot, PartitionColumns
from penstock.shedding.qod_sources import NO_LAGS, lag_maxima, offered_to_sources
from tests.papers_cases import cases
from tests.shedding.test_source_rates import pipeline


def logs(number: int, lags: Sequence[float], instances: Sequence[int] = (0, 0)) -> ClusterSnapshot:
    """Return a snapshot in which so many rows wait at partitions, of which 40 were read in its window."""
    ends, read = np.full(len(lags), 1_000.0 * number), np.full(len(lags), 40.0)
    rows = np.array(instances, np.int32)
    columns = PartitionColumns(rows, end_offset=ends, position=ends - np.array(lags), consumed=read)
    found = pipeline([500.0] * 2, [50.0] * 2, [500.0] * 2)
    return replace(found, number=number, time_s=float(number), window_s=1.0, partitions=columns)


def largest(found: ClusterSnapshot) -> list[float]:
    assert found.partitions.lag_max is not None
    return found.partitions.lag_max.tolist()


def test_what_waits_when_a_cycle_ends_counts() -> None:
    assert largest(with_lag_maxima(logs(1, (4.0, 1.0)))) == [4.0, 1.0]
    assert largest(with_lag_maxima(logs(1, (-3.0, 2.0)))) == [0.0, 2.0]
    nobody = replace(logs(3, (0.0, 0.0)), partitions=PartitionColumns(np.zeros(0, np.int32)))
    assert with_lag_maxima(nobody).partitions.lag_max is None


def test_a_rate_follows_from_them() -> None:
    first, second = with_lag_maxima(logs(1, (10.0, 10.0))), with_lag_maxima(logs(2, (30.0, 30.0)))
    offered = offered_to_sources(second, second.tasks.is_source, "lag maxima", None, lag_maxima(first))
    assert not isinstance(offered, NoChange)
    assert offered.task[0] == pytest.approx(2 * (20 + 40))
    missing = offered_to_sources(logs(3, (1.0, 1.0)), second.tasks.is_source, "lag maxima", None, NO_LAGS)
    assert isinstance(missing, NoChange)


@settings(max_examples=cases())
@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0.0, 1.0)), min_size=2, max_size=30), st.integers(1, 5))
def test_rates_are_exact_however_lags_come_and_go_within_a_cycle(
    seconds: list[tuple[int, float]], cycle_s: int
) -> None:
    """Two partitions get as much of each other; of what is there at the end of a second a share is read."""
    came = read = 0.0
    before, marks = NO_LAGS, (0.0, 0.0)
    for second, (rows, share) in enumerate(seconds, 1):
        came += rows
        read += share * (came - read)
        if second % cycle_s:
            continue
        taken = [came - marks[0], read - marks[1]]
        partitions = PartitionColumns(np.zeros(2, np.int32), [taken[0]] * 2, [taken[1]] * 2, [came] * 2, [read] * 2)
        found = replace(logs(second, (0.0, 0.0)), window_s=float(cycle_s), partitions=partitions)
        seen = with_lag_maxima(found)
        offered = offered_to_sources(seen, seen.tasks.is_source, "lag maxima", None, before)
        if before is not NO_LAGS:
            assert not isinstance(offered, NoChange)
            assert offered.task[0] == pytest.approx(2 * taken[0] / cycle_s, abs=1e-6)
        before, marks = lag_maxima(seen), (came, read)
