"""Exchanges of an instance's output to the instances of the next task: forward, hash, rebalance or broadcast."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.elements import Batch, Element, Reroute, part_of_sic
from penstock.engine.dataflow.weighted_turns import WeightedTurns
from penstock.engine.expressions.compiler import ROW_ERRORS, evaluate_isolating
from penstock.engine.transport.halves import FullSenders, SendingHalf
from penstock.model.ids import TaskId
from penstock.model.key_groups import moved
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.keys.partition import partition


class Output(ABC):
    """One edge as its producer instance sees it."""

    leads_to: TaskId | None = None
    """The first of the tasks that move together with that of the receivers; set when it is built."""

    def __init__(self, senders: Sequence[SendingHalf]) -> None:
        """Take the sending halves of the channels to every receiving instance."""
        self.senders = tuple(senders)
        self._full = FullSenders()
        for sender in senders:
            sender.join(self._full)

    def has_room(self) -> bool:
        """Return whether a batch may be sent; control elements always may."""
        return not self._full.count

    @abstractmethod
    def send(self, batch: Batch) -> None:
        """Send rows to the instance or instances they belong to."""

    def send_sic(self, batch: Batch) -> None:
        """Send a batch without rows, which only brings SIC, to any receiver."""
        self.senders[0].put(batch)

    def send_control(self, element: Element) -> None:
        """Send a control element to every receiver, after all rows sent before."""
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
        self.senders[0].put(batch)


class Rebalance(Output):
    """Batches go to the receivers in turn, or so that each gets its share of the rows."""

    def __init__(self, senders: Sequence[SendingHalf], first: int = 0) -> None:
        """Start with receiver ``first``, so that several producers do not all begin with the same one."""
        super().__init__(senders)
        self._first = first
        self._next = first % len(self.senders)
        self._turns: WeightedTurns | None = None
        self.shares: tuple[float, ...] = ()
        """The shares that receivers are to get; (): batches go in turn."""

    def set_shares(self, shares: Sequence[float]) -> None:
        """Let receivers get these shares of the rows from here on; none: batches go in turn."""
        self.shares = tuple(shares)
        self._turns = WeightedTurns(shares, self._first) if shares else None

    def has_room(self) -> bool:
        """Return whether the receiver whose turn it is has room."""
        return self.senders[self._turn()].has_room()

    def send(self, batch: Batch) -> None:
        """Send rows to the next receiver."""
        self.senders[self._turn()].put(batch)
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
        if batch.sic:
            batch = replace(batch, sic=part_of_sic(batch.sic, 1, len(self.senders)))
        for sender in self.senders:
            sender.put(batch)


class Hash(Output):
    """Rows go to the owner of their key's group: they are dealt out here and copied once, by the receiver.

    Rows whose key cannot be computed go to the owner of the first group: the operator there rejects them.
    """

    def __init__(
        self,
        senders: Sequence[SendingHalf],
        key_columns: Callable[[pa.RecordBatch], pa.RecordBatch],
        key_types: Sequence[pa.DataType],
        owners: NDArray[np.int32],
    ) -> None:
        """``owners[g]`` is the receiver of key group g."""
        super().__init__(senders)
        self._key_columns = key_columns
        self._codec = KeyCodec(key_types)
        self._owners = owners

    def send(self, batch: Batch) -> None:
        """Send every row to its owner, in order."""
        hashes = self._hashes(batch.rows)
        parts = partition(hashes, self._owners, len(self.senders))
        for sender, rows in zip(self.senders, parts, strict=True):
            if rows.size == batch.rows.num_rows:
                sender.put(batch)
            elif rows.size:
                part = batch
                if batch.sic:
                    part = replace(batch, sic=part_of_sic(batch.sic, rows.size, batch.rows.num_rows))
                # The receiver takes them, together with what else waits there.
                sender.put(part, rows)

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
