"""The progress line, figures for people, and tables."""

import io

import pytest

from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.ledger import Ledger, OperatorLine
from penstock.engine.jobs.metrics import InstanceMetrics, JobMetrics
from penstock.runs.progress import RowRate, progress_text, showing, watermark_text
from penstock.tables import (
    Column,
    bytes_text,
    count_text,
    print_table,
    rate_text,
    seconds_text,
)


def metrics(seconds: float, rows: int, *watermarks_us: int | None, late: int = 0) -> JobMetrics:
    line = OperatorLine("window", rows, 0, rows - late, 0, late, 0, 0)
    instances = tuple(
        InstanceMetrics("task", index, TimeSpent(0, 0, 0, 0, 0), watermark_us, 0)
        for index, watermark_us in enumerate(watermarks_us)
    )
    return JobMetrics("job", int(seconds * 1e9), rows, Ledger((line,), ()), instances, 1_500_000)


def test_line_says_what_a_watcher_wants_to_know() -> None:
    snapshot = metrics(12.34, 1_234_567, 1_704_067_200_000_000, None, 1_704_067_100_000_000, late=3)
    assert progress_text(snapshot, 2_500_000) == (
        "1,234,567 rows read  2.50 M/s  watermark 2023-12-31 23:58:20  state 1.5 MB  12.3 s  3 late"
    )


@pytest.mark.parametrize("watermarks", [(), (None,), (9_000_000_000_000_000_000,)])
def test_watermark_that_cannot_be_shown(watermarks: tuple[int | None, ...]) -> None:
    assert watermark_text(metrics(1, 1, *watermarks)) == "-"


def test_rate_is_that_of_the_latest_reports() -> None:
    rates = RowRate()
    assert rates.add(metrics(2, 1000)) == pytest.approx(500)
    for second in range(3, 20):
        latest = rates.add(metrics(second, 1000 + (second - 2) * 100))
    assert latest == pytest.approx(100)
    assert RowRate().add(metrics(0, 0)) == 0


def test_nothing_is_shown_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    with showing("job", enabled=False) as show:
        assert show is None
    assert capfd.readouterr() == ("", "")


def test_figures() -> None:
    assert [rate_text(value) for value in (950, 12_345, 1_234_567)] == ["950/s", "12.3 k/s", "1.23 M/s"]
    assert [bytes_text(value) for value in (0, 1500, 2e9)] == ["0 B", "1.5 kB", "2.0 GB"]
    assert [seconds_text(value) for value in (0.0341, 12.34, 7509)] == ["0.034 s", "12.3 s", "2:05:09"]
    assert count_text(1234567) == "1,234,567"


def test_table_prints_names_as_they_are_and_does_not_wrap_where_piped() -> None:
    out = io.StringIO()
    name = "[bold]job[/bold] :smile: " + "x" * 80
    print_table([Column("job", figures=False), Column("rows")], [[name, "1"]], stream=out)
    assert name in out.getvalue() and "\x1b" not in out.getvalue()
