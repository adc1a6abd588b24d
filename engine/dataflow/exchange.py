"""Exchanges of an instance's output to the instances of the next task: forward, hash, rebalance or broadcast."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.elements import (
    NO_ROWS,
    Batch,
    Element,
    EndOfStream,
    Idle,
    Left,
    Reroute,
    Watermark,
    part_of_sic,
)
from penstock.engine.dataflow.weighted_turns import WeightedTurns
from penstock.engine.expressions.compiler import ROW_ERRORS, evaluate_isolating
from penstock.engine.transport.halves import FullSenders, SendingHalf
from penstock.model.ids import TaskId
from penstock.model.key_groups import key_groups_at, moved
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.keys.partition import partition


class Output(ABC):
    """One edge as its producer instance sees it."""

    leads_to: TaskId | None = None
    """The first of the tasks that move together with that of the receivers; set when it is built."""

    def __init__(self, senders: Sequence[SendingHalf], numbers: Sequence[int] | None = None) -> None:
        """Take the sending halves of the channels to every receiving instance.

        ``numbers`` are those of the receivers; None: they have no gaps.
        """
        self.by_number = dict(zip(range(len(senders)) if numbers is None else numbers, senders, strict=True))
        """The halves by the numbers of the receivers, in their order."""
        self.senders = tuple(senders)
        self._full = FullSenders()
        # What a receiver that joins must know: the watermark that holds, whether rows are awaited, the end.
        self._watermark: Watermark | None = None
        self._is_idle = False
        self._end: EndOfStream | Left | None = None
        for sender in senders:
            sender.join(self._full)

    def join(self, senders: Sequence[SendingHalf], numbers: Sequence[int]) -> None:
        """Send to receivers of these numbers, too, which follow those that there are; between two steps."""
        self.by_number |= zip(numbers, senders, strict=True)
        self.senders = tuple(self.by_number.values())
        for sender in senders:
            sender.join(self._full)
            if self._watermark is not None:
                sender.put(self._watermark)
            if self._is_idle:
                sender.put(Idle())
            if self._end is not None:
                sender.put(self._end)

    def dismiss(self, numbers: Collection[int]) -> None:
        """Send nothing more to receivers of these numbers, but that they may go; between two steps."""
        gone = [self.by_number.pop(number) for number in sorted(numbers) if number in self.by_number]
        if not gone:
            return
        self.senders, self._full = tuple(self.by_number.values()), FullSenders()
        for sender in self.senders:
            sender.join(self._full)
        for sender in gone:
            sender.join(FullSenders())
            if self._end is None:
                sender.put(Left(dismissed=True))

    def has_room(self) -> bool:
        """Return whether a batch may be sent; control elements always may."""
        return not self._full.count

    @abstractmethod
    def send(self, batch: Batch) -> None:
        """Send rows to the instance or instances they belong to."""

    def send_sic(self, batch: Batch) -> None:
        """Send a batch without rows, which only brings SIC, to any receiver, and what was dropped to all."""
        self.senders[0].put(self._told_all(batch))

    def _told_all(self, batch: Batch) -> Batch:
        """Let all receivers know what was dropped, an equal share each; return the batch without that.

        Any of them may have the results of which something is missing.
        """
        queries = len(batch.sic) // 2
        lost = batch.sic[queries:]
        if len(self.senders) == 1 or not any(lost):
            return batch
        nothing = (0.0,) * queries
        share = (*nothing, *part_of_sic(lost, 1, len(self.senders)))
        for sender in self.senders:
            sender.put(Batch(NO_ROWS, sic=share))
        return replace(batch, sic=(*batch.sic[:queries], *nothing))

    def send_control(self, element: Element) -> None:
        """Send a control element to every receiver, after all rows sent before."""
        match element:
            case Watermark():
                self._watermark, self._is_idle = element, False
            case Idle():
                self._is_idle = True
            case EndOfStream() | Left():
                self._end = element
        for sender in self.senders:
            sender.put(element)

    def reroute(self, reroute: Reroute) -> None:
        """Send rows behind this to other owners, and the marker between, if the receivers' task is one that moves."""
        if reroute.task == self.leads_to:
            self.send_control(reroute)


class Forward(Output):
    """Everything goes to one receiver."""

    def send(self, batch: Batch) -> None:
        """Send rows to the receiver."""
        self._is_idle = False
        self.senders[0].put(batch)

    def send_control(self, element: Element) -> None:
        """Send a control element; where the producer goes, the one receiver goes, too."""
        super().send_control(Left(dismissed=True) if isinstance(element, Left) else element)


class Rebalance(Output):
    """Batches go to the receivers in turn, or so that each gets its share of the rows."""

    def __init__(self, senders: Sequence[SendingHalf], first: int = 0, numbers: Sequence[int] | None = None) -> None:
        """Start with receiver ``first``, so that several producers do not all begin with the same one."""
        super().__init__(senders, numbers)
        self._first = first
        self._next = first % len(self.senders)
        self._turns: WeightedTurns | None = None
        self.shares: tuple[float, ...] = ()
        """The shares that receivers are to get; (): batches go in turn."""

    def set_shares(self, shares: Sequence[float]) -> None:
        """Let receivers get these shares of the rows from here on; none, or of others than are there: in turn."""
        self.shares = tuple(shares) if len(shares) == len(self.senders) else ()
        self._turns = WeightedTurns(self.shares, self._first) if self.shares else None

    def has_room(self) -> bool:
        """Return whether the receiver whose turn it is has room."""
        return self.senders[self._turn()].has_room()

    def join(self, senders: Sequence[SendingHalf], numbers: Sequence[int]) -> None:
        """Send to these, too; shares were of the others."""
        super().join(senders, numbers)
        self.set_shares(self.shares)

    def dismiss(self, numbers: Collection[int]) -> None:
        """Leave these receivers out of the round; shares were of them, too."""
        super().dismiss(numbers)
        self._next %= len(self.senders)
        self.set_shares(self.shares)

    def send(self, batch: Batch) -> None:
        """Send rows to the next receiver."""
        self._is_idle = False
        self.senders[self._turn()].put(self._told_all(batch))
        if self._turns is not None:
            self._turns.give(batch.rows.num_rows)
        else:
            self._next = (self._next + 1) % len(self.senders)

    def _turn(self) -> int:
        return self._next if self._turns is None else self._turns.next


class Broadcast(Output):
    """Every receiver gets every row."""

    def send(self, batch: Batch) -> None:
        """Send rows to all receivers, an equal share of their SIC to each."""
        self._is_idle = False
        if batch.sic:
            batch = replace(batch, sic=part_of_sic(batch.sic, 1, len(self.senders)))
        for sender in self.senders:
            sender.put(batch)


COUNTED_ROWS = 256
"""Of so many rows of a batch it is counted to which key group they go; others are taken to go as they do."""


class Hash(Output):
    """Rows go to the owner of their key's group: they are dealt out here and copied once, by the receiver.

    Rows whose key cannot be computed go to the owner of the first group: the operator there rejects them. A single
    receiver gets batches as they are.
    """

    def __init__(
        self,
        senders: Sequence[SendingHalf],
        key_columns: Callable[[pa.RecordBatch], pa.RecordBatch],
        key_types: Sequence[pa.DataType],
        owners: NDArray[np.int32],
        numbers: Sequence[int] | None = None,
    ) -> None:
        """``owners[g]`` is the number of the receiver of key group g."""
        super().__init__(senders, numbers)
        self._key_columns = key_columns
        self._codec = KeyCodec(key_types)
        self._owners = owners
        self.group_rows = np.zeros(len(owners))
        """About how many rows each key group was sent."""
        self._first_counted = 0

    def send(self, batch: Batch) -> None:
        """Send every row to its owner, in order."""
        self._is_idle = False
        if len(self.senders) == 1:
            self._send_whole(batch)
            return
        hashes, batch = self._hashes(batch.rows), self._told_all(batch)
        every, first = self._counted(len(hashes))
        self._count(hashes[first::every], len(hashes))
        parts = partition(hashes, self._owners, max(self.by_number) + 1)
        for number, rows in enumerate(parts):
            if not rows.size:
                continue
            sender = self.by_number[number]
            if rows.size == batch.rows.num_rows:
                sender.put(batch)
            else:
                part = batch
                if batch.sic:
                    part = replace(batch, sic=part_of_sic(batch.sic, rows.size, batch.rows.num_rows))
                # The receiver takes them, together with what else waits there.
                sender.put(part, rows)

    def _send_whole(self, batch: Batch) -> None:
        """Send a batch to the one receiver; the keys of a stretch of a long one are looked at, to count them."""
        every, number = self._counted(batch.rows.num_rows)
        stretch = batch.rows if every == 1 else batch.rows.slice(number * COUNTED_ROWS, COUNTED_ROWS)
        self._count(self._hashes(stretch), batch.rows.num_rows)
        self.senders[0].put(batch)

    def _counted(self, rows: int) -> tuple[int, int]:
        """Return one of how many of so many rows is counted, and the place of the first, another one each time."""
        every = max(1, -(-rows // COUNTED_ROWS))
        self._first_counted = (self._first_counted + 1) % every
        return every, self._first_counted

    def _count(self, hashes: NDArray[np.uint64], rows: int) -> None:
        """Count so many rows by their key groups, as those of the hashes go."""
        if not len(hashes):
            return
        groups = key_groups_at((hashes >> np.uint64(32)).astype(np.uint32), len(self._owners))
        # Whoever reads may be another thread: it has the counts before the batch, or those behind it.
        self.group_rows = self.group_rows + np.bincount(groups, minlength=len(self._owners)) * (rows / len(hashes))

    def reroute(self, reroute: Reroute) -> None:
        """Switch the owners, too."""
        if reroute.task == self.leads_to:
            self._owners = moved(self._owners, reroute.groups)
        super().reroute(reroute)

    def _hashes(self, rows: pa.RecordBatch) -> NDArray[np.uint64]:
        try:
            return self._codec.hash(self._key_columns(rows).columns)
        except ROW_ERRORS:
            keyed = evaluate_isolating(self._key_columns, rows)
        hashes = np.zeros(rows.num_rows, np.uint64)
        if keyed.result is not None:
            hashes[np.asarray(keyed.good)] = self._codec.hash(keyed.result.columns)
        return hashes
