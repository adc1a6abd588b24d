"""Validations to show."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.replay.validation_result import (
    DifferenceKind,
    Example,
    QueryValidation,
    SourceRange,
    Validation,
    WindowResult,
)

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
COUNTS = ("rows_exact", "rows_stream", "missing", "extra", "different")


def a_window(
    number: int, rows: int = 100, missing: int = 0, extra: int = 0, different: int = 0, **more: Any
) -> WindowResult:
    start = START + timedelta(seconds=10 * number)
    return WindowResult(
        window_start=start,
        window_end=start + timedelta(seconds=10),
        rows_exact=rows,
        rows_stream=rows - missing + extra,
        missing=missing,
        extra=extra,
        different=different,
        **more,
    )


def a_query(windows: Sequence[WindowResult], name: str = "hot", **more: Any) -> QueryValidation:
    counts = {count: sum(getattr(window, count) for window in windows) for count in COUNTS}
    return QueryValidation(query=name, mode="append", windows=windows, **counts, **{"keys": ("id",), **more})


def validation(*queries: QueryValidation, job: str = "auctions", **more: Any) -> Validation:
    sources = (SourceRange("bids", "bids", {0: 1200, 1: 0}, {0: 5200, 1: 4100}, 8100),)
    return Validation(job, START, "0.1.0", "4.3.0", **{"sources": sources, **more}, queries=queries)


SAME = a_query([a_window(number) for number in range(12)], "calm")
DIFFERS = a_query(
    [
        a_window(number, 1000 + number, missing=7 * (number == 3), extra=5 * (number == 8), different=number == 3)
        for number in range(12)
    ],
    examples=[
        Example(
            DifferenceKind.DIFFERENT, {"id": 1}, {"id": 1, "n": 41, "who": "ana"}, {"id": 1, "n": 42, "who": "ana"}
        ),
        Example(DifferenceKind.MISSING, {"id": 2}, None, {"id": 2, "n": 3, "who": None}),
        Example(DifferenceKind.EXTRA, {"id": 3}, {"id": 3, "n": 4, "who": ""}, None),
    ],
)
SKIPPED = QueryValidation(query="alerts", mode="changelog", why="its timers are of processing time")
