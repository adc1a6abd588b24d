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
from penstock.state.arrays import read_only
from penstock.state.intrinsics import load64, store64
from penstock.state.jit import jit

_32 = np.uint64(32)
_MOST_SPARE = 16


class DealtRows:
    """Rows that no batch was made of yet, from ``start`` to ``end`` of columns that have more room.

    Batches are made without copying, so what was handed out is not written to any more.
    """

    __slots__ = ("_columns", "_room_rows", "addresses", "end", "header", "schema", "start")

    def __init__(self, header: Batch, memory: "Memory", room_rows: int) -> None:
        """Make room for ``room_rows`` rows like those of ``header``."""
        self.header = header
        self.schema = header.rows.schema
        self._room_rows = room_rows
        self._columns = [memory.lend(room_rows) for _ in self.schema]
        self.addresses = np.array([column.address for column in self._columns], np.int64)
        self.start = 0
        self.end = 0

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return self.end - self.start

    def fits(self, batch: Batch) -> bool:
        """Return whether a batch's rows may all be added, under one header with those that are here."""
        there = self._room_rows - self.end
        same = batch.keep == self.header.keep and batch.rows.schema.equals(self.schema)
        return same and there >= batch.rows.num_rows

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
    """Columns of memory that come back when no batch over them is left; fresh memory costs more than writing to it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._spare: list[NDArray[np.int64]] = []

    def lend(self, words: int) -> pa.Buffer:
        """Return a writable buffer for so many 8-byte values, or for more."""
        array = self._spare.pop() if self._spare else np.empty(0, np.int64)
        if array.size < words:
            array = np.empty(words, np.int64)
        lent = array[:]
        weakref.finalize(lent, self._take_back, array)
        return pa.py_buffer(lent)

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
    sources = np.array([column.buffers()[1].address + 8 * column.offset for column in rows.columns], np.int64)
    places = np.array([target.end for target in targets], np.int64)
    addresses = np.array([target.addresses for target in targets], np.int64)
    _deal(read_only(hashes), read_only(owners), sources, addresses, places)
    counts = []
    for target, end in zip(targets, places.tolist(), strict=True):
        counts.append(end - target.end)
        target.end = end
    return counts


@jit
def _deal(
    hashes: NDArray[np.uint64],
    owner_of_group: NDArray[np.int32],
    sources: NDArray[np.int64],
    addresses: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    groups = np.uint64(owner_of_group.size)
    columns = sources.size
    for i in range(hashes.size):
        owner = owner_of_group[((hashes[i] >> _32) * groups) >> _32]
        place = 8 * places[owner]
        places[owner] += 1
        for column in range(columns):
            store64(addresses[owner, column] + place, load64(sources[column] + 8 * i))
