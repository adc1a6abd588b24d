"""Sources of a region that may read: those that no other is behind in event time. Called by `Instance` and the loop."""

from collections.abc import Sequence
from heapq import heappop, heappush

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.dataflow.headway import Headway
from penstock.engine.dataflow.source_head import SourceHead


class SourceAlignment:
    """Keeps the sources of a region that have an event time together: only the one furthest behind may read.

    What counts is where the last read of each began. A source of few rows, whose batches take long in event time, so
    stays ahead of one of many, whose rows then need not wait for it in a join.

    Of sources in other task managers it hears now and then which progress is the least. A source here may be ahead of
    that by as far as it came lately, for that is where it will be by now; until it was followed for long enough, by as
    far as the sources here came.
    """

    def __init__(self) -> None:
        """Start without sources."""
        self._heads: list[SourceHead] = []
        self._numbers: dict[int, int] = {}
        self._known_us: list[int] = []
        # (progress, number), the least first; entries that no longer say what is known are passed over.
        self._least: list[tuple[int, int]] = []
        self._limit_us = END_OF_TIME_US
        self._here, self._elsewhere = Headway(), Headway()
        self._asked_ns = 0

    def add(self, head: SourceHead) -> None:
        """Take a source instance of the region in."""
        if head.ordered:
            number = self._numbers[id(head)] = len(self._heads)
            self._heads.append(head)
            self._known_us.append(_progress_us(head))
            heappush(self._least, (self._known_us[number], number))

    def may_read(self, head: SourceHead) -> bool:
        """Return whether no other source was behind this one when each was last settled, or heard of.

        One that is idle or at its end is behind nobody.
        """
        number = self._numbers.get(id(head))
        if number is None or self._known_us[number] == END_OF_TIME_US:
            return True
        return self._known_us[number] <= self._furthest_behind_us() and self._known_us[number] <= self._limit_us

    def least_us(self, now_ns: int) -> int | None:
        """Return the progress that others may have to wait for: the least here, the end of time if none holds them.

        None: no source here takes part. To be asked for at each report; ``now_ns`` is monotonic.
        """
        if not self._heads:
            return None
        least_us = self._furthest_behind_us()
        self._here.follow(least_us, now_ns)
        self._asked_ns = now_ns
        return least_us

    def hear(self, elsewhere_us: int, now_ns: int) -> Sequence[SourceHead]:
        """Take in the least progress in other task managers, the end of time if nobody there holds others.

        Returns:
            The sources of which it may have changed whether they may read.
        """
        self._elsewhere.follow(elsewhere_us, now_ns)
        before_us, self._limit_us = self._limit_us, self._limit_of(elsewhere_us)
        least_us = self._furthest_behind_us()
        if least_us == END_OF_TIME_US or (least_us <= before_us) == (least_us <= self._limit_us):
            return ()
        return self._at(least_us)

    def settle(self, head: SourceHead) -> Sequence[SourceHead]:
        """Take in how far a source has come; return those of which it may have changed whether they may read."""
        number = self._numbers.get(id(head))
        if number is None:
            return ()
        progress_us = _progress_us(head)
        if progress_us == self._known_us[number]:
            return ()
        if self._known_us[number] == START_OF_TIME_US:
            # How far it comes before it is asked for again counts from here.
            self._here.follow(progress_us, self._asked_ns)
        before_us = self._furthest_behind_us()
        self._known_us[number] = progress_us
        heappush(self._least, (progress_us, number))
        least_us = self._furthest_behind_us()
        if least_us == before_us:
            return ()
        if least_us < before_us:
            return self._heads
        return self._at(least_us)

    def _at(self, least_us: int) -> Sequence[SourceHead]:
        """Return the sources that are the furthest behind."""
        numbers = set()
        while self._least and self._furthest_behind_us() == least_us:
            numbers.add(heappop(self._least)[1])
        for number in numbers:
            heappush(self._least, (least_us, number))
        return [self._heads[number] for number in sorted(numbers)]

    def _limit_of(self, elsewhere_us: int) -> int:
        """Return the greatest progress from which a source here may read on."""
        if elsewhere_us in (START_OF_TIME_US, END_OF_TIME_US):
            return elsewhere_us
        expected_us = self._elsewhere.covered_us
        if not self._elsewhere.is_whole:
            expected_us = max(expected_us, self._here.covered_us)
        return elsewhere_us + expected_us

    def _furthest_behind_us(self) -> int:
        while self._least and self._known_us[self._least[0][1]] != self._least[0][0]:
            heappop(self._least)
        return self._least[0][0] if self._least else END_OF_TIME_US


def _progress_us(head: SourceHead) -> int:
    return END_OF_TIME_US if head.ended else head.progress_us
