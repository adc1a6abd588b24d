"""Compiled loops that keep the smallest key of each group: one or two 64-bit words, or bytes.

Called by ``engine/accumulators``; ``slots`` and ``signs`` as in `accumulate`, where only rows with
a positive sign take part. Every ordered type is mapped to such keys by
``accumulators/ordering.py``.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.accumulate import Signs
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints

_SIGN_OFF = np.int64(2**63 - 1)
_INFINITY = np.int64(0x7FF0000000000000)
_NAN = np.int64(0x7FF8000000000000)


@jit
def least_word(slots: Ints, signs: Signs, keys: Ints, best: Ints, has: Bytes) -> None:
    """Keep the smallest key; an empty group's ``best`` is the greatest integer."""
    if signs.shape[0] == 0:
        for i in range(slots.shape[0]):
            if slots[i] >= 0:
                slot = np.uint64(slots[i])
                best[slot] = min(best[slot], keys[i])
                has[slot] = 1
    else:
        for i in range(slots.shape[0]):
            if slots[i] >= 0:
                slot = np.uint64(slots[i])
                takes = signs[i] > 0
                old = best[slot]
                best[slot] = keys[i] if (takes and keys[i] < old) else old
                has[slot] |= np.uint8(takes)


@jit
def least_pair(
    slots: Ints,
    signs: Signs,
    firsts: Ints,
    seconds: Ints,
    best: Ints,
    best_second: Ints,
    has: Bytes,
) -> None:
    """Keep the smallest (first, second); both words of an empty group are the greatest integer."""
    plain = signs.shape[0] == 0
    for i in range(slots.shape[0]):
        if slots[i] >= 0 and (plain or signs[i] > 0):
            slot = np.uint64(slots[i])
            first = firsts[i]
            old = best[slot]
            if first < old or (first == old and seconds[i] < best_second[slot]):
                best[slot] = first
                best_second[slot] = seconds[i]
            has[slot] = 1


@jit
def least_text(groups: Ints, offsets: NDArray[np.int32], data: Bytes, descending: bool, winners: Ints) -> None:
    """Put the row with the smallest (``descending``: greatest) bytes of each group into winners
    (-1: none yet).
    """
    for row in range(groups.shape[0]):
        group = groups[row]
        best = winners[group]
        if best < 0:
            winners[group] = row
            continue
        start = np.int64(offsets[row])
        length = np.int64(offsets[row + 1]) - start
        best_start = np.int64(offsets[best])
        best_length = np.int64(offsets[best + 1]) - best_start
        order = length - best_length
        for k in range(min(length, best_length)):
            byte = np.int64(data[start + k])
            best_byte = np.int64(data[best_start + k])
            if byte != best_byte:
                order = byte - best_byte
                break
        if (order > 0) if descending else (order < 0):
            winners[group] = row


@jit
def double_keys(bits: Ints, keys: Ints) -> None:
    """Turn the bits of doubles into integers of the same order: one zero, one NaN, NaN greatest."""
    for i in range(bits.shape[0]):
        word = bits[i]
        magnitude = word & _SIGN_OFF
        key = word ^ ((word >> 63) & _SIGN_OFF)
        key = np.int64(0) if magnitude == 0 else key
        keys[i] = _NAN if magnitude > _INFINITY else key
