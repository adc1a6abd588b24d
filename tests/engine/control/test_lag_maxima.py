"""Lag maxima of a running job: the largest of what waits at its partitions since the last cycle."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from penstock.engine.control.lag_maxima import LagMaxima
from penstock.model.plan import NoChange
from penstock.model.snapshot import ClusterSnapshot, PartitionColumns
from penstock.shedding.qod_sources import NO_LAGS, lag_maxima, offered_to_sources
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


def test_the_largest_lag_since_the_last_cycle_counts() -> None:
    lags = LagMaxima()
    for number, waiting in enumerate([(1.0, 9.0), (5.0, 2.0), (3.0, np.nan)], 1):
        lags.see(logs(number, waiting))
    assert largest(lags.of_cycle(logs(4, (4.0, 1.0)))) == [5.0, 9.0]
    assert largest(lags.of_cycle(logs(5, (0.0, 2.0)))) == [0.0, 2.0]


def test_partitions_that_change_hands_begin_anew() -> None:
    lags = LagMaxima()
    lags.see(logs(1, (7.0, 8.0)))
    assert largest(lags.of_cycle(logs(2, (1.0, 2.0, 3.0), (0, 0, 1)))) == [1.0, 2.0, 3.0]
    nobody = replace(logs(3, (0.0, 0.0)), partitions=PartitionColumns(np.zeros(0, np.int32)))
    assert lags.of_cycle(nobody).partitions.lag_max is None


def test_a_rate_follows_from_them() -> None:
    lags = LagMaxima()
    first = lags.of_cycle(logs(1, (10.0, 10.0)))
    second = lags.of_cycle(logs(2, (30.0, 30.0)))
    offered = offered_to_sources(second, second.tasks.is_source, "lag maxima", None, lag_maxima(first))
    assert not isinstance(offered, NoChange)
    assert offered.task[0] == pytest.approx(2 * (20 + 40))
    missing = offered_to_sources(logs(3, (1.0, 1.0)), second.tasks.is_source, "lag maxima", None, NO_LAGS)
    assert isinstance(missing, NoChange)
