"""Rows on their way through `map_async`, between the call and the answer, and in which order they leave."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.engine.core.elements import Batch


@dataclass(slots=True, eq=False)
class Call:
    """One row and what its call came to.

    ``row`` is its id in the log, ``batch`` the one it came in. ``error`` is why there is no result.
    """

    row: int
    batch: Batch
    arguments: Sequence[Any]
    attempts: int = 0
    deadline_ns: int = 0
    answered: bool = False
    result: Any = None
    error: str | None = None
    stretch: "_Stretch | None" = None


class Line(Protocol):
    """Calls and watermarks in the order of the stream; neither leaves before what no answer may overtake."""

    def add(self, calls: Sequence[Call]) -> None:
        """Append calls, answered or not."""

    def mark(self, time_us: int) -> None:
        """Append a watermark."""

    def answered(self, call: Call) -> None:
        """Take note that a call, not answered when it was added, is answered now."""

    def leave(self, limit: int) -> list[Call]:
        """Take answered calls that may leave now, at most ``limit``, all of one ``keep``; none: a watermark is first,
        or an answer is awaited.
        """

    def passed(self) -> int | None:
        """Take the watermarks that are first now and return the last of them, None if a call is first."""

    def can_leave(self) -> bool:
        """Return whether a call or watermark may leave."""

    def __bool__(self) -> bool:
        """Return whether anything is in the line."""


class OrderedLine:
    """Calls leave in the order in which they were added."""

    def __init__(self) -> None:
        self._items: deque[Call | int] = deque()

    def add(self, calls: Sequence[Call]) -> None:
        """Append calls."""
        self._items.extend(calls)

    def mark(self, time_us: int) -> None:
        """Append a watermark."""
        self._items.append(time_us)

    def answered(self, call: Call) -> None:
        """Nothing to note: the line asks the call itself."""

    def leave(self, limit: int) -> list[Call]:
        """Take the answered calls in front."""
        items = self._items
        taken: list[Call] = []
        while items and len(taken) < limit:
            first = items[0]
            if isinstance(first, int) or not first.answered or not _alike(taken, first):
                break
            taken.append(first)
            items.popleft()
        return taken

    def passed(self) -> int | None:
        """Take the watermarks in front."""
        time_us = None
        while self._items and isinstance(self._items[0], int):
            time_us = self._items[0]
            self._items.popleft()
        return time_us

    def can_leave(self) -> bool:
        """Return whether a call or watermark may leave."""
        return bool(self._items) and (isinstance(self._items[0], int) or self._items[0].answered)

    def __bool__(self) -> bool:
        return bool(self._items)


@dataclass(slots=True, eq=False)
class _Stretch:
    """The calls between two watermarks: how many are left, those answered, the watermark behind them if it is there."""

    left: int
    ready: deque[Call]
    mark_us: int | None = None


class UnorderedLine:
    """Calls leave as they are answered, but no call leaves before a watermark in front of it."""

    def __init__(self) -> None:
        self._stretches = deque([_Stretch(0, deque())])

    def add(self, calls: Sequence[Call]) -> None:
        """Append calls."""
        last = self._stretches[-1]
        last.left += len(calls)
        for call in calls:
            call.stretch = last
            if call.answered:
                last.ready.append(call)

    def mark(self, time_us: int) -> None:
        """Append a watermark."""
        self._stretches[-1].mark_us = time_us
        self._stretches.append(_Stretch(0, deque()))

    def answered(self, call: Call) -> None:
        """Let a call leave as soon as the watermarks in front of it have left."""
        assert call.stretch is not None
        call.stretch.ready.append(call)

    def leave(self, limit: int) -> list[Call]:
        """Take the answered calls before the next watermark."""
        first = self._stretches[0]
        taken: list[Call] = []
        while first.ready and len(taken) < limit and _alike(taken, first.ready[0]):
            taken.append(first.ready.popleft())
        first.left -= len(taken)
        return taken

    def passed(self) -> int | None:
        """Take the watermarks in front."""
        time_us = None
        while self._stretches[0].left == 0 and self._stretches[0].mark_us is not None:
            time_us = self._stretches.popleft().mark_us
        return time_us

    def can_leave(self) -> bool:
        """Return whether a call or watermark may leave."""
        first = self._stretches[0]
        return bool(first.ready) or (first.left == 0 and first.mark_us is not None)

    def __bool__(self) -> bool:
        return len(self._stretches) > 1 or self._stretches[0].left > 0


def _alike(taken: list[Call], call: Call) -> bool:
    """Return whether a call's row may leave in one batch with those taken."""
    if not taken:
        return True
    first, batch = taken[0].batch, call.batch
    return (first.keep, first.keys) == (batch.keep, batch.keys)
