"""Reads one partition from its queue: takes messages, makes rows, knows where it is. Made by `Cluster`.

The end is that of a position, never of a message (docs/design/kafka.md 2): it may lie behind the last one, as
transactions leave markers and aborted rows, and compaction takes rows away. Positions pass those.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.queues import Taken
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.model.connectors import ENDED, NOTHING, Read, Reader
from penstock.model.errors import RetryableError
from penstock.model.sampling import Drawn, Sampled, Sampler

_NONE: NDArray[np.int64] = np.empty(0, np.int64)

MOST_MESSAGES = 32_768
MOST_BYTES = 12 << 20
"""How much is decoded at once, so that it stays small beside what is fetched meanwhile."""


class KafkaPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The next message's offset, of which ``rows`` rows were read.

    ``topic_id`` tells the topic from a later one of the same name. ``end`` comes in old checkpoints only, where it was
    the bound of the run that took them; a later run has its own. ``keep`` is the keep rate of the rows that were read,
    ``branches`` are those of branches that held for them, ``step`` is what their record has drawn, if it drew.
    """

    offset: int
    rows: int = 0
    topic_id: str | None = None
    end: int | None = None
    keep: float = 1.0
    branches: dict[str, float] = {}
    step: int | None = None

    @property
    def logged(self) -> int:
        """The offset up to which is known what was kept: behind a message of which rows were read."""
        return self.offset + 1 if self.rows else self.offset


Take = Callable[[int, int], Taken]
"""Takes up to so many messages, of about so many bytes, without waiting."""


@dataclass(frozen=True, slots=True)
class PartitionFeed:
    """The fetcher of a partition, as its reader sees it.

    ``reachable`` returns whether brokers answer. ``close`` is called once. ``watch`` takes what is to be called when
    there is something after ``take`` gave nothing. ``written`` returns the offset that the partition's next message
    will get, as far as was heard.
    """

    take: Take
    reachable: Callable[[], bool]
    close: Callable[[], None]
    watch: Callable[[Callable[[], None]], None] = lambda wake: None
    written: Callable[[], int | None] = lambda: None


@dataclass(slots=True)
class _Left:
    """Rows that were made and not yet read, from ``row`` on; messages before ``message`` are done with.

    Behind them the position is at ``reached``. The offsets ``dropped`` between them were left out at the rate ``keep``,
    ``dated`` has the event time of one of these; ``branches`` held for all of them. ``drawn``: what the messages have
    drawn, if they drew.
    """

    messages: Messages
    decoded: DecodedMessages
    reached: int
    keep: float
    branches: Mapping[str, float]
    dropped: NDArray[np.int64]
    dated: pa.RecordBatch | None
    drawn: Drawn | None
    row: int = 0
    message: int = 0

    def sampled(self, start: int, stop: int, end: int) -> Sampled:
        """Return what holds of the offsets between two positions, of which rows up to ``end`` are read.

        The event time of a dropped one is told once.
        """
        first, last = np.searchsorted(self.dropped, (start, stop))
        dated, self.dated = self.dated, None
        sampled = Sampled(self.keep, start, stop, int(last - first), dated, self.branches)
        if not self.branches and self.drawn is None:
            return sampled
        messages = self.decoded.row_of[self.row : end]
        drawn = None if self.drawn is None else Drawn(self.drawn.steps[messages], self.drawn.since)
        return replace(sampled, offsets=self.messages.offsets[messages], drawn=drawn)


class KafkaReader(Reader):
    """Position: `KafkaPosition`. What a message costs, a row, a dead letter or a tombstone, is read with its rows."""

    def __init__(
        self,
        maker: RowMaker,
        position: KafkaPosition,
        feed: PartitionFeed,
        *,
        end: int | None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Read from a position on, up to ``end`` (None: for ever).

        ``say`` takes what the user should know of the messages.
        """
        self._say = say
        self._maker = maker
        self._position = position
        self._end = end
        self._feed = feed
        self._messages: Messages | None = None
        self._reached: int | None = None
        self._left: _Left | None = None
        self._sampler: Sampler | None = None
        self._dating: RowMaker | None = None

    @property
    def over(self) -> bool:
        """True if the partition is read to its end."""
        return is_over(self._position.offset, self._end)

    def watch(self, wake: Callable[[], None]) -> bool:
        """Promise to say when messages were fetched, and when brokers are gone or back."""
        self._feed.watch(wake)
        return True

    def sample_by(self, sampler: Sampler) -> bool:
        """Drop messages before they are decoded."""
        self._sampler = sampler
        return True

    def read(self, max_rows: int) -> Read:
        """Return rows of the messages that are there."""
        said = self._make(max_rows) if self._left is None else None
        if said is not None:
            return said
        assert self._left is not None
        read = self._read(self._left, max_rows)
        remark = self._maker.value.remark(last=read.ended)
        if remark is not None:
            self._say(remark)
        return read

    def position(self) -> dict[str, Any]:
        """Return where the next row is."""
        position: dict[str, Any] = msgspec.to_builtins(self._position)
        return position

    def behind(self) -> int | None:
        """Return how many offsets lie between the position and what is written, or the end of a bounded read."""
        written = self._feed.written()
        if written is None:
            return None
        return max(0, (written if self._end is None else min(written, self._end)) - self._position.offset)

    def appended(self) -> int | None:
        """Return the offset of the next message that is written; of a bounded read it does not matter."""
        return self._feed.written() if self._end is None else None

    def close(self) -> None:
        """Fetch no more."""
        self._messages, self._left = None, None
        self._feed.close()

    def _make(self, max_rows: int) -> Read | None:
        """Make rows of the next messages; return what is to be said of them, and of none, at once."""
        if self._messages is None:
            nothing = self._take(max_rows)
            if nothing is not None:
                return nothing
        messages, after = self._messages, None
        assert messages is not None
        keep, branches = (1.0, {}) if self._sampler is None else (self._sampler.keep, self._sampler.branches)
        if self._position.rows and messages.offsets[0] == self._position.offset:
            # The rest of a message stays at the rates of its first rows.
            keep, branches = self._position.keep, self._position.branches
            after = messages.slice(1, len(messages)) if len(messages) > 1 else None
            messages = messages.slice(0, 1)
            kept, dropped, step = messages, _NONE, self._position.step
            drawn = None if step is None else Drawn(np.array([step], np.uint8), self._position.offset)
        else:
            kept, dropped, drawn = self._sample(messages)
        reached = int(messages.offsets[-1]) + 1
        if after is None:
            reached = max(reached, self._reached or 0)
        if not len(kept):
            self._messages = None
            start = self._position.offset
            self._move(reached)
            dated = self._date(messages, dropped)
            sampled = Sampled(keep, start, reached, len(dropped), dated, branches, drawn=drawn)
            return Read(ended=self.over, sampled=sampled)
        # What cannot be decoded now is kept for the next time.
        decoded = self._maker.make(kept)
        dated = self._date(messages, dropped)
        row = self._rows_read(decoded)
        self._left = _Left(kept, decoded, reached, keep, branches, dropped, dated, drawn, row)
        self._messages = after
        return None

    def _take(self, max_rows: int) -> Read | None:
        """Take messages; return what is to be said if there are none."""
        if self.over:
            return ENDED
        taken = self._feed.take(min(max_rows, MOST_MESSAGES), MOST_BYTES)
        self._reached = taken.reached
        if taken.messages is not None:
            messages = taken.messages.before(self._end)
            if len(messages) < len(taken.messages):
                self._reached = self._end
            self._messages = messages if len(messages) else None
        if self._messages is not None:
            return None
        if self._reached is not None:
            self._move(max(self._reached, self._position.offset))
        if is_over(self._position.offset, self._end):
            return ENDED
        return NOTHING if self._feed.reachable() else Read(out_of_reach=True)

    def _sample(self, messages: Messages) -> tuple[Messages, NDArray[np.int64], Drawn | None]:
        """Return the messages that stay, the offsets of the others, and what those that stay have drawn."""
        if self._sampler is None:
            return messages, _NONE, None
        chosen, drawn = self._sampler.chosen(messages.offsets, messages.keys), self._sampler.drawn
        if chosen is None:
            return messages, _NONE, drawn
        drawn = None if drawn is None else drawn.where(chosen)
        if not chosen.any():
            return messages.slice(0, 0), messages.offsets, drawn
        return messages.where(chosen), messages.offsets[~chosen], drawn

    def _date(self, messages: Messages, dropped: NDArray[np.int64]) -> pa.RecordBatch | None:
        """Decode the event time of the last of the messages at the offsets ``dropped``, if it is time to."""
        time = self._maker.time
        if not len(dropped) or time is None or self._sampler is None or not self._sampler.wants_time():
            return None
        last = int(np.searchsorted(messages.offsets, dropped[-1]))
        message, told_by = messages.slice(last, last + 1), self._maker.metadata.get(time)
        if told_by is not None:
            # Nothing of the message itself says it, so it need not be decoded.
            return pa.RecordBatch.from_arrays([message.column(told_by)], [time])
        if self._dating is None:
            self._dating = self._maker.restrict([time])
        try:
            return self._dating.make(message).rows
        except RetryableError:
            # Another one will tell it: nothing waits for this message.
            return None

    def _rows_read(self, decoded: DecodedMessages) -> int:
        """Return how many rows of the first message were read before a restart."""
        if not self._position.rows:
            return 0
        return min(self._position.rows, int(np.searchsorted(decoded.row_of, 0, side="right")))

    def _read(self, left: _Left, max_rows: int) -> Read:
        decoded, end = left.decoded, left.row + max_rows
        rows = decoded.rows.slice(left.row, max_rows)
        start = self._position.logged
        if end < decoded.rows.num_rows:
            message = int(decoded.row_of[end])
            rows_read = end - int(np.searchsorted(decoded.row_of, message))
            self._move(int(left.messages.offsets[message]), rows_read, left)
        else:
            message = len(left.messages)
            self._move(left.reached)
        rejected = [
            left.messages.raw_record(index, reason)
            for index, reason in decoded.errors
            if left.message <= index < message
        ]
        skipped = int(((decoded.skipped >= left.message) & (decoded.skipped < message)).sum())
        done = message == len(left.messages)
        sampled = None if self._sampler is None else left.sampled(start, self._position.logged, end)
        left.row, left.message = end, message
        self._left = None if done else left
        return Read(
            rows if rows.num_rows else None,
            ended=done and self.over,
            rejected=rejected,
            skipped=skipped,
            skipped_time_us=decoded.skipped_time_us if done else None,
            sampled=sampled,
        )

    def _move(self, offset: int, rows: int = 0, left: _Left | None = None) -> None:
        topic_id = self._position.topic_id
        if not rows or left is None:
            self._position = KafkaPosition(offset, rows, topic_id)
            return
        step = None
        if left.drawn is not None:
            step = int(left.drawn.steps[np.searchsorted(left.messages.offsets, offset)])
        branches = dict(left.branches)
        self._position = KafkaPosition(offset, rows, topic_id, keep=left.keep, branches=branches, step=step)


def is_over(position: int, end: int | None) -> bool:
    """Return whether a partition that is read up to ``position`` has ended."""
    return end is not None and position >= end
