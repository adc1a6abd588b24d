"""The hash index of one table from key (and prefix) to slot, with its keys, growth and free slots."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import BugError, StateBudgetError
from penstock.state.keys.arrays import NO_INTEGERS, read_only, zeros
from penstock.state.keys.batch_keys import KeyArrays, KeyBatch, KeyCodec, gather_bytes
from penstock.state.tables import index_kernels as kernels
from penstock.state.tables.budget import Account
from penstock.state.tables.byte_arena import ByteArena
from penstock.state.tables.index_kernels import FREE, FRESH, HIGH, IndexArrays
from penstock.state.tables.prefix_lists import PrefixLists

Slots = NDArray[np.int64]

NO_SLOTS: Slots = np.zeros(0, np.int64)

_SMALLEST_TABLE = 128
_LOAD_PERCENT = 60
_MOST_SLOTS = 2**31 - 1
# Beyond this the table leaves the second-level cache and prefetching pays; below it costs a fifth.
_PREFETCH_FROM = 2**17
_PREFETCH_AHEAD = 16


class KeyIndex:
    """The keys of one table. Slots are dense: new ones follow each other, removed ones are given out again first.

    ``lists`` makes the table prefixed: every key comes with a prefix, and the lists hold its slot.
    ``on_grow(slots)`` is called before the number of slots grows, so that the owner of columns by slot charges and
    grows them first; after an error it may be called again with the same number.
    """

    def __init__(
        self,
        codec: KeyCodec,
        lists: PrefixLists | None,
        account: Account,
        on_grow: Callable[[int], None],
    ) -> None:
        self._codec = codec
        self._lists = lists
        self._account = account
        self._on_grow = on_grow
        self._width = codec.words
        self._columns = codec.words + (lists is not None) + 2 * codec.has_bytes
        self._counters = np.zeros(3, np.int64)
        self._free = np.zeros(0, np.int32)
        self._arena = ByteArena(account)
        self._table = np.zeros(0, np.uint64)
        self._rows = np.zeros((0, self._columns), np.int64)
        self._nulls = np.zeros(0, np.uint32)
        self._hashes = np.zeros(0, np.uint64)
        self._grow()

    def __len__(self) -> int:
        return int(self._counters[HIGH] - self._counters[FREE])

    def locate(self, keys: KeyBatch, prefix: NDArray[np.int64] | None, create: bool) -> tuple[Slots, Slots]:
        """Return the slot of every row (-1: absent and not created) and the slots created, in order.

        Raises:
            StateBudgetError: no room for all of them; then none was created.
        """
        length = len(keys)
        located = np.empty(length, np.int64)
        if length == 0:
            return located, NO_SLOTS
        if (prefix is None) != (self._lists is None):
            raise BugError("a prefix goes with every key of a prefixed table, and with no other.")
        arrays = keys.arrays()
        prefixes = NO_INTEGERS if prefix is None else read_only(prefix)
        if create and arrays.nulls.size:
            self._store_nulls()
        ahead = _PREFETCH_AHEAD if len(self._table) >= _PREFETCH_FROM else 0
        unsettled = kernels.guess(arrays, prefixes, self._arrays(), create, ahead, located)
        if not unsettled:
            return located, NO_SLOTS
        fresh = np.empty(unsettled if create else 0, np.int64)
        self._counters[FRESH] = 0
        try:
            self._settle(arrays, prefixes, create, located, fresh)
            created = fresh[: self._counters[FRESH]]
            if self._lists is not None:
                self._lists.add(created, self.prefixes(created))
        except StateBudgetError:
            self._release(fresh[: self._counters[FRESH]])
            raise
        return located, created

    def reserve(self, keys: int) -> None:
        """Make room for so many more keys."""
        table_size = max(len(self._table), _SMALLEST_TABLE)
        while table_size * _LOAD_PERCENT // 100 < len(self) + keys:
            table_size *= 2
        if table_size > len(self._table):
            self._resize(table_size)

    def remove(self, slots: Slots) -> None:
        """Remove live slots, each given once."""
        if len(slots) == 0:
            return
        if self._lists is not None:
            prefixes = self.prefixes(slots)
            self._release(slots)
            self._lists.remove(slots, prefixes)
        else:
            self._release(slots)

    def live(self) -> Slots:
        """Return all live slots, ascending."""
        high = self._counters[HIGH]
        if not self._counters[FREE]:
            return np.arange(high, dtype=np.int64)
        alive = np.ones(high, np.bool_)
        alive[self._free[: self._counters[FREE]]] = False
        slots: Slots = np.flatnonzero(alive)
        return slots

    def key_columns(self, slots: Slots | slice) -> list[pa.Array]:
        """Return the key columns of these slots, in their declared types; of a slice sooner than of single slots."""
        rows = self._rows[slots] if isinstance(slots, slice) else self._rows.take(slots, axis=0)
        nulls = self._nulls[slots] if len(self._nulls) else None
        data, offsets = None, None
        if self._codec.has_bytes:
            data, offsets = gather_bytes(self._arena.data, rows[:, -2], rows[:, -1])
        return self._codec.decode(rows[:, : self._width], nulls, data, offsets)

    def prefixes(self, slots: Slots) -> NDArray[np.int64]:
        """Return the prefix of each slot."""
        prefixes: NDArray[np.int64] = self._rows[slots, self._width]
        return prefixes

    def hashes(self, slots: Slots) -> NDArray[np.uint64]:
        """Return the key hash of each slot."""
        return self._hashes[slots]

    def _settle(
        self,
        arrays: KeyArrays,
        prefixes: NDArray[np.int64],
        create: bool,
        located: Slots,
        fresh: Slots,
    ) -> None:
        done = 0
        while True:
            done = kernels.settle(
                arrays,
                prefixes,
                self._arrays(),
                done,
                create,
                _PREFETCH_AHEAD if len(self._table) >= _PREFETCH_FROM else 0,
                located,
                fresh,
            )
            if done == len(located):
                return
            self._make_room(arrays.offsets, done)

    def _release(self, slots: Slots) -> None:
        prefixed, has_bytes = self._lists is not None, self._codec.has_bytes
        failed = kernels.release(read_only(slots), self._width, prefixed, has_bytes, self._arrays())
        if failed >= 0:
            raise BugError(f"slot {slots[failed]} was removed but is not live.")
        if len(self) == 0:
            self._counters[HIGH] = self._counters[FREE] = 0
            self._arena.clear()
        elif self._arena.worth_packing:
            self._pack(0)

    def _make_room(self, offsets: NDArray[np.int64], row: int) -> None:
        """Make room for the key of this row, which stopped `locate`."""
        needed = int(offsets[row + 1] - offsets[row]) if self._codec.has_bytes else 0
        if self._arena.room < needed:
            if self._arena.worth_packing:
                self._pack(needed)
            else:
                self._arena.reserve(needed)
        else:
            self._grow()

    def _grow(self) -> None:
        """Double the table, and with it the number of slots."""
        self._resize(max(2 * len(self._table), _SMALLEST_TABLE))

    def _resize(self, table_size: int) -> None:
        slots = table_size * _LOAD_PERCENT // 100
        if slots > _MOST_SLOTS:
            raise StateBudgetError(
                f"one table of operator {self._account.budget.owner!r} has reached {_MOST_SLOTS:,} keys: "
                "raise the operator's parallelism."
            )
        self._on_grow(slots)
        if self._lists is not None:
            self._lists.grow(slots)
        stored: list[NDArray[Any]] = [self._free, self._rows, self._nulls, self._hashes]
        larger = [zeros((slots, *old.shape[1:]), old.dtype) for old in stored]
        if not len(self._nulls):
            larger[2] = self._nulls
        table = zeros(table_size, np.uint64)
        change = sum(new.nbytes for new in larger) - sum(old.nbytes for old in stored)
        self._account.charge(change + table.nbytes - self._table.nbytes)
        for new, old in zip(larger, stored, strict=True):
            new[: len(old)] = old
        kernels.rehash(self._table, table)
        self._free, self._rows, self._nulls, self._hashes = larger
        self._table = table

    def _store_nulls(self) -> None:
        if not len(self._nulls):
            nulls = np.zeros(len(self._hashes), np.uint32)
            self._account.charge(nulls.nbytes)
            self._nulls = nulls

    def _arrays(self) -> IndexArrays:
        arena = self._arena
        slots = self._rows, self._nulls, self._hashes
        return IndexArrays(self._table, *slots, arena.data, arena.usage, self._free, self._counters)

    def _pack(self, extra_bytes: int) -> None:
        live = self.live()
        rows = self._rows
        rows[live, -2] = self._arena.pack(rows[live, -2], rows[live, -1], extra_bytes)


def estimate_distinct(hashes: NDArray[np.uint64]) -> int:
    """Return an estimate of the number of distinct hashes, within a few percent (linear counting)."""
    places = 1 << max(len(hashes) - 1, 1).bit_length()
    marked = kernels.mark(read_only(hashes), np.zeros(places, np.bool_))
    if marked == places:
        return len(hashes)
    return min(len(hashes), math.ceil(-places * math.log1p(-marked / places)))
