"""The hash index of keys, as kernels: open addressing with linear probing over slots.

An entry of the table is (low half of the table hash) << 32 | slot + 1, and 0 is empty: growing and removing need the
entries alone, finding compares the key itself. `key_index` owns the arrays and calls the kernels
(docs/design/keyed-state.md 1).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.byte_strings import copy_bytes, same_bytes
from penstock.state.kernels.intrinsics import address, inlined, prefetch
from penstock.state.kernels.jit import jit
from penstock.state.keys.batch_keys import KeyArrays

# What `counters` holds: slots ever given out, slots on the free list, slots created by this call.
HIGH, FREE, FRESH = 0, 1, 2
# What `usage` of a byte arena holds: bytes given out, and bytes of them that nobody needs any more.
USED, GARBAGE = 0, 1

# What `located` holds where there is no slot.
ABSENT, UNSETTLED = -1, -2

_BLOCK = 256
_NO_NULL = np.uint32(0)
_0, _1, _3, _32 = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_PREFIX = np.uint64(0x9E3779B97F4A7C15)


class IndexArrays(NamedTuple):
    """The arrays of one index: its table, what is stored per slot, the arena of byte strings, and its counts.

    A row of ``rows`` is the key's words, then the prefix if there is one, then start and length in the arena if the key
    has a byte string: one cache line for all. ``nulls`` has size 0 until the first key with a null. ``free`` lists the
    slots to be given out again; `HIGH`, `FREE` and `FRESH` say what ``counters`` holds, `USED` and `GARBAGE` ``usage``.
    """

    table: NDArray[np.uint64]
    rows: NDArray[np.int64]
    nulls: NDArray[np.uint32]
    hashes: NDArray[np.uint64]
    arena: NDArray[np.uint8]
    usage: NDArray[np.int64]
    free: NDArray[np.int32]
    counters: NDArray[np.int64]


@inlined
def table_hash(key_hash: np.uint64, prefix: int) -> np.uint64:
    """Mix a prefix into a key's hash; the low half counts."""
    spread = np.uint64(prefix) * _PREFIX
    return key_hash ^ (spread >> _32) ^ (spread << _32)


@jit
def guess(
    keys: KeyArrays,
    prefix: NDArray[np.int64],
    index: IndexArrays,
    create: bool,
    ahead: int,
    located: NDArray[np.int64],
) -> int:
    """Write to `located` the first slot that the table alone suggests for each row, once its key proved to be the same.

    Otherwise it is ABSENT (no such key) or UNSETTLED (another key with the same half of a hash came first). Every part
    of the key has a short loop of its own, so that the cache misses of many rows overlap. With ``ahead`` > 0 memory is
    prefetched for that many rows, for tables beyond the caches.

    Returns:
        How many rows are left to `settle`: the UNSETTLED ones, and the ABSENT ones if they are to be created.
    """
    words, nulls, data, offsets, hashes = keys
    table, rows, slot_nulls, _, arena, _, _, _ = index
    row_bytes = 8 * rows.shape[1]
    word_bytes = 8 * words.shape[1]
    words_at = address(words)
    data_at = address(data)
    rows_at = address(rows)
    arena_at = address(arena)
    table_at = address(table)
    start_at = rows.shape[1] - 2
    length_at = rows.shape[1] - 1
    mask = np.uint64(table.size - 1)
    left = 0
    for first in range(0, hashes.size, _BLOCK):
        end = min(first + _BLOCK, hashes.size)
        for i in range(first, end):
            if ahead and i + ahead < hashes.size:
                h = table_hash(hashes[i + ahead], prefix[i + ahead]) if prefix.size else hashes[i + ahead]
                prefetch(table_at + np.int64((h & mask) << _3))
            h = table_hash(hashes[i], prefix[i]) if prefix.size else hashes[i]
            position = h & mask
            entry = table[position]
            while entry != _0 and entry >> _32 != h & _LOW:
                position = (position + _1) & mask
                entry = table[position]
            located[i] = np.int64(entry & _LOW) - 1
        if word_bytes:
            for i in range(first, end):
                slot = located[i]
                if slot >= 0 and not same_bytes(rows_at + slot * row_bytes, words_at + i * word_bytes, word_bytes):
                    located[i] = UNSETTLED
        if prefix.size:
            for i in range(first, end):
                slot = located[i]
                if slot >= 0 and rows[slot, words.shape[1]] != prefix[i]:
                    located[i] = UNSETTLED
        if nulls.size or slot_nulls.size:
            for i in range(first, end):
                slot = located[i]
                null = nulls[i] if nulls.size else _NO_NULL
                if slot >= 0 and null != (slot_nulls[slot] if slot_nulls.size else _NO_NULL):
                    located[i] = UNSETTLED
        if offsets.size and ahead:
            for i in range(first, end):
                if located[i] >= 0:
                    prefetch(arena_at + rows[located[i], start_at])
        if offsets.size:
            for i in range(first, end):
                slot = located[i]
                length = offsets[i + 1] - offsets[i]
                if slot >= 0 and (
                    rows[slot, length_at] != length
                    or not same_bytes(arena_at + rows[slot, start_at], data_at + offsets[i], length)
                ):
                    located[i] = UNSETTLED
        for i in range(first, end):
            left += located[i] == UNSETTLED or (create and located[i] == ABSENT)
    return left


@jit
def settle(
    keys: KeyArrays,
    prefix: NDArray[np.int64],
    index: IndexArrays,
    begin: int,
    create: bool,
    ahead: int,
    located: NDArray[np.int64],
    fresh: NDArray[np.int64],
) -> int:
    """Find (or create) the slots of the rows from `begin` on that `guess` left ABSENT or UNSETTLED, in order.

    With ``ahead`` > 0 the table is prefetched for that many rows. Stops early where a key must be created and there is
    no slot or no room in the arena for it.

    Returns:
        The first row not done.
    """
    words, nulls, data, offsets, hashes = keys
    table, rows, slot_nulls, slot_hashes, arena, usage, free, counters = index
    row_bytes = 8 * rows.shape[1]
    word_bytes = 8 * words.shape[1]
    words_at = address(words)
    data_at = address(data)
    rows_at = address(rows)
    arena_at = address(arena)
    start_at = rows.shape[1] - 2
    length_at = rows.shape[1] - 1
    table_at = address(table)
    mask = np.uint64(table.size - 1)
    for i in range(begin, hashes.size):
        if ahead and i + ahead < hashes.size and located[i + ahead] < 0:
            h = table_hash(hashes[i + ahead], prefix[i + ahead]) if prefix.size else hashes[i + ahead]
            prefetch(table_at + np.int64((h & mask) << _3))
        if located[i] >= 0:
            continue
        h = table_hash(hashes[i], prefix[i]) if prefix.size else hashes[i]
        null = nulls[i] if nulls.size else _NO_NULL
        length: Any = offsets[i + 1] - offsets[i] if offsets.size else np.int64(0)
        match = np.int64(ABSENT)
        position = h & mask
        while table[position] != _0:
            slot = np.int64(table[position] & _LOW) - 1
            if (
                table[position] >> _32 == h & _LOW
                and same_bytes(rows_at + slot * row_bytes, words_at + i * word_bytes, word_bytes)
                and (prefix.size == 0 or rows[slot, words.shape[1]] == prefix[i])
                and null == (slot_nulls[slot] if slot_nulls.size else _NO_NULL)
                and (
                    offsets.size == 0
                    or (
                        rows[slot, length_at] == length
                        and same_bytes(arena_at + rows[slot, start_at], data_at + offsets[i], length)
                    )
                )
            ):
                match = slot
                break
            position = (position + _1) & mask
        if match == ABSENT and create:
            if usage[USED] + length > arena.size:
                return i
            if counters[FREE] > 0:
                counters[FREE] -= 1
                match = np.int64(free[counters[FREE]])
            elif counters[HIGH] < slot_hashes.size:
                match = counters[HIGH]
                counters[HIGH] += 1
            else:
                return i
            table[position] = ((h & _LOW) << _32) | np.uint64(match + 1)
            slot_hashes[match] = hashes[i]
            copy_bytes(words_at + i * word_bytes, rows_at + match * row_bytes, word_bytes)
            if prefix.size:
                rows[match, words.shape[1]] = prefix[i]
            if slot_nulls.size:
                slot_nulls[match] = null
            if offsets.size:
                rows[match, start_at] = usage[USED]
                rows[match, length_at] = length
                copy_bytes(data_at + offsets[i], arena_at + usage[USED], length)
                usage[USED] += length
            fresh[counters[FRESH]] = match
            counters[FRESH] += 1
        located[i] = match
    return hashes.size


@jit
def release(removed: NDArray[np.int64], width: int, prefixed: bool, has_bytes: bool, index: IndexArrays) -> int:
    """Take slots out of the table, the last one first, and put them on the free list.

    Returns:
        -1, or the first position whose slot is not live, where it stopped.
    """
    table, rows, _, slot_hashes, _, usage, free, counters = index
    mask = np.uint64(table.size - 1)
    for i in range(removed.size - 1, -1, -1):
        slot = removed[i]
        if slot < 0 or slot >= counters[HIGH]:
            return i
        h = slot_hashes[slot]
        if prefixed:
            h = table_hash(h, rows[slot, width])
        wanted = ((h & _LOW) << _32) | np.uint64(slot + 1)
        hole = h & mask
        while table[hole] != wanted:
            if table[hole] == _0:
                return i
            hole = (hole + _1) & mask
        # Close the gap: an entry may move back unless that would put it before its home.
        position = hole
        while True:
            position = (position + _1) & mask
            entry = table[position]
            if entry == _0:
                break
            home = (entry >> _32) & mask
            if (position - home) & mask >= (position - hole) & mask:
                table[hole] = entry
                hole = position
        table[hole] = _0
        if has_bytes:
            usage[GARBAGE] += rows[slot, rows.shape[1] - 1]
        free[counters[FREE]] = slot
        counters[FREE] += 1
    return -1


@jit
def mark(hashes: NDArray[np.uint64], marks: NDArray[np.bool_]) -> int:
    """Mark the place of every hash in `marks`, a power of two in size; return how many places are marked."""
    mask = np.uint64(marks.size - 1)
    marked = 0
    for i in range(hashes.size):
        place = hashes[i] & mask
        marked += not marks[place]
        marks[place] = True
    return marked


@jit
def rehash(table: NDArray[np.uint64], larger: NDArray[np.uint64]) -> None:
    """Enter every entry into a larger, empty table."""
    mask = np.uint64(larger.size - 1)
    for i in range(table.size):
        entry = table[i]
        if entry != _0:
            position = (entry >> _32) & mask
            while larger[position] != _0:
                position = (position + _1) & mask
            larger[position] = entry
