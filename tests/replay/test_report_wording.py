"""How a validation is told in words, on the terminal and along time."""

import io
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.replay.report_bins import time_ticks, timeline, value_ticks
from penstock.replay.report_table import summary_table
from penstock.replay.report_wording import duration_text, percent, sentence, window_text, windows_that_differ
from penstock.replay.validation_result import QueryValidation, WindowResult
from tests.replay.validations import DIFFERS, SAME, SKIPPED, START, a_query, a_window, validation


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (SAME, "All 1,200 rows are the same."),
        (a_query([a_window(0, rows=1)]), "The one row is the same."),
        (a_query([]), "Neither the stream nor the recomputation has a row."),
        (SKIPPED, "Not compared: its timers are of processing time."),
        (
            DIFFERS,
            "Of 12,066 exact rows 7 are missing and 1 is different; 5 stream rows are extra. "
            "2 of 12 windows differ, first 2026-03-02 09:00:30 to 09:00:40.",
        ),
        (a_query([a_window(0, rows=1, extra=1)]), "1 stream row is extra."),
    ],
)
def test_a_query_is_told_in_a_sentence(query: QueryValidation, said: str) -> None:
    assert sentence(query) == said


def test_windows_that_may_not_be_listed_are_not_passed_over() -> None:
    all_differ = a_query([a_window(0, missing=1)])
    assert windows_that_differ(all_differ) == "1"
    assert windows_that_differ(replace(all_differ, windows_left_out=3)) == "at least 1"
    assert windows_that_differ(replace(DIFFERS, windows_left_out=3)) == "2"


def test_the_table_on_the_terminal() -> None:
    stream = io.StringIO()
    summary_table(validation(DIFFERS, SAME, SKIPPED), stream)
    lines = [line.split() for line in stream.getvalue().splitlines() if line.strip() and "─" not in line]
    assert lines[0] == ["query", "rows", "missing", "extra", "different", "windows", "that", "differ", "verdict"]
    assert lines[1:4] == [
        ["hot", "12,066", "7", "5", "1", "2", "differs"],
        ["calm", "1,200", "0", "0", "0", "0", "same"],
        ["alerts", "not", "compared"],
    ]
    assert " ".join(lines[4]) == "not compared: alerts: its timers are of processing time"
    assert " ".join(lines[5]) == "The stream differs from the exact answer in 1 of 2 queries."


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 50)), min_size=1, max_size=60),
    st.sampled_from([0.001, 0.5, 1, 7, 10, 3600]),
    st.integers(12, 100),
)
def test_bins_have_every_row_once(drawn: list[tuple[int, int]], unit: float, limit: int) -> None:
    windows = [
        WindowResult(
            window_start=START + timedelta(seconds=unit * at),
            window_end=None,
            rows_exact=rows,
            rows_stream=rows,
            missing=rows // 2,
            extra=rows // 2,
        )
        for at, rows in drawn
    ]
    line = timeline(windows, limit)
    if line is None:
        assert len({window.window_start for window in windows}) == 1
        return
    for count, name in (("windows", None), ("exact", "rows_exact"), ("stream", "rows_stream"), ("missing", "missing")):
        wanted = len(windows) if name is None else sum(getattr(window, name) for window in windows)
        assert sum(getattr(item, count) for item in line.bins) == wanted
    # Bins that begin at a round time may need one more at each end.
    assert (line.end - line.start).total_seconds() / line.width_s <= limit + 2
    starts = [item.start for item in line.bins]
    assert starts == sorted(set(starts))
    assert line.start <= starts[0]
    ticks = time_ticks(line.start, line.end, 7)
    assert 1 <= len(ticks) <= 8
    assert all(line.start <= tick <= line.end for tick, _ in ticks)


@given(st.integers(0, 10**12))
def test_value_ticks_are_round(greatest: int) -> None:
    ticks = value_ticks(greatest)
    assert ticks[0] == 0
    assert ticks[-1] >= max(greatest, 1)
    assert 2 <= len(ticks) <= 6
    assert str(ticks[1]).rstrip("0") in ("1", "2", "5")
    assert {later - earlier for earlier, later in pairwise(ticks)} == {ticks[1]}


def test_times_and_shares_as_people_write_them() -> None:
    late = a_window(0)
    assert window_text(
        replace(late, window_start=datetime(2026, 3, 2, 23, 59, 59, 500_000), window_end=datetime(2026, 3, 3))
    ) == ("2026-03-02 23:59:59.5 to 2026-03-03 00:00:00")
    assert window_text(replace(late, window_end=None)) == "2026-03-02 09:00:00 to open"
    assert [duration_text(seconds) for seconds in (0.25, 10, 90, 300, 7200, 86400)] == [
        "250 ms",
        "10 s",
        "90 s",
        "5 min",
        "2 h",
        "1 d",
    ]
    assert [percent(share) for share in (0, 0.000001, 0.5, 0.12345, 0.999999, 1)] == [
        "0%",
        "< 0.01%",
        "50%",
        "12.35%",
        "> 99.99%",
        "100%",
    ]
