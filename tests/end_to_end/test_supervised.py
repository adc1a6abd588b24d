"""A supervisor restarts a Kafka job: those faults that need no disk of their own, once each."""

from pathlib import Path

import pytest

from tests.chaos.supervised import supervise

FAULTS = ("stopped", "killed", "directory_is_a_file", "second_run", "take_over", "changed_pipeline")


@pytest.mark.slow
@pytest.mark.long("six faults of a supervised job; test_one_run has second runs and take-overs")
def test_every_round_runs_on_exactly_or_ends_with_a_sentence(tmp_path: Path) -> None:
    report = supervise(tmp_path, len(FAULTS), seed=0, names=FAULTS)
    assert [one for one in report.rounds if one.wrong] == []
    assert len(report.rounds) == len(FAULTS)
    assert report.rows > 0 and (report.lost, report.duplicated) == (0, 0)
    said = {one.fault: one.said for one in report.rounds}
    assert "--take-over" in said["second run"]
    assert "per key" in said["changed pipeline"]
