"""Decimals without trailing zeros, so that 1.0 and 1.00 are one key: kernels on 128-bit values.

A normalised decimal is three words (low, high, scale): value = (high * 2^64 + low) / 10^scale; zero has scale 0.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit

_0, _1, _10 = np.uint64(0), np.uint64(1), np.uint64(10)
_3, _32, _61, _63 = np.uint64(3), np.uint64(32), np.uint64(61), np.uint64(63)
_LOW = np.uint64(0xFFFFFFFF)


@jit
def strip_zeros(raw: NDArray[np.int64], scale: int, words: NDArray[np.int64]) -> None:
    """Write the normalised words[n, 3] of raw[n, 2], unscaled (low, high) values of this scale."""
    for i in range(raw.shape[0]):
        low = raw[i, 0]
        high = raw[i, 1]
        left = scale
        if low == 0 and high == 0:
            left = 0
        elif high == low >> 63:
            while low % 10 == 0:
                low //= 10
                left -= 1
            high = low >> 63
        else:
            negative = high < 0
            h = np.uint64(high)
            l = np.uint64(low)  # noqa: E741
            if negative:
                h, l = _negated(h, l)  # noqa: E741
            while True:
                quotient_h, quotient_l, remainder = _tenth(h, l)
                if remainder != _0:
                    break
                h, l = quotient_h, quotient_l  # noqa: E741
                left -= 1
            if negative:
                h, l = _negated(h, l)  # noqa: E741
            high = np.int64(h)
            low = np.int64(l)
        words[i, 0] = low
        words[i, 1] = high
        words[i, 2] = left


@jit
def restore_zeros(words: NDArray[np.int64], scale: int, raw: NDArray[np.int64]) -> None:
    """Undo `strip_zeros`: write the unscaled (low, high) values at this scale."""
    for i in range(raw.shape[0]):
        low = np.uint64(words[i, 0])
        high = np.uint64(words[i, 1])
        for _ in range(scale - words[i, 2]):
            twice_low, twice_high = low << _1, (high << _1) | (low >> _63)
            low, high = low << _3, (high << _3) | (low >> _61)
            low = low + twice_low
            high = high + twice_high + (_1 if low < twice_low else _0)
        raw[i, 0] = np.int64(low)
        raw[i, 1] = np.int64(high)


@jit
def _negated(high: np.uint64, low: np.uint64) -> tuple[np.uint64, np.uint64]:
    low = ~low + _1
    return ~high + (_1 if low == _0 else _0), low


@jit
def _tenth(high: np.uint64, low: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Divide an unsigned 128-bit value by ten: (high, low, remainder), by 32-bit digits."""
    digit = high >> _32
    q3 = digit // _10
    digit = ((digit % _10) << _32) | (high & _LOW)
    q2 = digit // _10
    digit = ((digit % _10) << _32) | (low >> _32)
    q1 = digit // _10
    digit = ((digit % _10) << _32) | (low & _LOW)
    q0 = digit // _10
    return (q3 << _32) | q2, (q1 << _32) | q0, digit % _10
