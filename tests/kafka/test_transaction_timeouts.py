"""K3 (docs/design/fault-tests.md 2) with two jobs: down for longer than their transactions may take."""

from pathlib import Path

import pytest

from tests.chaos.kafka_timeouts import CHECK_S, FREED_S, TIMEOUT_MS, timed_out_transactions

pytestmark = pytest.mark.slow


@pytest.mark.long(
    "waits until transactions time out; test_sink_exactly_once names and makes commits that were not made"
)
def test_k3_what_the_broker_aborted_is_sent_again(kafka: str, tmp_path: Path) -> None:
    report = timed_out_transactions(tmp_path, kafka, 20_000, 2, seed=3)
    assert report.failure is None, report.failure
    assert (report.kills, report.runs, report.lost, report.duplicated) == (2, 2, 0, 0), report
    assert report.rows
    # The broker ended them by itself, when their time was over.
    assert all(0.5 * TIMEOUT_MS / 1_000 < seconds <= FREED_S + CHECK_S for seconds in report.recoveries_s), report
