"""The result of a validation. Pure; `validate` makes one, `validation_json` keeps it, the reports show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from penstock.model.errors import BugError
from penstock.replay.grades import QueryGrade, below_minimum

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


class ComparisonStatus(StrEnum):
    """The outcome of a comparison. ``estimated``: what differs are estimates of a stream that was to shed rows."""

    SAME = "same"
    ESTIMATED = "estimated"
    DIFFERS = "differs"
    BELOW_MINIMUM = "below minimum"
    NOT_COMPARED = "not compared"

    @property
    def passes(self) -> bool:
        """True if the stream was as right as it was to be."""
        return self in (ComparisonStatus.SAME, ComparisonStatus.ESTIMATED)


class DifferenceKind(StrEnum):
    """The fault of a row: the stream lacks it, should not have it, or has other values at its key."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The replayed part of a source: of each partition from offset ``start`` up to, not including, ``stop``.

    ``topic`` and offsets are None of a source that is no topic; ``rows`` None: not counted. ``left_out`` are so many
    offsets in between that a log said were not kept; None: no log was about the topic.
    """

    source: str
    topic: str | None = None
    start: Mapping[int, int] | None = None
    stop: Mapping[int, int] | None = None
    rows: int | None = None
    left_out: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The accuracy that an answer was to have, and that it has, in source rows.

    ``rows_expected`` went into the exact answer and ``rows_used`` of them into the stream's; None: nothing was shed, so
    nothing was counted. ``promised_accuracy`` is in [0, 1]. ``biased``: the stream said that its estimate has a bias.
    """

    rows_expected: int | None = None
    rows_used: int | None = None
    promised_accuracy: float = 1.0
    biased: bool | None = None

    @property
    def true_accuracy(self) -> float | None:
        """``rows_used / rows_expected`` in [0, 1]; None where that was not counted or nothing was expected."""
        if self.rows_used is None or not self.rows_expected:
            return None
        return self.rows_used / self.rows_expected

    @property
    def short(self) -> bool:
        """True if it is known to be less accurate than promised."""
        return self.true_accuracy is not None and self.true_accuracy < self.promised_accuracy

    @property
    def below_minimum(self) -> bool:
        """True if it is known to be less accurate than promised by more than chance."""
        if self.rows_used is None or not self.rows_expected:
            return False
        return below_minimum(self.rows_used, self.rows_expected, self.promised_accuracy)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowResult(Accuracy):
    """Rows of one window; both times None: rows without a window. ``different`` pairs one row of each side.

    ``estimated``, ``vanished`` and ``emerged`` are as in `grades.Shedding`; no row counts twice. Of its estimates'
    ``intervals`` so many are ``intervals_covered``; ``mean_error`` is the mean relative error of its estimates.
    """

    window_start: datetime | None
    window_end: datetime | None
    rows_exact: int
    rows_stream: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    estimated: int = 0
    vanished: int = 0
    emerged: int = 0
    intervals: int = 0
    intervals_covered: int = 0
    mean_error: float | None = None

    @property
    def differs(self) -> bool:
        """True if its rows are not those of the exact answer."""
        return bool(self.missing or self.extra or self.different)

    @property
    def notable(self) -> bool:
        """True if it differs, or falls short of what was promised."""
        return self.differs or self.below_minimum


@dataclass(frozen=True, slots=True)
class Example:
    """A row that is missing, extra or different: what it is on the two sides, None where it is not there."""

    status: DifferenceKind
    key: Mapping[str, JsonValue]
    stream: Mapping[str, JsonValue] | None
    exact: Mapping[str, JsonValue] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionResult:
    """Rows that differ and were published to ``topic`` now, not before; ``why``: why nothing can be.

    ``messages`` stand for the rows that were ``missing``, ``extra`` or ``different``; one may need two. Not corrected
    were rows that differ in windows that are still open (``open``), and estimates that are as exact as their query
    wants (``left``).
    """

    topic: str
    missing: int = 0
    extra: int = 0
    different: int = 0
    messages: int = 0
    open: int = 0
    left: int = 0
    why: str | None = None

    @property
    def rows(self) -> int:
        """The number of rows that were corrected."""
        return self.missing + self.extra + self.different


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryValidation(Accuracy):
    """The comparison of what the stream wrote to one sink with the exact rows.

    ``why`` says why it was not compared, None: it was. ``mode`` is append, changelog or upsert; ``keys`` are the
    columns by which rows are the same row (none: whole rows are compared). ``windows`` ascend in time; where
    ``windows_left_out`` more are not listed, those that differ are listed first.
    ``estimated``, ``vanished`` and ``emerged`` are as in `grades.Shedding`, and ``grade`` is that of the estimates,
    None if nothing was shed. ``open`` results were still to come at the checkpoint and are no rows here; ``notes`` say
    what else is to be known, in a sentence each. ``correction`` is None if none was asked for, or there is nothing to
    correct by.

    Raises:
        BugError: the counts of a compared query do not add up: rows that are not missing on one side and not extra on
            the other are the same rows.
    """

    query: str
    mode: str
    keys: Sequence[str] = ()
    why: str | None = None
    rows_exact: int = 0
    rows_stream: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    estimated: int = 0
    vanished: int = 0
    emerged: int = 0
    queued: int | None = None
    grade: QueryGrade | None = None
    windows: Sequence[WindowResult] = ()
    windows_left_out: int = 0
    examples: Sequence[Example] = ()
    open: int = 0
    notes: Sequence[str] = ()
    correction: CorrectionResult | None = None

    def __post_init__(self) -> None:
        paired = self.rows_exact - self.missing - self.vanished
        unlike = self.different + self.estimated
        if self.why is None and (paired != self.rows_stream - self.extra - self.emerged or paired < unlike):
            raise BugError(
                f"query {self.query!r}: {self.rows_exact} exact rows of which {self.missing + self.vanished} are "
                f"missing and {self.rows_stream} stream rows of which {self.extra + self.emerged} are extra do not "
                f"leave the same rows, or fewer than the {unlike} that are different"
            )

    @property
    def same(self) -> int:
        """Rows that both sides have alike."""
        unlike = self.missing + self.vanished + self.different + self.estimated
        return self.rows_exact - unlike if self.why is None else 0

    @property
    def too_inaccurate(self) -> int:
        """The number of listed windows that are below the minimum by more than chance."""
        return sum(window.below_minimum for window in self.windows)

    @property
    def status(self) -> ComparisonStatus:
        """The outcome of the comparison."""
        if self.why is not None:
            return ComparisonStatus.NOT_COMPARED
        if self.missing or self.extra or self.different:
            return ComparisonStatus.DIFFERS
        if self.too_inaccurate:
            return ComparisonStatus.BELOW_MINIMUM
        return ComparisonStatus.SAME if self.grade is None else ComparisonStatus.ESTIMATED


@dataclass(frozen=True, slots=True)
class Validation:
    """A validation of one job; ``created`` has a zone, ``penstock`` and ``spark`` are versions.

    ``kept`` is the log that said what a stream has kept, None if all was to be replayed.
    """

    job: str
    created: datetime
    penstock: str
    spark: str
    sources: Sequence[SourceRange]
    queries: Sequence[QueryValidation]
    kept: str | None = None

    @property
    def left_out(self) -> int:
        """The number of offsets that the log left out, of all sources together."""
        return sum(source.left_out or 0 for source in self.sources)

    @property
    def status(self) -> ComparisonStatus:
        """The worst outcome of a query that was compared; ``not compared`` if none was."""
        statuses = {query.status for query in self.queries}
        for status in (
            ComparisonStatus.DIFFERS,
            ComparisonStatus.BELOW_MINIMUM,
            ComparisonStatus.ESTIMATED,
            ComparisonStatus.SAME,
        ):
            if status in statuses:
                return status
        return ComparisonStatus.NOT_COMPARED
