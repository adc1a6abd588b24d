"""Validity: a recorded embedded job of three operators, calibrated on one load, predicted at the other two."""

import pytest

from tests.benchmarks.papers.cluster_model.recording import (
    Figures,
    calibrated,
    loads_of,
    measured,
    predicted,
    read_recording,
)

CALIBRATED_ON = "near"
WITHIN = 0.15


def both(name: str) -> tuple[Figures, Figures, float]:
    recording = read_recording()
    costs_s = calibrated(loads_of(recording, CALIBRATED_ON))
    runs = loads_of(recording, name)
    rate = runs[0]["rate"]
    return measured(runs), predicted(recording, costs_s, rate), rate


@pytest.mark.parametrize("name", ["under", "over"])
def test_throughput_is_predicted(name: str) -> None:
    was, predicted_, _ = both(name)
    assert predicted_.throughput == pytest.approx(was.throughput, rel=WITHIN)


@pytest.mark.parametrize("name", ["under", "over"])
def test_the_busy_share_is_predicted(name: str) -> None:
    was, predicted_, _ = both(name)
    # The map is what is busy; of the small shares of the others the source's idle polls are no small part.
    assert predicted_.busy_share[1] == pytest.approx(was.busy_share[1], rel=WITHIN)
    assert predicted_.busy_share == pytest.approx(was.busy_share, rel=WITHIN, abs=0.05)


@pytest.mark.parametrize("name", ["under", "over"])
def test_the_slope_of_the_lag_is_predicted(name: str) -> None:
    was, predicted_, rate = both(name)
    if name == "over":
        assert predicted_.lag_slope == pytest.approx(was.lag_slope, rel=WITHIN)
        assert was.lag_slope > 0.2 * rate
    else:
        assert abs(predicted_.lag_slope) < 0.02 * rate and abs(was.lag_slope) < 0.02 * rate


def test_a_model_of_another_job_is_found_out() -> None:
    recording = read_recording()
    costs_s = [1.5 * cost for cost in calibrated(loads_of(recording, CALIBRATED_ON))]
    over = loads_of(recording, "over")
    assert predicted(recording, costs_s, over[0]["rate"]).throughput < (1 - WITHIN) * measured(over).throughput
