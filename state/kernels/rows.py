"""Rows gathered from many record batches at once, as kernels over the addresses of their buffers.

`row_log` keeps one entry of int64 per chunk: FIRST id, ROWS, address of the IDS (0: consecutive) and of the ALIVE bytes
(0: all), then per column the addresses of validity (0: no nulls), values (or offsets) and data, and the array's offset.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.byte_strings import copy_bytes
from penstock.state.kernels.intrinsics import address, load8, load64, prefetch, store64
from penstock.state.kernels.jit import jit

FIRST, ROWS, IDS, ALIVE, COLUMNS = 0, 1, 2, 3, 4
VALIDITY, VALUES, DATA, OFFSET, COLUMN_FIELDS = 0, 1, 2, 3, 4

_0, _1, _7, _32 = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_WORD_BYTES = 8
_AHEAD, _LINE_BYTES, _FETCHED_BYTES = 8, 64, 256


@jit
def _chunk_of(wanted: int, entries: NDArray[np.int64]) -> int:
    """Return the last chunk that begins at this id or before it; the first if there is none."""
    chunk = 0
    beyond = entries.shape[0]
    while beyond - chunk > 1:
        middle = (chunk + beyond) // 2
        if entries[middle, FIRST] <= wanted:
            chunk = middle
        else:
            beyond = middle
    return chunk


@jit
def _row_named(wanted: int, named: int, rows: int) -> int | np.int64:
    """Return the place of this id among the ascending ids at an address, -1 if it is not there."""
    row = np.int64(0)
    end = np.int64(rows)
    while row < end:
        middle = (row + end) // 2
        if np.int64(load64(named + 8 * middle)) < wanted:
            row = middle + 1
        else:
            end = middle
    if row < rows and np.int64(load64(named + 8 * row)) == wanted:
        return row
    return np.int64(-1)


@jit
def find_rows(
    ids: NDArray[np.int64],
    entries: NDArray[np.int64],
    chunks: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> int:
    """Write the chunk of every id and its row there.

    Returns:
        -1, or the first position whose id is not kept.
    """
    # What a chunk's entry says is kept in locals: most rows lie in the chunk of the row before.
    chunk, first, rows_there, named, alive = 0, np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for i in range(ids.size):
        wanted = ids[i]
        row = wanted - first
        if row < 0 or row >= rows_there or named:
            chunk = _chunk_of(wanted, entries)
            first, rows_there = entries[chunk, FIRST], entries[chunk, ROWS]
            named, alive = entries[chunk, IDS], entries[chunk, ALIVE]
            row = _row_named(wanted, named, rows_there) if named else wanted - first
            if row < 0 or row >= rows_there:
                return i
        if alive and load8(alive + row) == _0:
            return i
        chunks[i] = chunk
        rows[i] = row
    return -1


@jit
def gather_bits(
    entries: NDArray[np.int64],
    field: int,
    offset_field: int,
    chunks: NDArray[np.int64],
    rows: NDArray[np.int64],
    bitmap: NDArray[np.uint8],
) -> int:
    """Write the bits of these rows to a bitmap of zeros; an absent buffer is all set.

    Returns:
        How many are not set.
    """
    unset = 0
    for i in range(rows.size):
        base = entries[chunks[i], field]
        bit = _1
        if base:
            at = rows[i] + entries[chunks[i], offset_field]
            bit = (load8(base + (at >> 3)) >> (np.uint64(at) & _7)) & _1
        if bit:
            bitmap[i >> 3] |= np.uint8(1 << (i & 7))
        else:
            unset += 1
    return unset


@jit
def gather_values(
    entries: NDArray[np.int64],
    field: int,
    width: int,
    chunks: NDArray[np.int64],
    rows: NDArray[np.int64],
    values: NDArray[np.uint8],
) -> None:
    """Write the values, `width` bytes each, of these rows."""
    target = address(values)
    if width == _WORD_BYTES:
        for i in range(rows.size):
            at = rows[i] + entries[chunks[i], field + OFFSET]
            store64(target + _WORD_BYTES * i, load64(entries[chunks[i], field + VALUES] + _WORD_BYTES * at))
        return
    for i in range(rows.size):
        at = rows[i] + entries[chunks[i], field + OFFSET]
        copy_bytes(entries[chunks[i], field + VALUES] + at * width, target + i * width, width)


@jit
def gather_spans(
    entries: NDArray[np.int64],
    field: int,
    chunks: NDArray[np.int64],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> None:
    """Write where the byte strings of these rows start, as addresses, and the offsets that they will have."""
    offsets[0] = 0
    for i in range(rows.size):
        at = rows[i] + entries[chunks[i], field + OFFSET]
        # A start and its end are neighbouring 32-bit offsets.
        span = load64(entries[chunks[i], field + VALUES] + 4 * at)
        starts[i] = entries[chunks[i], field + DATA] + np.int64(span & _LOW)
        offsets[i + 1] = offsets[i] + np.int64(span >> _32) - np.int64(span & _LOW)


@jit
def copy_spans(starts: NDArray[np.int64], offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
    """Copy the byte strings at these addresses to their offsets."""
    target = address(data)
    for i in range(starts.size):
        ahead = i + _AHEAD
        if ahead < starts.size:
            # The strings lie anywhere, and waiting for each would cost twice what copying does.
            length = offsets[ahead + 1] - offsets[ahead]
            for line in range(0, min(length, _FETCHED_BYTES), _LINE_BYTES):
                prefetch(starts[ahead] + line)
        copy_bytes(starts[i], target + offsets[i], offsets[i + 1] - offsets[i])
