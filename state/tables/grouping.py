"""Grouping of the rows of one batch by key, without lasting state.

Consolidation of changelogs, window joins and local pre-aggregation call it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.byte_strings import same_bytes
from penstock.state.kernels.intrinsics import address, inlined
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import NO_INTEGERS, read_only
from penstock.state.keys.batch_keys import KeyArrays, KeyBatch
from penstock.state.tables.index_kernels import table_hash

_SMALLEST_TABLE = 256
_GROWTH = 8
_0, _1, _32 = np.uint64(0), np.uint64(1), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class KeyGrouper:
    """Groups batches one after the other; only its scratch memory is kept between them."""

    def __init__(self) -> None:
        self._table = np.zeros(_SMALLEST_TABLE, np.uint64)

    def group(
        self, keys: KeyBatch, prefix: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number the distinct keys (with their prefixes, if given) of a batch in order of first appearance.

        Returns:
            group_of_row: int64[n].
            first_row_of_group: int64[groups], ascending.
        """
        length = len(keys)
        group_of_row = np.empty(length, np.int64)
        first_row = np.empty(length, np.int64)
        largest = _SMALLEST_TABLE
        while largest < 2 * length:
            largest *= _GROWTH
        if largest > len(self._table):
            self._table = np.zeros(largest, np.uint64)
        groups = _group(
            keys.arrays(),
            NO_INTEGERS if prefix is None else read_only(prefix),
            self._table,
            group_of_row,
            first_row,
        )
        return group_of_row, first_row[:groups]


@jit
def _group(
    keys: KeyArrays,
    prefix: NDArray[np.int64],
    table: NDArray[np.uint64],
    group_of_row: NDArray[np.int64],
    first_row: NDArray[np.int64],
) -> int:
    """Number the keys with an index in the front part of `table`, which grows with the groups; return how many."""
    words, nulls, data, offsets, hashes = keys
    word_bytes = 8 * words.shape[1]
    words_at = address(words)
    data_at = address(data)
    size = _SMALLEST_TABLE
    _clear(table, size)
    mask = np.uint64(size - 1)
    groups = 0
    for i in range(hashes.size):
        if 2 * groups >= size:
            size *= _GROWTH
            _clear(table, size)
            mask = np.uint64(size - 1)
            for group in range(groups):
                row = first_row[group]
                h = table_hash(hashes[row], prefix[row]) if prefix.size else hashes[row]
                position = h & mask
                while table[position] != _0:
                    position = (position + _1) & mask
                table[position] = ((h & _LOW) << _32) | np.uint64(group + 1)
        h = table_hash(hashes[i], prefix[i]) if prefix.size else hashes[i]
        position = h & mask
        group = -1
        while table[position] != _0:
            candidate: Any = np.int64(table[position] & _LOW) - 1
            row = first_row[candidate]
            if (
                table[position] >> _32 == h & _LOW
                and same_bytes(words_at + row * word_bytes, words_at + i * word_bytes, word_bytes)
                and (prefix.size == 0 or prefix[row] == prefix[i])
                and (nulls.size == 0 or nulls[row] == nulls[i])
                and (
                    offsets.size == 0
                    or (
                        offsets[row + 1] - offsets[row] == offsets[i + 1] - offsets[i]
                        and same_bytes(
                            data_at + offsets[row],
                            data_at + offsets[i],
                            offsets[i + 1] - offsets[i],
                        )
                    )
                )
            ):
                group = candidate
                break
            position = (position + _1) & mask
        if group < 0:
            group = groups
            first_row[group] = i
            groups += 1
            table[position] = ((h & _LOW) << _32) | np.uint64(group + 1)
        group_of_row[i] = group
    return groups


@inlined
def _clear(table: NDArray[np.uint64], size: int) -> None:
    for position in range(size):
        table[position] = _0
