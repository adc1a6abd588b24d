"""Where all producers of an edge write the rows of one receiver, in the order in which they send them.

So rows of neighbouring batches lie together again, in whole batches, without being copied a second time. A channel
whose barrier waits, or that is blocked by one, keeps its rows to itself (`in_memory.Channel.may_share`).
"""

from collections import deque
from typing import TYPE_CHECKING

from penstock.engine.elements import Batch
from penstock.engine.transport.dealt_rows import DealtRows, Memory

if TYPE_CHECKING:
    from penstock.engine.transport.in_memory import Channel


class SharedRows:
    """The rows that wait for one receiver of one edge; ``written`` and ``taken`` count them over all time."""

    def __init__(self, batch_rows: int) -> None:
        """Rows are taken ``batch_rows`` at a time."""
        self.batch_rows = batch_rows
        self.written = 0
        self.taken = 0
        self._memory = Memory()
        self._dealt: deque[DealtRows] = deque()
        self._senders: deque[tuple[Channel, int]] = deque()

    @property
    def waiting_rows(self) -> int:
        """How many rows wait."""
        return self.written - self.taken

    def room_for(self, batch: Batch) -> DealtRows:
        """Return where the rows of a batch, or some of them, are written before `added` is called.

        What waits moves along when its memory is full, so that batches are not cut where memory ends.
        """
        last = self._dealt[-1] if self._dealt else None
        goes = last is not None and last.goes_with(batch)
        if last is not None and goes and last.has_room(batch.rows.num_rows):
            return last
        opened = DealtRows(batch, self._memory, max(2 * self.batch_rows, batch.rows.num_rows + self.batch_rows))
        if last is not None and goes and last.rows <= self.batch_rows:
            last.move_to(opened)
            self._dealt.pop()
        self._dealt.append(opened)
        return opened

    def added(self, channel: "Channel", rows: int) -> None:
        """A channel's producer has written so many rows, possibly none."""
        if rows:
            self._senders.append((channel, rows))
            self.written += rows
            channel.shared_more(rows, 8 * rows * len(self._dealt[-1].schema))

    def take(self) -> tuple[Batch, "list[Channel]"]:
        """Remove the oldest rows, of which there are some; return them and the channels that they came through."""
        while not self._dealt[0].rows:
            self._dealt.popleft()
        first = self._dealt[0]
        batch = first.take(self.batch_rows)
        left = batch.rows.num_rows
        self.taken += left
        channels = []
        while left:
            channel, rows = self._senders.popleft()
            if rows > left:
                self._senders.appendleft((channel, rows - left))
            taken = min(rows, left)
            left -= taken
            channel.shared_less(taken, 8 * taken * len(first.schema))
            channels.append(channel)
        return batch, channels
