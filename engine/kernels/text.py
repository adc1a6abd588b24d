"""Kernels over the bytes of string arrays: searching, counting, cutting and reading numbers, eight bytes at a time.

`expressions.text` and `expressions.casts` call them. ``offsets`` (int32, one more than rows) and ``data`` (uint8) are
those of an Arrow string array; rows under a null are processed like any other.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.state.kernels.byte_strings import same_bytes
from penstock.state.kernels.intrinsics import address, inlined, load8, load64
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints, Mask

Offsets = npt.NDArray[np.int32]

_0, _1, _3, _7, _56 = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(7), np.uint64(56)
_64 = np.uint64(64)
_ONES = np.uint64(0x0101010101010101)
_LOW7 = np.uint64(0x7F7F7F7F7F7F7F7F)


@inlined
def _word(at: Any, left: Any, end: Any) -> Any:
    """Return the next 8 bytes of a row, or its last ``left`` < 8; what is above them is not to be looked at.

    ``end`` is how many bytes of the data come before the end of the row.
    """
    if left >= 8:
        return load64(at)
    if end >= 8:
        return load64(at + left - 8) >> (_64 - (np.uint64(left) << _3))
    word = _0
    for j in range(left):
        word |= load8(at + j) << (np.uint64(j) << _3)
    return word


@inlined
def _matches(word: np.uint64, pattern: np.uint64, left: Any) -> Any:
    """Return a word with the top bit set of every byte that equals the pattern's, among the first ``left``."""
    x = word ^ pattern
    tops = ~(((x & _LOW7) + _LOW7) | x | _LOW7)
    if left < 8:
        tops &= (_1 << (np.uint64(left) << _3)) - _1
    return tops


@inlined
def _first(tops: np.uint64) -> Any:
    """Return the index of the lowest byte whose top bit is set."""
    below = (tops & (~tops + _1)) - _1
    return np.int64((((below & _ONES) * _ONES) >> _56) - _1)


@jit
def equals(offsets: Offsets, data: Bytes, wanted: Bytes, result: Mask) -> None:
    """Write whether each row is exactly ``wanted``.

    Up to 8 bytes are compared without a branch, because which rows match is hard to predict.
    """
    base = address(data)
    other = address(wanted)
    size = wanted.size
    head = min(size, 8)
    mask = ~_0 if head == 8 else (_1 << (np.uint64(head) << _3)) - _1
    pattern = _word(other, head, size) & mask
    # Rows that begin before here have 8 bytes to load, whatever their length.
    safe = data.size - 8
    for i in range(result.size):
        start = np.int64(offsets[i])
        left = np.int64(offsets[i + 1]) - start
        word = load64(base + start) if start <= safe else _word(base + start, left, start + left)
        same = (left == size) & ((word ^ pattern) & mask == _0)
        if size > 8 and same:
            same = same_bytes(base + start, other, size)
        result[i] = same


@jit
def count_byte(offsets: Offsets, data: Bytes, byte: np.uint64, counts: Ints) -> None:
    """Write how often a byte occurs in each row."""
    base = address(data)
    pattern = byte * _ONES
    for i in range(counts.size):
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        count = _0
        while at < end:
            tops = _matches(_word(base + at, end - at, end), pattern, end - at)
            count += ((tops >> _7) * _ONES) >> _56
            at += 8
        counts[i] = count


@jit
def contains(offsets: Offsets, data: Bytes, wanted: Bytes, result: Mask) -> None:
    """Write whether ``wanted`` (at least one byte) occurs in each row."""
    base = address(data)
    other = address(wanted)
    size = wanted.size
    pattern = load8(other) * _ONES
    for i in range(result.size):
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        last = end - size
        found_it = False
        while at <= last and not found_it:
            tops = _matches(_word(base + at, end - at, end), pattern, end - at)
            while tops != _0 and not found_it:
                candidate = at + _first(tops)
                if candidate > last:
                    break
                found_it = same_bytes(base + candidate, other, size)
                tops &= tops - _1
            at += 8
        result[i] = found_it


@jit
def split(offsets: Offsets, data: Bytes, separator: Bytes, starts: Ints) -> None:
    """Write where the first parts of each row begin: starts[k, row] for part k (0 is the row's own start).

    starts[parts, row] is the end of the row plus the separator's size, so that a part ends that much before the next
    one begins; behind it is -1.
    """
    base = address(data)
    other = address(separator)
    size = separator.size
    pattern = load8(other) * _ONES
    most = starts.shape[0] - 1
    for i in range(starts.shape[1]):
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        starts[0, i] = at
        parts = 0
        free = at
        while at < end and parts < most:
            tops = _matches(_word(base + at, end - at, end), pattern, end - at)
            while tops != _0 and parts < most:
                candidate = at + _first(tops)
                tops &= tops - _1
                if size > 1:
                    if candidate < free or candidate + size > end:
                        continue
                    if not same_bytes(base + candidate, other, size):
                        continue
                    free = candidate + size
                parts += 1
                starts[parts, i] = candidate + size
            at += 8
        if parts < most:
            starts[parts + 1, i] = end + size
            for k in range(parts + 2, most + 1):
                starts[k, i] = -1


@jit
def parse_integers(
    offsets: Offsets,
    data: Bytes,
    numbers: Ints,
    good: Mask,
) -> None:
    """Read decimal integers (an optional sign and digits, nothing else); ``good`` says which rows are in int64."""
    limit = np.uint64(9223372036854775807)
    for i in range(numbers.size):
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        negative = at < end and bool(data[at] == 45)
        if negative or (at < end and data[at] == 43):
            at += 1
        fine = bool(at < end)
        value = _0
        while at < end:
            digit = np.uint64(data[at]) - np.uint64(48)
            if digit > np.uint64(9) or value > np.uint64(922337203685477580):
                fine = False
                break
            value = value * np.uint64(10) + digit
            at += 1
        if value > limit and not (negative and value == limit + _1):
            fine = False
        numbers[i] = (-np.int64(value) if negative else np.int64(value)) if fine else 0
        good[i] = fine
