"""What a trial under a supervisor measures, and the messages it feeds and expects."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from penstock.chaos.compared_outputs import Rows

KEYS = 7
WINDOW_S = 20
STEP_MS = 50
"""Event time from one message to the next."""

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Round:
    """One round: which fault, how it ended (``ran on``, ``ended``), after how long, and what was said last.

    ``wrong`` says what broke the promise, empty if it was kept.
    """

    fault: str
    outcome: str
    seconds: float
    said: str = ""
    wrong: str = ""


@dataclass(slots=True)
class TrialReport:
    """All rounds, and how the output compares with the oracle's."""

    rounds: list[Round] = field(default_factory=list)
    rows: int = 0
    lost: int = 0
    duplicated: int = 0

    @property
    def kept(self) -> bool:
        """Whether every round kept the promise and every row is there once."""
        return not (self.lost or self.duplicated or any(one.wrong for one in self.rounds))


def messages(first: int, end: int) -> list[dict[str, int | datetime]]:
    """Return the numbered messages from ``first`` up to ``end``, event times in their order."""
    return [
        {"id": number, "key": number % KEYS, "value": number * 31 % 101, "at": event_time(number)}
        for number in range(first, end)
    ]


def event_time(number: int) -> datetime:
    """Return when a message says that it happened."""
    return _BEGIN + timedelta(milliseconds=number * STEP_MS)


def expected_rows(numbers: Sequence[int]) -> Rows:
    """Return the rows of all windows of these messages, computed message by message."""
    counts: Counter[tuple[int, int]] = Counter()
    totals: Counter[tuple[int, int]] = Counter()
    for number in numbers:
        place = number % KEYS, number * STEP_MS // (WINDOW_S * 1_000)
        counts[place] += 1
        totals[place] += number * 31 % 101
    return Counter(
        json.dumps([key, start, count, totals[key, start]]).encode() for (key, start), count in counts.items()
    )


def written_rows(values: Sequence[bytes]) -> Rows:
    """Return messages that the pipeline wrote, as `expected_rows` has them."""
    rows: Rows = Counter()
    for value in values:
        row = json.loads(value)
        start = datetime.fromisoformat(row["window_start"]).replace(tzinfo=UTC) - _BEGIN
        rows[
            json.dumps([row["key"], int(start.total_seconds()) // WINDOW_S, row["numbers"], row["total"]]).encode()
        ] += 1
    return rows
