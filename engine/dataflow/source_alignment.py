"""Sources of a region that may read: those that no other is behind in event time. Called by `Instance` and the loop."""

from collections.abc import Sequence
from heapq import heappop, heappush

from penstock.engine.core.elements import END_OF_TIME_US
from penstock.engine.dataflow.source_head import SourceHead


class SourceAlignment:
    """Keeps the sources of a region that have an event time together: only the one furthest behind may read.

    What counts is where the last read of each began. A source of few rows, whose batches take long in event time, so
    stays ahead of one of many, whose rows then need not wait for it in a join.
    """

    def __init__(self) -> None:
        """Start without sources."""
        self._heads: list[SourceHead] = []
        self._numbers: dict[int, int] = {}
        self._known_us: list[int] = []
        # (progress, number), the least first; entries that no longer say what is known are passed over.
        self._least: list[tuple[int, int]] = []

    def add(self, head: SourceHead) -> None:
        """Take a source instance of the region in."""
        if head.ordered:
            number = self._numbers[id(head)] = len(self._heads)
            self._heads.append(head)
            self._known_us.append(_progress_us(head))
            heappush(self._least, (self._known_us[number], number))

    def may_read(self, head: SourceHead) -> bool:
        """Return whether no other source was behind this one when each was last settled.

        One that is idle or at its end is behind nobody.
        """
        number = self._numbers.get(id(head))
        if number is None or self._known_us[number] == END_OF_TIME_US:
            return True
        return self._known_us[number] <= self._least_us()

    def settle(self, head: SourceHead) -> Sequence[SourceHead]:
        """Take in how far a source has come; return those of which it may have changed whether they may read."""
        number = self._numbers.get(id(head))
        if number is None:
            return ()
        progress_us = _progress_us(head)
        if progress_us == self._known_us[number]:
            return ()
        before_us = self._least_us()
        self._known_us[number] = progress_us
        heappush(self._least, (progress_us, number))
        least_us = self._least_us()
        if least_us == before_us:
            return ()
        if least_us < before_us:
            return self._heads
        return self._at(least_us)

    def _at(self, least_us: int) -> Sequence[SourceHead]:
        """Return the sources that are the furthest behind."""
        numbers = set()
        while self._least and self._least_us() == least_us:
            numbers.add(heappop(self._least)[1])
        for number in numbers:
            heappush(self._least, (least_us, number))
        return [self._heads[number] for number in sorted(numbers)]

    def _least_us(self) -> int:
        while self._least and self._known_us[self._least[0][1]] != self._least[0][0]:
            heappop(self._least)
        return self._least[0][0] if self._least else END_OF_TIME_US


def _progress_us(head: SourceHead) -> int:
    return END_OF_TIME_US if head.ended else head.progress_us
