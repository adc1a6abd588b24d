"""K1 and K2 (docs/design/fault-tests.md 2), few of them: brokers that go, jobs that wake up after another took over."""

from pathlib import Path

import pytest

from penstock.chaos.experiment import ChaosReport
from tests.chaos.kafka_faults import broker_restarts, zombies

pytestmark = pytest.mark.slow


def check(report: ChaosReport, kills: int) -> None:
    assert report.failure is None, report.failure
    assert report.kills == kills and report.runs and report.rows
    assert (report.lost, report.duplicated) == (0, 0), report


@pytest.mark.long("a broker that is down for seconds; test_source and test_undelivered wait for one that comes back")
def test_k1_a_job_outlives_its_broker(tmp_path: Path) -> None:
    check(broker_restarts(tmp_path, 150_000, 2, seed=1, down_s=(5.0, 5.0)), 2)


@pytest.mark.long("zombies of 60,000 rows; test_one_run, and test_sink_exactly_once fences a producer")
def test_k2_a_job_that_was_taken_over_is_fenced_and_says_so(kafka: str, tmp_path: Path) -> None:
    check(zombies(tmp_path, kafka, 60_000, 2, seed=2), 2)
