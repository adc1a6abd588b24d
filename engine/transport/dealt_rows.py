"""Rows that an exchange writes straight to where their receivers will read them, each value once.

For batches whose columns are 8 bytes a value and hold no null; `exchange.Hash` deals other batches out by row numbers.
"""

import weakref
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.engine.elements import Batch
from penstock.state.arrays import NO_INTEGERS, read_only, zeros
from penstock.state.intrinsics import load64, store64
from penstock.state.jit import jit

_32 = np.uint64(32)
_MOST_SPARE = 4


class DealtRows:
    """Rows that no batch was made of yet, from ``start`` to ``end`` of columns that have more room.

    Batches are made without copying, so what was handed out is not written to any more.
    """

    __slots__ = ("_columns", "_room_rows", "_words", "addresses", "end", "header", "schema", "start")

    def __init__(self, header: Batch, memory: "Memory", room_rows: int) -> None:
        """Make room for ``room_rows`` rows like those of ``header``."""
        self.header = header
        self.schema = header.rows.schema
        self._room_rows = room_rows
        words, block = memory.lend(room_rows * len(self.schema))
        starts = [room_rows * place for place in range(len(self.schema))]
        self._words = [words[start : start + room_rows] for start in starts]
        self._columns = [block.slice(8 * start, 8 * room_rows) for start in starts]
        self.addresses = np.array([column.address for column in self._columns], np.int64)
        self.start = 0
        self.end = 0

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return self.end - self.start

    def goes_with(self, batch: Batch) -> bool:
        """Return whether a batch's rows may stand under one header with those that are here."""
        return batch.keep == self.header.keep and batch.rows.schema.equals(self.schema)

    def has_room(self, rows: int) -> bool:
        """Return whether so many rows may be added."""
        return self._room_rows - self.end >= rows

    def move_to(self, other: "DealtRows") -> None:
        """Let the rows go to the beginning of another, empty one of the same schema."""
        for source, target in zip(self._words, other._words, strict=True):
            target[: self.rows] = source[self.start : self.end]
        other.end = self.rows
        self.start = self.end

    def take(self, most_rows: int) -> Batch:
        """Return the first rows and forget them."""
        rows = min(most_rows, self.rows)
        columns = [
            pa.Array.from_buffers(field.type, rows, [None, column.slice(8 * self.start, 8 * rows)])
            for field, column in zip(self.schema, self._columns, strict=True)
        ]
        self.start += rows
        return self.header.with_rows(pa.RecordBatch.from_arrays(columns, schema=self.schema))


class Memory:
    """Blocks of memory that come back when no batch over them is left; fresh memory costs more than writing to it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._spare: list[NDArray[np.int64]] = []

    def lend(self, words: int) -> tuple[NDArray[np.int64], pa.Buffer]:
        """Return memory for so many 8-byte values, or for more, to write to; it is lent as long as the buffer lives."""
        array = self._spare.pop() if self._spare else NO_INTEGERS
        if array.size < words:
            array = zeros(words, np.int64)
        lent = array[:]
        weakref.finalize(lent, self._take_back, array)
        return array, pa.py_buffer(lent)

    def _take_back(self, array: NDArray[np.int64]) -> None:
        if len(self._spare) < _MOST_SPARE:
            self._spare.append(array)


def can_be_dealt(rows: pa.RecordBatch) -> bool:
    """Return whether every column is 8 bytes a value, without nulls."""
    return all(
        pt.is_primitive(column.type) and column.type.bit_width == 64 and not column.null_count
        for column in rows.columns
    ) and bool(rows.num_columns)


def deal(
    rows: pa.RecordBatch, hashes: NDArray[np.uint64], owners: NDArray[np.int32], targets: Sequence[DealtRows]
) -> list[int]:
    """Add every row to the target that owns its key group, in order; return how many each got."""
    sources = [column.buffers()[1].address + 8 * column.offset for column in rows.columns]
    before = [target.end for target in targets]
    places = np.array(before, np.int64)
    hashes, owners = read_only(hashes), read_only(owners)
    kernel = _deal_to_two if len(targets) == 2 else _deal
    # Two columns at a time: that many addresses stay in registers. The last one of an odd number is written twice.
    for first in range(0, len(sources), 2):
        pair = (first, min(first + 1, len(sources) - 1))
        places[:] = before
        addresses = np.array([[target.addresses[column] for column in pair] for target in targets], np.int64)
        kernel(hashes, owners, sources[pair[0]], sources[pair[1]], addresses, places)
    for target, end in zip(targets, places.tolist(), strict=True):
        target.end = end
    return [target.end - start for target, start in zip(targets, before, strict=True)]


@jit
def _deal_to_two(
    hashes: NDArray[np.uint64],
    owner_of_group: NDArray[np.int32],
    source: int,
    other_source: int,
    addresses: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    """Write two columns to two receivers, without a branch or a place in memory that every row waits for."""
    groups = np.uint64(owner_of_group.size)
    low, other_low = addresses[0, 0] + 8 * places[0], addresses[0, 1] + 8 * places[0]
    high, other_high = addresses[1, 0] + 8 * places[1], addresses[1, 1] + 8 * places[1]
    first = second = np.int64(0)
    for i in range(hashes.size):
        owner = np.int64(owner_of_group[((hashes[i] >> _32) * groups) >> _32])
        store64((high + second) if owner else (low + first), load64(source + 8 * i))
        store64((other_high + second) if owner else (other_low + first), load64(other_source + 8 * i))
        second += 8 * owner
        first += 8 - 8 * owner
    places[0] += first // 8
    places[1] += second // 8


@jit
def _deal(
    hashes: NDArray[np.uint64],
    owner_of_group: NDArray[np.int32],
    source: int,
    other_source: int,
    addresses: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    """Write two columns to any number of receivers."""
    groups = np.uint64(owner_of_group.size)
    for i in range(hashes.size):
        owner = owner_of_group[((hashes[i] >> _32) * groups) >> _32]
        place = 8 * places[owner]
        places[owner] += 1
        store64(addresses[owner, 0] + place, load64(source + 8 * i))
        store64(addresses[owner, 1] + place, load64(other_source + 8 * i))
