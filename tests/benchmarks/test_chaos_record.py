"""The record of ``make chaos``."""

from pathlib import Path

import pytest

from penstock.chaos.experiment import ChaosReport
from tests.chaos.record import Part, Record

R1, R2 = Part("R1", 0), Part("R2", 0)


def test_what_is_done_is_known_when_started_again(tmp_path: Path) -> None:
    file = tmp_path / ".chaos" / "results.jsonl"
    Record(file).add(R1, ChaosReport(0, kills=3), 1.5)
    Record(file).add(R2, ChaosReport(0, lost=1), 1.5)
    record = Record(file)
    assert record.is_exact(R1)
    assert not record.is_exact(R2)


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"row": "R1", "pa')
    Record(file).add(R2, ChaosReport(0), 1.0)
    record = Record(file)
    assert not record.is_exact(R1)
    assert record.is_exact(R2)


def test_the_table_says_what_was_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = Record(tmp_path / "results.jsonl")
    record.add(R1, ChaosReport(0, kills=7, recoveries_s=[0.5]), 1.0)
    assert record.show([R1, R2])
    printed = capsys.readouterr()
    assert "7" in printed.err
    assert "not run: 1 of 1 parts of R2" in printed.out


def test_a_part_that_is_not_exact_fails_the_whole(tmp_path: Path) -> None:
    record = Record(tmp_path / "results.jsonl")
    record.add(R1, ChaosReport(0, failure="it hangs"), 1.0)
    assert not record.show([R1])
