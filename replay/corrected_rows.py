"""Which rows that differ are corrected now: those that wait for it, of windows that nothing is added to any more.

The rows of a stream say themselves which of them wait (decision 118). A correction of a window that is over at the
checkpoint is the last word on it, since the job writes no further row of that (decision 119). Called by `correction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.model.max_error import MaxError
from penstock.replay.checkpoint_progress import micros_literal
from penstock.replay.comparison import DIFFERENT, EXACT, STATUS, STREAM
from penstock.replay.spark_types import quoted_name
from penstock.replay.written_columns import ACCURACY

CHOICE = "$choice"
"""The column of `chosen`."""

CORRECTED, OPEN, LEFT = "corrected", "open", "left"
"""What becomes of a row that differs: it is corrected now, its window is still open, or it is as exact as is wanted."""


@dataclass(frozen=True, slots=True)
class CorrectionRule:
    """Which rows of a sink are corrected.

    ``window_end`` is the column with the ends of windows, and those up to ``final_us`` are over; None: nothing follows
    any row. ``queued``: estimates are corrected only where one of the ``intervals`` is wider than this error.
    """

    window_end: str | None = None
    final_us: int | None = None
    queued: MaxError | None = None
    intervals: Sequence[str] = ()


def chosen(differing: DataFrame, rule: CorrectionRule) -> DataFrame:
    """Return rows that differ, as `comparison.differences` has them, with their `CHOICE`."""
    choice = f.lit(CORRECTED)
    if rule.queued is not None:
        stream = f.col(STREAM)
        is_good = (f.col(STATUS) == DIFFERENT) & (stream[ACCURACY] < 1.0) & ~_too_wide(stream, rule)
        choice = f.when(f.coalesce(is_good, f.lit(False)), LEFT).otherwise(choice)
    if rule.window_end is not None and rule.final_us is not None:
        end = f.coalesce(f.col(EXACT)[rule.window_end], f.col(STREAM)[rule.window_end])
        is_open = f.unix_micros(end.cast("timestamp_ntz").cast("timestamp")) > f.expr(micros_literal(rule.final_us))
        choice = f.when(f.coalesce(is_open, f.lit(False)), OPEN).otherwise(choice)
    return differing.withColumn(CHOICE, choice)


def queued_rows(stream: DataFrame, rule: CorrectionRule) -> DataFrame:
    """Return the rows of a stream that wait to be corrected, as they say themselves."""
    row = f.struct(*(f.col(quoted_name(name)) for name in stream.columns))
    return stream.where((f.col(ACCURACY) < 1.0) & _too_wide(row, rule))


def _too_wide(row: Column, rule: CorrectionRule) -> Column:
    """Return whether half of an interval of a row is wider than the error by its value, or not there."""
    assert rule.queued is not None
    error = rule.queued.error

    def is_wide(name: str) -> Column:
        value, low, high = (row[each].cast("double") for each in (name, f"{name}_low", f"{name}_high"))
        half = (high - low) / 2
        ratio = f.when(half == 0, f.lit(0.0)).otherwise(half / f.nullif(f.abs(value), f.lit(0.0)))
        return f.coalesce(ratio, f.lit(float("inf"))) > error

    return reduce(lambda one, other: one | other, map(is_wide, rule.intervals), f.lit(False))
