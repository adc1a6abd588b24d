"""Rows counted by window on both sides of a comparison, and what is kept of the windows. Called by `validation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.replay.comparison import DIFFERENT, EXACT, EXTRA, MISSING, STATUS, STREAM
from penstock.replay.grades import STANDARD_ERRORS, Shedding
from penstock.replay.grading import Quality
from penstock.replay.output_keys import OutputKeys
from penstock.replay.sample_columns import EXPECTED, USED
from penstock.replay.spark_types import quoted_name
from penstock.replay.validation_result import WindowResult
from penstock.replay.written_columns import BIASED

MOST_WINDOWS = 10_000
BUCKETS = 60
"""Into about how many stretches of time rows without windows are counted."""

KINDS = (MISSING, EXTRA, DIFFERENT, *map(str, Shedding))
COUNTED = ("rows_exact", "rows_stream", *KINDS)
_USED = ("rows_expected", "rows_used", "biased")
_GRADED = ("intervals", "intervals_covered", "errors", "error")
SUMMED = (*COUNTED, *_USED, *_GRADED)
"""Columns of counts: rows, source rows and rows that are biased, and of graded results intervals and errors."""

_START, _END = "$start", "$end"


@dataclass(frozen=True, slots=True)
class Stretch:
    """The stretch of time that a row counts to: from one column to another, or so many ``seconds`` around one.

    Without any column there is none.
    """

    start: str | None = None
    end: str | None = None
    seconds: int = 0


def stretch_of(keys: OutputKeys, exact: DataFrame, stream: DataFrame) -> Stretch:
    """Return a row's window, or for rows without one the stretch of time that its event time lies in."""
    if keys.window_start is not None and keys.window_end is not None:
        return Stretch(keys.window_start, keys.window_end)
    if keys.time is None:
        return Stretch()
    time = f.col(quoted_name(keys.time)).cast("timestamp_ntz")
    ends = exact.select(time.alias(_START)).union(stream.select(time.alias(_START)))
    low, high = ends.agg(f.min(_START), f.max(_START)).collect()[0]
    if low is None:
        return Stretch()
    seconds = max(1, -(-int((high - low).total_seconds() + 1) // BUCKETS))
    return Stretch(keys.time, seconds=seconds)


def counts_by_window(
    stream: DataFrame, exact: DataFrame, differing: DataFrame, window: Stretch, quality: Quality | None
) -> DataFrame:
    """Return the columns of `SUMMED` for each window, whose bounds are in two columns besides."""
    row = f.coalesce(f.col(EXACT), f.col(STREAM))
    count = f.count("*")
    sides = [
        _summed(exact, window, None, {"rows_exact": count}),
        _summed(stream, window, None, {"rows_stream": count}),
        *(_summed(differing.where(f.col(STATUS) == kind), window, row, {kind: count}) for kind in KINDS),
    ]
    if quality is not None:
        used = {"rows_expected": f.sum(EXPECTED), "rows_used": f.sum(USED)}
        sides += [
            _summed(quality.exact, window, None, used),
            _summed(quality.stream, window, None, {"biased": f.count_if(f.col(BIASED))}),
        ]
    return _together(sides)


def with_grades(counts: DataFrame, graded: DataFrame, window: Stretch) -> DataFrame:
    """Return counts by window with those of graded results added."""
    error = f.abs(f.col("estimate") - f.col("exact")) / f.abs(f.col("exact"))
    known = f.col("estimate").isNotNull() & (f.col("exact") != 0)
    found = {
        "intervals": f.count("covered"),
        "intervals_covered": f.count_if(f.col("covered")),
        "errors": f.count_if(known),
        "error": f.sum(f.when(known, error)),
    }
    return _together([counts, _summed(graded, window, None, found)])


def _together(sides: Sequence[DataFrame]) -> DataFrame:
    union = reduce(lambda one, other: one.unionByName(other), sides)
    return union.groupBy(_START, _END).agg(*(f.sum(name).alias(name) for name in SUMMED))


def totals_of(counts: DataFrame) -> dict[str, Any]:
    """Return the columns of `SUMMED` of all windows."""
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in SUMMED]
    found: dict[str, Any] = counts.agg(*sums).collect()[0].asDict()
    return found


def window_results(
    counts: DataFrame, promised: float, *, counted: bool, graded: bool
) -> tuple[list[WindowResult], int]:
    """Return windows in order of time, and how many are left out; those that differ are taken first.

    ``counted``: source rows were counted; ``graded``: rows were shed for the query.
    """
    differs = f.col(MISSING) + f.col(EXTRA) + f.col(DIFFERENT) > 0
    if counted:
        spread = f.sqrt(f.lit(promised * (1 - promised)) / f.col("rows_expected"))
        differs |= f.col("rows_used") / f.nullif(f.col("rows_expected"), f.lit(0)) < promised - STANDARD_ERRORS * spread
    listed = counts.orderBy(f.desc(f.coalesce(differs, f.lit(False))), _START, _END).limit(MOST_WINDOWS).collect()
    results = [_window(row.asDict(), promised, counted=counted, graded=graded) for row in listed]
    return sorted(results, key=_time_order), counts.count() - len(listed)


def _window(row: dict[str, Any], promised: float, *, counted: bool, graded: bool) -> WindowResult:
    window: dict[str, Any] = {name: int(row[name]) for name in COUNTED}
    if graded:
        window |= {"biased": bool(row["biased"])}
        window |= {name: int(row[name]) for name in ("intervals", "intervals_covered")}
        window |= {"mean_error": row["error"] / row["errors"] if row["errors"] else None}
    if counted:
        window |= {name: int(row[name]) for name in ("rows_expected", "rows_used")}
    return WindowResult(window_start=row[_START], window_end=row[_END], promised_accuracy=promised, **window)


def _summed(rows: DataFrame, window: Stretch, row: Column | None, sums: Mapping[str, Column]) -> DataFrame:
    """Return some of `SUMMED` in every window; the others are 0. ``row`` is the struct that has a row's columns."""

    def column(of: str) -> Column:
        return f.col(quoted_name(of)) if row is None else row[of]

    if window.start is None:
        start, end = (f.lit(None).cast("timestamp_ntz") for _ in range(2))
    elif window.end is None:
        at = f.unix_seconds(column(window.start).cast("timestamp_ntz").cast("timestamp"))
        first = f.floor(at / window.seconds) * window.seconds
        start, end = (f.timestamp_seconds(first + more).cast("timestamp_ntz") for more in (0, window.seconds))
    else:
        start, end = (column(of).cast("timestamp_ntz") for of in (window.start, window.end))
    found = rows.groupBy(start.alias(_START), end.alias(_END)).agg(*(sums[name].alias(name) for name in sums))
    columns = [f.coalesce(f.col(name), f.lit(0)) if name in sums else f.lit(0) for name in SUMMED]
    kinds = ["double" if name == "error" else "bigint" for name in SUMMED]
    cast = [item.cast(kind).alias(name) for item, kind, name in zip(columns, kinds, SUMMED, strict=True)]
    return found.select(_START, _END, *cast)


def _time_order(window: WindowResult) -> tuple[bool, datetime, bool, datetime]:
    start, end = window.window_start, window.window_end
    return start is not None, start or datetime.min, end is not None, end or datetime.min
