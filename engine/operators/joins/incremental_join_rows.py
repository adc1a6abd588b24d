"""The rows of the two kinds of sides of an incremental join, and the changes of a batch in them.

Both are chains of *nodes* per key: rows of a log in an append-only side, distinct rows with a count in a changelog.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.incremental_join import add_counts, link_both, unlink
from penstock.engine.kernels.join import chain_heads
from penstock.engine.operators.joins.join_rows import KeptRows
from penstock.engine.operators.joins.join_side import JoinSide
from penstock.engine.operators.row_identity import RowCodec
from penstock.state.keys.arrays import NO_INTEGERS, Ints, Mask, grown, read_only
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import INTEGER, FixedColumn, Slots, StateStore, TableSpec


@dataclass(frozen=True, slots=True)
class SideChange:
    """The change that a batch made to its side.

    ``gained`` says of each of ``rows`` how many more (or, below 0, fewer) of it are present. ``appeared`` and
    ``vanished`` are positions in ``rows``: one for each key that had no present row and now has, and the opposite.
    """

    rows: pa.RecordBatch
    keys: KeyBatch
    gained: Ints
    appeared: Ints
    vanished: Ints


class JoinedRows(ABC):
    """The rows of one side. Rows with a null among their keys are never found."""

    @abstractmethod
    def change(self, rows: pa.RecordBatch, weights: NDArray[np.int8] | None) -> SideChange:
        """Insert and retract rows; all have the fields of the `JoinSide`. ``weights`` None: insert them all."""

    @abstractmethod
    def newest(self, keys: KeyBatch) -> Ints:
        """Return the node that each key's chain begins with, -1 where no row of the key is present."""

    @property
    @abstractmethod
    def older(self) -> Ints:
        """The node that each node's chain goes on with, -1 at its end."""

    @property
    @abstractmethod
    def counts(self) -> Ints:
        """The count of each node's row, below 0 if it was only retracted; empty: once."""

    @abstractmethod
    def take(self, nodes: Ints) -> pa.RecordBatch:
        """Return the columns the output needs of these nodes."""


class AppendedRows(JoinedRows):
    """An append-only side; rows with a null key are not kept, for nothing will ever be asked about them."""

    def __init__(self, store: StateStore, name: str, side: JoinSide) -> None:
        """Open the side's table and log."""
        self._side = side
        self._kept = KeptRows(store, name, side)

    def change(self, rows: pa.RecordBatch, weights: NDArray[np.int8] | None) -> SideChange:
        """Insert rows."""
        keys = self._side.encode(rows)
        appeared = NO_INTEGERS
        with_key = _positions(self._side.with_key(rows))
        if with_key is None:
            appeared = self._insert(rows, keys)
        elif with_key.size:
            appeared = with_key[self._insert(rows.take(pa.array(with_key)), keys.take(with_key))]
        return SideChange(rows, keys, np.ones(rows.num_rows, np.int64), appeared, NO_INTEGERS)

    def newest(self, keys: KeyBatch) -> Ints:
        """Return the id of the newest row of each key."""
        return self._kept.newest(keys)

    @property
    def older(self) -> Ints:
        """The row before each one, by id."""
        return self._kept.older

    @property
    def counts(self) -> Ints:
        """Nothing: every row is there once."""
        return NO_INTEGERS

    def take(self, nodes: Ints) -> pa.RecordBatch:
        """Return the rows of these ids."""
        return self._kept.take(nodes)

    def _insert(self, rows: pa.RecordBatch, keys: KeyBatch) -> Ints:
        """Keep rows; return one row of each key that was not there."""
        located = self._kept.insert(rows, keys)
        if not located.fresh.size:
            return NO_INTEGERS
        first = np.empty(int(located.slots.max()) + 1, np.int64)
        first[located.slots] = np.arange(len(keys))
        return first[located.fresh]


class CountedSideRows(JoinedRows):
    """A changelog's side: every distinct row with its count, which is below 0 while retractions wait for their insert.

    The chains lie beside the tables, as slots of distinct rows by slots of keys, and are made anew when it opens.
    """

    def __init__(self, store: StateStore, name: str, side: JoinSide, identity: RowCodec) -> None:
        """Open the side's tables and log; ``identity`` tells the rows of the side's fields apart."""
        self._side = side
        self._identity = identity
        self._keys = store.table(TableSpec(name, side.codec.types, {"present": INTEGER}))
        log = f"{name}_rows"
        row = FixedColumn(np.dtype(np.int64), refers=log, base=1)
        self._distinct = store.table(
            TableSpec(f"{name}_distinct", self._identity.types, {"count": INTEGER, "row": row}, follows="row")
        )
        self._log = store.log(log, side.fields, side.locate)
        self._heads = self._older = self._newer = NO_INTEGERS
        self._key_place = self._row_place = NO_INTEGERS
        nodes = self._distinct.live()
        ids = self._distinct.array("row")[nodes] - 1
        if nodes.size:
            rows = self._log.take(ids)
            self._link(nodes, self._key_slots(rows, side.encode(rows)))
        self._dead = [np.setdiff1d(self._log.live(), ids)]
        self._dead_rows = self._dead[0].size

    def change(self, rows: pa.RecordBatch, weights: NDArray[np.int8] | None) -> SideChange:
        """Insert and retract rows."""
        assert weights is not None
        slots = self._distinct.upsert(self._identity.encode(rows)).slots
        counts, stored = self.counts, self._distinct.array("row")
        self._row_place = grown(self._row_place, self._row_place.size, counts.size)
        nodes, first, before = add_counts(
            read_only(slots), read_only(weights.astype(np.int64)), counts, self._row_place
        )
        after, new = counts[nodes], stored[nodes] == 0
        cancelled = new & (after == 0)
        if cancelled.any():
            self._distinct.remove(nodes[cancelled])
            nodes, first, before, after, new = (part[~cancelled] for part in (nodes, first, before, after, new))
        if nodes.size < rows.num_rows:
            rows = rows.take(pa.array(first))
        keys = self._side.encode(rows)
        key_slots = self._key_slots(rows, keys)
        gained = np.maximum(after, 0) - np.maximum(before, 0)
        appeared, vanished = self._count(key_slots, gained)
        self._store(rows, nodes, key_slots, np.flatnonzero(new))
        self._forget(nodes, key_slots, np.flatnonzero(~new & (after == 0)))
        return SideChange(rows, keys, gained, appeared, vanished)

    def newest(self, keys: KeyBatch) -> Ints:
        """Return the slot of the newest distinct row of each key that has one present."""
        slots = self._keys.find(keys)
        present = np.flatnonzero(slots >= 0)
        slots[present[self._keys.array("present")[slots[present]] == 0]] = -1
        return chain_heads(read_only(slots), read_only(self._heads))

    @property
    def older(self) -> Ints:
        """The distinct row before each one, by slot."""
        return self._older

    @property
    def counts(self) -> Ints:
        """The count of each distinct row, by slot."""
        return self._distinct.array("count")

    def take(self, nodes: Ints) -> pa.RecordBatch:
        """Return the rows of these slots."""
        return self._log.take(self._distinct.array("row")[nodes] - 1, self._side.needed)

    def _key_slots(self, rows: pa.RecordBatch, keys: KeyBatch) -> Slots:
        """Return the slot of each row's key, -1 where one of its parts is null."""
        with_key = _positions(self._side.with_key(rows))
        if with_key is None:
            return self._keys.upsert(keys).slots
        slots = np.full(len(keys), -1, np.int64)
        if with_key.size:
            slots[with_key] = self._keys.upsert(keys.take(with_key)).slots
        return slots

    def _count(self, key_slots: Slots, gained: Ints) -> tuple[Ints, Ints]:
        """Count the present rows of each key; return a row of each that got its first, and of each that lost its last.

        A slot of no use any more has a count of zero, as a fresh one has.
        """
        present = self._keys.array("present")
        self._key_place = grown(self._key_place, self._key_place.size, present.size)
        slots, first, before = add_counts(read_only(key_slots), read_only(gained), present, self._key_place)
        after = present[slots]
        return first[(before == 0) & (after > 0)], first[(before > 0) & (after == 0)]

    def _store(self, rows: pa.RecordBatch, nodes: Slots, key_slots: Slots, new: Ints) -> None:
        if not new.size:
            return
        whole = new.size == rows.num_rows
        ids = self._log.append(rows if whole else rows.take(pa.array(new)))
        self._distinct.array("row")[nodes[new]] = ids + 1
        self._link(nodes[new], key_slots[new])

    def _link(self, nodes: Slots, key_slots: Slots) -> None:
        self._heads = grown(self._heads, self._heads.size, self._keys.array("present").size)
        used, size = self._older.size, self._distinct.array("count").size
        self._older, self._newer = grown(self._older, used, size), grown(self._newer, used, size)
        link_both(read_only(nodes), read_only(key_slots), self._heads, self._older, self._newer)

    def _forget(self, nodes: Slots, key_slots: Slots, forgotten: Ints) -> None:
        """Let go of rows whose count is zero, and of keys that no row is left of.

        Their rows stay in the log until they are a fifth of it: removing a few costs as much as removing many.
        """
        if not forgotten.size:
            return
        nodes, key_slots = nodes[forgotten], key_slots[forgotten]
        unlink(read_only(nodes), read_only(key_slots), self._heads, self._older, self._newer)
        self._dead.append(self._distinct.array("row")[nodes] - 1)
        self._dead_rows += nodes.size
        self._distinct.remove(nodes)
        if 4 * self._dead_rows > self._distinct.statistics().rows:
            self._log.remove(np.concatenate(self._dead))
            self._dead, self._dead_rows = [], 0
        key_slots = key_slots[key_slots >= 0]
        self._keys.remove(np.unique(key_slots[self._heads[key_slots] == 0]))


def _positions(mask: Mask | None) -> Ints | None:
    """Return where the flags are set; None for no flags."""
    return None if mask is None else np.flatnonzero(mask)
