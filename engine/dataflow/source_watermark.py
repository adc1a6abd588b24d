"""The watermark of one source instance: the least of its partitions', and its idleness when all of them are idle."""

from collections.abc import Iterator, Sequence

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Element, Idle, Watermark
from penstock.engine.core.watermark import WatermarkMerge
from penstock.engine.dataflow.source_options import SourceStream
from penstock.engine.dataflow.source_partition import Partition

BEFORE_ALL_US = -(1 << 62)
"""Before the event time of any row, and not so far that a window before it could not be told."""


class SourceWatermark:
    """Merges what partitions have come to. It goes on from where it was, and is said again first: channels are new."""

    def __init__(
        self,
        stream: SourceStream,
        partitions: Sequence[Partition],
        time_us: int,
        silence_ns: int | None,
        *,
        keeps: bool,
    ) -> None:
        """Begin at ``time_us``; a partition that is silent for ``silence_ns`` (None: however long) is idle.

        With ``keeps`` the ends of partitions are not the end of time.
        """
        self.is_held = False
        """Whether it stays where it is, and nobody hears of idleness: partitions change their instances."""
        self._stream = stream
        self._silence_ns = silence_ns
        self._keeps = keeps
        self._merge = WatermarkMerge(len(partitions))
        self._merge.time_us = time_us
        if time_us == END_OF_TIME_US and not all(item.ended for item in partitions):
            self._merge.time_us = START_OF_TIME_US
        self._says_again = self._merge.time_us not in (START_OF_TIME_US, END_OF_TIME_US)
        self._said_idle = False

    @property
    def time_us(self) -> int:
        """The merged watermark."""
        return self._merge.time_us

    @property
    def is_idle(self) -> bool:
        """Whether idleness was said last: nobody waits for it."""
        return self._said_idle

    def is_past(self, partition: Partition, time_us: int) -> bool:
        """Return whether a partition holds nobody back who has come to a time: it is as far, idle or at its end."""
        if self._stream.time is None or partition.ended or partition.idle or time_us == START_OF_TIME_US:
            return True
        return partition.latest_us != START_OF_TIME_US and partition.latest_us - self._stream.delay_us >= time_us

    def stand(self, least_us: int) -> None:
        """While it is held, let whoever was told of idleness wait for it again, at this time at least."""
        if self._said_idle:
            self._merge.time_us = max(self._merge.time_us, least_us, BEFORE_ALL_US)
            self._said_idle, self._says_again = False, True

    def go_on(self, partitions: Sequence[Partition], said_us: int) -> None:
        """Merge these partitions from now on; ``said_us`` was said of those that came, if nothing was said here."""
        time_us = self._merge.time_us
        self._merge = WatermarkMerge(len(partitions))
        self._merge.time_us = said_us if time_us == START_OF_TIME_US else time_us
        for index, item in enumerate(partitions):
            if item.idle:
                self._merge.set_idle(index)
        self._says_again = self._merge.time_us not in (START_OF_TIME_US, END_OF_TIME_US)
        self._said_idle = False

    def add_partition(self) -> None:
        """Take in that there is one partition more."""
        self._merge.add()

    def end_idleness(self) -> None:
        """Take in that rows have left: idleness is said anew when it comes."""
        self._said_idle = False

    def advance(self, partitions: Sequence[Partition], now_ns: int) -> Iterator[Element]:
        """Yield the watermark if it has advanced, and idleness if it has begun; all rows read have left before it."""
        if self._stream.time is None:
            return
        advanced, self._says_again = self._says_again, False
        if self.is_held:
            for item in partitions:
                item.idle = item.idle or self._is_silent(item, now_ns)
            if advanced:
                yield Watermark(self._merge.time_us)
            return
        for index, item in enumerate(partitions):
            advanced |= self._take_in(index, item, now_ns)
        if advanced and self._merge.time_us != END_OF_TIME_US:
            yield Watermark(self._merge.time_us)
        if (self._merge.idle or not partitions) and not self._said_idle:
            self._said_idle = True
            yield Idle()

    def _take_in(self, index: int, item: Partition, now_ns: int) -> bool:
        """Take in how far a partition is; return whether that advances the whole."""
        if item.ended and not self._keeps:
            return self._merge.advance(index, END_OF_TIME_US)
        advanced = False
        if item.latest_us != START_OF_TIME_US:
            advanced = self._merge.advance(index, item.latest_us - self._stream.delay_us)
        if item.ended:
            # What a partition may go on with in a later run is held for, if it brought rows in this one.
            may_go_on = item.is_live and self._stream.source.partitions_grow
            return advanced if may_go_on else self._merge.set_idle(index) or advanced
        if self._is_silent(item, now_ns):
            item.idle = True
            advanced |= self._merge.set_idle(index)
        return advanced

    def _is_silent(self, item: Partition, now_ns: int) -> bool:
        silent_ns = 0 if item.nothing_since_ns is None else now_ns - item.nothing_since_ns
        return self._silence_ns is not None and silent_ns >= self._silence_ns
