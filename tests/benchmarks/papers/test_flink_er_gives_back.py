"""Drills of Flink-ER where it gives instances back, on the simulated cluster: as it does on a running job."""

import pytest

from tests.benchmarks.papers.drills import PARAMETERS, STEP_S, drill, shed_share

GIVES = {"frees_below": 0.5}


@pytest.fixture(autouse=True)
def gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARAMETERS, "flink-er", GIVES)


@pytest.mark.parametrize("shape", ["flat", "step up"])
def test_what_is_needed_stays(shape: str) -> None:
    run = drill(shape, "qod", "flink-er", until_s=600.0)
    sizes = [len(record.decision.snapshot.instances) for record in run.records]
    assert sizes == sorted(sizes), "nothing goes"
    assert bool(run.acted("flink-er")) is (shape == "step up")


def test_after_a_step_down_an_instance_goes_once_and_for_all() -> None:
    run = drill("step down", "qod", "flink-er", until_s=700.0)
    acted = run.acted("flink-er")
    assert acted and acted[0].time_s >= STEP_S + 60.0
    sizes = [len(record.decision.snapshot.instances) for record in run.records]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0]
    assert shed_share(run, 600.0) < 0.01
