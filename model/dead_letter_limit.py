"""The limit of bad records before a job fails: the option ``max_dead_letters``, applied to each operator.

Pure: counts in, a verdict out. The runner of the job counts and calls it.
"""

import re
from dataclasses import dataclass
from typing import Any

from penstock.model.errors import OptionError

FIRST_ROWS = 1_000
"""Rows an operator must have taken in before a share of them means something, unless its input ends before."""

STRETCH_ROWS = 10_000
"""Rows of an operator after which a share is taken of the rows since then, and a new stretch begins."""

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class DeadLetterLimit:
    """The limit of rejected records in one operator: at most ``count``, at most this ``share``, and not ``all``.

    ``share`` lies between 0 and 1. ``all``: the job fails when each of the first `FIRST_ROWS` rows was rejected, or
    each of a shorter input; it is what holds by default, and alone. Without any of the three there is no limit.
    """

    count: int | None = None
    share: float | None = None
    all: bool = False

    def __str__(self) -> str:
        """Return the option's value as the user would write it."""
        if self.share is not None:
            return f"{self.share:.6%}".rstrip("%").rstrip("0").rstrip(".") + "%"
        return "any" if self.count is None else f"{self.count:,}"


DEFAULT_LIMIT = DeadLetterLimit(all=True)
NO_LIMIT = DeadLetterLimit()


@dataclass(slots=True)
class RejectedRows:
    """Rows one operator has taken in and rejected since the job was started, and those of them before this stretch."""

    rows: int = 0
    rejected: int = 0
    rows_before: int = 0
    rejected_before: int = 0

    def excess(self, limit: DeadLetterLimit, *, ended: bool, handled: bool = False) -> str | None:
        """Return a phrase that says how the limit is exceeded; None if it is not. A full stretch ends with the call.

        ``ended``: no row will follow. ``handled``: a stream reads what is rejected, so that all may be by default.
        """
        if not self.rejected:
            return None
        if limit.count is not None and self.rejected > limit.count:
            return f"{self.rejected:,} of its {self.rows:,} records are bad"
        if not (ended or self.rows >= FIRST_ROWS):
            return None
        if limit.all and not handled and self.rejected >= self.rows:
            return f"every record it took in is bad, {self.rejected:,} so far"
        if limit.share is None:
            return None
        if self.rejected > limit.share * self.rows:
            return f"{self.rejected:,} of its {self.rows:,} records are bad"
        rows, rejected = self.rows - self.rows_before, self.rejected - self.rejected_before
        if rows < STRETCH_ROWS:
            return None
        self.rows_before, self.rejected_before = self.rows, self.rejected
        return f"{rejected:,} of its last {rows:,} records are bad" if rejected > limit.share * rows else None


def dead_letter_limit(value: Any) -> DeadLetterLimit:
    """Return the limit that ``max_dead_letters=value`` means: a count, a share or none.

    Raises:
        OptionError: it is none of them; the message says what may stand there.
    """
    if isinstance(value, DeadLetterLimit):
        return value
    if value is None or value == "any":
        return NO_LIMIT
    number = _number(value) if isinstance(value, str) else value
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return DeadLetterLimit(count=number)
    if isinstance(number, float) and 0 <= number <= 1:
        return DeadLetterLimit(share=number)
    raise OptionError(
        f'max_dead_letters is a count such as 100, a share such as "5%" or 0.05, or "any", not {value!r}; without it a '
        f"job fails when all of the first {FIRST_ROWS:,} rows of an operator do"
    )


def _number(text: str) -> int | float | None:
    """Return a share or a count from its text, None if it is neither."""
    if matched := _SHARE.fullmatch(text.strip()):
        return float(matched[1]) / 100
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None
