"""The grade of estimates: how far they were from exact values, and how often an interval held one. Pure.

`grading` makes them, `validation_json` keeps them, the reports show them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

STANDARD_ERRORS = 3.0


class Shedding(StrEnum):
    """The reason why a row differs that is no fault: rows were shed for it."""

    ESTIMATED = "estimated"
    """Both sides have it, the stream with estimates."""
    VANISHED = "vanished"
    """The stream lacks it: none of its rows was kept, or its estimates did not pass a filter."""
    EMERGED = "emerged"
    """The exact answer lacks it: the stream's estimates passed a filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedRow:
    """One number of one result for which rows were shed.

    ``key`` tells the groups of a window apart. ``rows_expected`` source rows went into the exact value, ``rows_used``
    of them into the estimate, both None where no log counts them; ``true_accuracy`` is the one by the other,
    ``accuracy`` what the stream says of it and ``promised_accuracy`` the minimum of the contract, all in [0, 1].
    ``exact`` and ``estimate`` are None where that side has no such row; ``low`` and ``high`` are the ends of the 95%
    interval, ``covered`` whether it holds the exact value, all three None where the stream gives none; of a result that
    ``vanished`` nothing is covered.
    """

    key: Mapping[str, bool | int | float | str | None]
    window_start: datetime | None
    window_end: datetime | None
    aggregate: str
    rows_expected: int | None
    rows_used: int | None
    promised_accuracy: float
    true_accuracy: float | None
    accuracy: float | None
    exact: float | None
    estimate: float | None
    low: float | None
    high: float | None
    certified: bool | None
    covered: bool | None
    biased: bool | None
    vanished: bool

    FIGURES: ClassVar[tuple[str, ...]] = (
        *("aggregate", "rows_expected", "rows_used", "promised_accuracy", "true_accuracy", "accuracy"),
        *("exact", "estimate", "low", "high", "certified", "covered", "biased", "vanished"),
    )
    """The fields that are columns of `grading.graded_rows` as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateGrade:
    """The grade of one column over all results for which rows were shed.

    Of ``rows`` results ``vanished`` are not there and ``biased`` are no estimates for all rows. Of ``intervals`` so
    many ``covered`` the exact value; those of results that vanished do not. ``mean_error`` is the mean of
    |estimate - exact| / |exact|; ``bias`` the sum of the errors in its standard errors; ``accuracy_error`` the mean of
    what stated and true accuracies were apart, None where nothing counted.
    """

    aggregate: str
    rows: int
    vanished: int = 0
    biased: int = 0
    intervals: int = 0
    covered: int = 0
    mean_error: float | None = None
    bias: float | None = None
    accuracy_error: float | None = None

    @property
    def coverage(self) -> float | None:
        """``covered / intervals``, None without intervals."""
        return self.covered / self.intervals if self.intervals else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryGrade:
    """The grade of a query: of each of its columns, and results of one group along time, for pictures.

    ``counted`` says that a log counted the source rows; ``files`` is the folder of Parquet with a row for each result
    and column, None if none was to be written.
    """

    aggregates: Sequence[AggregateGrade] = ()
    drawn: Sequence[GradedRow] = ()
    counted: bool = False
    files: str | None = None


def below_minimum(rows_used: int, rows_expected: int, minimum: float) -> bool:
    """Return whether a window used fewer of its rows than chance explains if each was kept at the minimum or above.

    That is below minimum - 3 sqrt(p (1 - p) / N) of N rows, where p is the minimum.
    """
    if not rows_expected:
        return False
    spread = STANDARD_ERRORS * math.sqrt(minimum * (1.0 - minimum) / rows_expected)
    return rows_used / rows_expected < minimum - spread
