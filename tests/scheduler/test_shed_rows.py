"""What is shed stands for what would wait: before which task, of which application, and above which source."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.busy_band import BusyBand
from penstock.scheduler.network_needs import source_lags
from penstock.scheduler.shed_rows import shed_below, shed_shares, sheds
from penstock.scheduler.true_rates import task_rates
from tests.scheduler.hostile_cases import changed, job


def shed(at_source: float = 0.0, between: float = 0.0) -> ClusterSnapshot:
    """Return the job of which these shares are dropped: of what it fetches, and of what comes to its last task."""
    return changed(
        job(),
        {
            "partitions.consumed": [7_500.0 / (1 - at_source)] * 2,
            "outputs.dropped": [0.0, 10_000.0 * between, 10_000.0 * between],
        },
    )


def test_a_source_drops_what_it_fetched_and_did_not_take_and_an_edge_what_it_says() -> None:
    assert shed_shares(shed(0.4, 0.25)) == pytest.approx([0.4, 0.0, 0.25])
    assert sheds(shed(between=0.25), 0.2).tolist() == [True] and sheds(shed(between=0.25), 0.3).tolist() == [False]
    assert shed_below(shed(0.1, 0.25)) == pytest.approx([0.25, 0.25, 0.25])


def test_readings_that_differ_a_little_or_lack_are_no_shedding() -> None:
    assert shed_shares(shed(0.01)).tolist() == [0.0, 0.0, 0.0]
    none = changed(job(), {"partitions.consumed": None, "outputs.dropped": None, "instances.records_in": None})
    assert shed_shares(none).tolist() == [0.0, 0.0, 0.0]


def test_shed_rows_are_lag_for_flink_er_and_no_part_of_the_need() -> None:
    calm, lossy = source_lags(shed()), source_lags(shed(0.4))
    assert calm is not None and lossy is not None
    assert lossy - calm == pytest.approx([0.4 * 30.0, 0.0, 0.0])


def test_shed_rows_are_back_pressure_for_a_band_where_a_task_is_busy() -> None:
    waits = replace(shed(0.4).instances, output_wait_ns=np.zeros(5))
    calm = replace(shed(), instances=waits)
    lossy = replace(shed(0.4), instances=waits)
    assert not BusyBand().bottlenecks(calm, task_rates(calm)).any()
    assert BusyBand().bottlenecks(lossy, task_rates(lossy)).tolist() == [False, True, True]
