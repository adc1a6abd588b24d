"""Reads one partition from its queue: takes messages, makes rows, knows where it is. Made by `Cluster`.

The end is that of a position, never of a message (docs/design/kafka.md 2): it may lie behind the last one, as
transactions leave markers and aborted rows, and compaction takes rows away. Positions pass those.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.queues import Taken
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.model.connectors import ENDED, NOTHING, Read, Reader

MOST_MESSAGES = 32_768
MOST_BYTES = 12 << 20
"""How much is decoded at once, so that it stays small beside what is fetched meanwhile."""


class KafkaPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The next message's offset, of which ``rows`` rows were read.

    ``topic_id`` tells the topic from a later one of the same name. ``end`` comes in old checkpoints only, where it was
    the bound of the run that took them; a later run has its own.
    """

    offset: int
    rows: int = 0
    topic_id: str | None = None
    end: int | None = None


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
    """Rows that were made and not yet read, from ``row`` on; messages before ``message`` are done with."""

    messages: Messages
    decoded: DecodedMessages
    row: int = 0
    message: int = 0


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

    @property
    def over(self) -> bool:
        """True if the partition is read to its end."""
        return is_over(self._position.offset, self._end)

    def watch(self, wake: Callable[[], None]) -> bool:
        """Promise to say when messages were fetched, and when brokers are gone or back."""
        self._feed.watch(wake)
        return True

    def read(self, max_rows: int) -> Read:
        """Return rows of the messages that are there."""
        if self._left is None and not self._make(max_rows):
            if self.over:
                return ENDED
            return NOTHING if self._feed.reachable() else Read(out_of_reach=True)
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

    def _make(self, max_rows: int) -> bool:
        """Make rows of the next messages; return whether there were any."""
        if self._messages is None:
            if self.over:
                return False
            taken = self._feed.take(min(max_rows, MOST_MESSAGES), MOST_BYTES)
            self._reached = taken.reached
            if taken.messages is not None:
                messages = taken.messages.before(self._end)
                if len(messages) < len(taken.messages):
                    self._reached = self._end
                self._messages = messages if len(messages) else None
            if self._messages is None:
                if self._reached is not None:
                    self._move(max(self._reached, self._position.offset))
                return False
        # What cannot be decoded now is kept for the next time.
        decoded = self._maker.make(self._messages)
        self._left = _Left(self._messages, decoded, row=self._rows_read(decoded))
        self._messages = None
        return True

    def _rows_read(self, decoded: DecodedMessages) -> int:
        """Return how many rows of the first message were read before a restart."""
        if not self._position.rows:
            return 0
        return min(self._position.rows, int(np.searchsorted(decoded.row_of, 0, side="right")))

    def _read(self, left: _Left, max_rows: int) -> Read:
        decoded, end = left.decoded, left.row + max_rows
        rows = decoded.rows.slice(left.row, max_rows)
        if end < decoded.rows.num_rows:
            message = int(decoded.row_of[end])
            rows_read = end - int(np.searchsorted(decoded.row_of, message))
            self._move(int(left.messages.offsets[message]), rows_read)
        else:
            message = len(left.messages)
            self._move(max(int(left.messages.offsets[-1]) + 1, self._reached or 0))
        rejected = [
            left.messages.raw_record(index, reason)
            for index, reason in decoded.errors
            if left.message <= index < message
        ]
        skipped = int(((decoded.skipped >= left.message) & (decoded.skipped < message)).sum())
        done = message == len(left.messages)
        left.row, left.message = end, message
        self._left = None if done else left
        return Read(
            rows if rows.num_rows else None,
            ended=done and self.over,
            rejected=rejected,
            skipped=skipped,
            skipped_time_us=decoded.skipped_time_us if done else None,
        )

    def _move(self, offset: int, rows: int = 0) -> None:
        self._position = KafkaPosition(offset, rows, self._position.topic_id)


def is_over(position: int, end: int | None) -> bool:
    """Return whether a partition that is read up to ``position`` has ended."""
    return end is not None and position >= end
