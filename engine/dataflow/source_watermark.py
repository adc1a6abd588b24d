"""The watermark of one source instance: the least of its partitions', and its idleness when all of them are idle."""

from collections.abc import Iterator, Sequence

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Element, Idle, Watermark
from penstock.engine.core.watermark import WatermarkMerge
from penstock.engine.dataflow.source_options import SourceStream
from penstock.engine.dataflow.source_partition import Partition


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
        silent_ns = 0 if item.nothing_since_ns is None else now_ns - item.nothing_since_ns
        if self._silence_ns is not None and silent_ns >= self._silence_ns:
            item.idle = True
            advanced |= self._merge.set_idle(index)
        return advanced
