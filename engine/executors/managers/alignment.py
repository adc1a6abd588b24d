"""Sources of several task managers side by side in event time: each reports its least progress, the head relays.

Pure: messages and the time in, messages out. What a source may do then is for `SourceAlignment` to say.
"""

from collections.abc import Collection, Mapping, Sequence

from penstock.engine.core.elements import END_OF_TIME_US
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.executors.managers.messages import Progress, RegionProgress
from penstock.model.ids import TaskId

REPORT_NS = 100_000_000
"""How long a task manager's progress is left unsaid at most while it changes."""

FIRST_REPORT_NS = 10_000_000
"""How long at first: nobody is held before the first word, and all should be fast by the time that they are far."""


class ProgressReports:
    """The half of a task manager: it says what its sources come to, and hears what those of others do."""

    def __init__(self) -> None:
        """Begin without sources."""
        self._attempts: dict[TaskId, tuple[int, SourceAlignment]] = {}
        self._reported_us: dict[TaskId, int] = {}
        self._began_ns = 0
        self._due_ns: int | None = None

    @property
    def due_ns(self) -> int | None:
        """When to ask `report` again, by the monotonic clock; None: there are no sources."""
        return self._due_ns

    def begin(self, attempt: int, alignments: Mapping[TaskId, SourceAlignment], now_ns: int) -> None:
        """Take in the regions of an attempt that is about to run, in the place of what was there of them."""
        for region, alignment in alignments.items():
            self._reported_us.pop(region, None)
            self._attempts.pop(region, None)
            if alignment.least_us(now_ns) is not None:
                self._attempts[region] = attempt, alignment
        self._began_ns = now_ns
        self._due_ns = now_ns + FIRST_REPORT_NS if self._attempts else None

    def end(self, regions: Collection[TaskId]) -> None:
        """Leave out regions that are taken down."""
        for region in regions:
            self._attempts.pop(region, None)
            self._reported_us.pop(region, None)
        if not self._attempts:
            self._due_ns = None

    def report(self, now_ns: int) -> Progress | None:
        """Return what has changed since the last report, None: nothing, or it is not due."""
        if self._due_ns is None or now_ns < self._due_ns:
            return None
        # A source that is held to what others have covered since the beginning does not notice.
        self._due_ns = now_ns + min(REPORT_NS, max(FIRST_REPORT_NS, (now_ns - self._began_ns) // 2))
        changed = []
        for region, (attempt, alignment) in self._attempts.items():
            least_us = alignment.least_us(now_ns)
            if least_us is not None and least_us != self._reported_us.get(region):
                self._reported_us[region] = least_us
                changed.append(RegionProgress(region, attempt, least_us))
        return Progress(tuple(changed)) if changed else None

    def hear(self, progress: Progress, now_ns: int) -> Sequence[SourceHead]:
        """Take in what others have come to; return the sources of which it may have changed whether they may read.

        What is of another attempt of its region than runs here does not count.
        """
        changed: list[SourceHead] = []
        for item in progress.regions:
            attempt, alignment = self._attempts.get(TaskId(item.region), (None, None))
            if alignment is not None and attempt == item.attempt:
                changed += alignment.hear(item.least_us, now_ns)
        return changed

    def let_loose(self, now_ns: int) -> Sequence[SourceHead]:
        """Let nobody be held by sources of others, of which nothing more is heard; return those that may read now."""
        return [head for _, alignment in self._attempts.values() for head in alignment.hear(END_OF_TIME_US, now_ns)]

    def say_again(self, now_ns: int) -> None:
        """Let the next report, which is due now, say all: who hears it has not heard the ones before."""
        self._reported_us.clear()
        self._due_ns = now_ns if self._attempts else None


class _Region:
    """The progress in one attempt of a region, by task manager, and what each was told of the others."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.least_us: dict[str, int] = {}
        self.relayed_us: dict[str, int] = {}

    def news(self) -> dict[str, int]:
        """Return what task managers do not know yet of the others."""
        first_us, second_us = sorted([*self.least_us.values(), END_OF_TIME_US, END_OF_TIME_US])[:2]
        news = {}
        for manager, least_us in self.least_us.items():
            # Of several that are the least each is behind another.
            others_us = second_us if least_us == first_us else first_us
            if others_us != self.relayed_us.get(manager, END_OF_TIME_US):
                self.relayed_us[manager] = news[manager] = others_us
        return news


class ProgressRelay:
    """The half of the head: progress by task manager in, the least of the others out, to whom it is news.

    A task manager that has said nothing of a region holds nobody in it, nor does one that is lost.
    """

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._regions: dict[int, _Region] = {}

    def hear(self, manager: str, progress: Progress) -> dict[str, Progress]:
        """Take in a report; return what to send to whom. The first of a region's next attempt ends the one before."""
        changed = []
        for item in progress.regions:
            region = self._regions.get(item.region)
            if region is None or region.attempt < item.attempt:
                region = self._regions[item.region] = _Region(item.attempt)
            if region.attempt == item.attempt:
                region.least_us[manager] = item.least_us
                changed.append(item.region)
        return self._news(changed)

    def lose(self, manager: str) -> dict[str, Progress]:
        """Take in that a task manager is gone; return what to send to whom."""
        changed = []
        for number, region in self._regions.items():
            if region.least_us.pop(manager, None) is not None:
                changed.append(number)
        return self._news(changed)

    def _news(self, numbers: Collection[int]) -> dict[str, Progress]:
        news: dict[str, list[RegionProgress]] = {}
        for number in dict.fromkeys(numbers):
            region = self._regions[number]
            for manager, least_us in region.news().items():
                news.setdefault(manager, []).append(RegionProgress(number, region.attempt, least_us))
        return {manager: Progress(tuple(items)) for manager, items in news.items()}
