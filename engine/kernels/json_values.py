"""Single JSON values in memory, read by address. Called by the kernel that matches messages with shapes.

Each reader accepts less than JSON allows, and nothing that JSON does not: what it refuses is for a general decoder. An
address that is -1 stands for refused. Eight bytes behind ``end`` must be readable.
"""

import numpy as np

from penstock.state.kernels.intrinsics import inlined, load8, load64

_ONES = np.uint64(0x0101_0101_0101_0101)
_HIGHS = np.uint64(0x8080_8080_8080_8080)
_SPACES = np.uint64(0x2020_2020_2020_2020)
_QUOTES = np.uint64(0x2222_2222_2222_2222)
_BACKSLASHES = np.uint64(0x5C5C_5C5C_5C5C_5C5C)
_PLACES = np.uint64(0x0001_0203_0405_0607)
_LOW_WORD, _FIVE_BYTES = np.uint64(0xFFFF_FFFF), np.uint64(0xFF_FFFF_FFFF)
_SEVEN, _TOP = np.uint64(7), np.uint64(56)

_NULL = np.uint64(int.from_bytes(b"null", "little"))
_TRUE = np.uint64(int.from_bytes(b"true", "little"))
_FALSE = np.uint64(int.from_bytes(b"false", "little"))

_QUOTE, _COMMA, _COLON, _POINT, _MINUS = ord('"'), ord(","), ord(":"), ord("."), ord("-")
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = ord("{"), ord("}"), ord("["), ord("]")
_SPACE, _TAB, _ZERO = ord(" "), ord("\t"), ord("0")

MOST_DIGITS = 18
"""Integers of so many digits fit 64 bits."""

_MOST_EXACT_DIGITS = 15
_MOST_DEPTH = 48


@inlined
def byte_at(at: int) -> int:
    """Return the byte at an address."""
    return int(np.int64(load8(at)))


@inlined
def text_end(at: int, end: int) -> int:
    """Return where the closing quote of a text is that begins at ``at``; refuses escapes and control characters."""
    while at < end:
        word = load64(at)
        quotes = word ^ _QUOTES
        slashes = word ^ _BACKSLASHES
        stops = ((quotes - _ONES) & ~quotes) | ((slashes - _ONES) & ~slashes) | ((word - _SPACES) & ~word)
        stops &= _HIGHS
        if stops:
            # Only the lowest mark is sure to be one.
            lowest = stops & (~stops + np.uint64(1))
            at += int(np.int64(((lowest >> _SEVEN) * _PLACES) >> _TOP))
            if at < end and byte_at(at) == _QUOTE:
                return at
            return -1
        at += 8
    return -1


@inlined
def is_null(at: int) -> bool:
    """Return whether ``null`` is there."""
    return bool((load64(at) & _LOW_WORD) == _NULL)


@inlined
def flag(at: int) -> tuple[int, int]:
    """Return a boolean, and the address behind it."""
    word = load64(at)
    if (word & _LOW_WORD) == _TRUE:
        return 1, at + 4
    if (word & _FIVE_BYTES) == _FALSE:
        return 0, at + 5
    return 0, -1


@inlined
def digits(at: int, end: int) -> tuple[int, int]:
    """Return the number that at most `MOST_DIGITS` digits tell, and the address behind the last; there may be none."""
    stop = min(end, at + MOST_DIGITS)
    number = 0
    while at < stop:
        digit = byte_at(at) - _ZERO
        if digit < 0 or digit > 9:
            break
        number = number * 10 + digit
        at += 1
    return number, at


@inlined
def whole_number(at: int, end: int) -> tuple[int, int]:
    """Return an integer, and the address behind it; refuses -0 and more than `MOST_DIGITS` digits."""
    negative = byte_at(at) == _MINUS
    first = at + 1 if negative else at
    number, behind = digits(first, end)
    zero_first = byte_at(first) == _ZERO
    if behind == first or (zero_first and (negative or behind > first + 1)):
        return 0, -1
    return (-number if negative else number), behind


@inlined
def number_end(at: int, end: int) -> int:
    """Return the address behind a number without exponent, of not too many digits."""
    if byte_at(at) == _MINUS:
        at += 1
    _, behind = digits(at, end)
    if behind == at or (byte_at(at) == _ZERO and behind > at + 1):
        return -1
    if behind < end and byte_at(behind) == _POINT:
        _, last = digits(behind + 1, end)
        return last if last > behind + 1 else -1
    return behind


@inlined
def double(at: int, end: int) -> tuple[float, int]:
    """Return a number as the nearest double, and the address behind it.

    Refuses exponents, a negative zero, and more than 15 digits: up to there one division rounds correctly.
    """
    negative = byte_at(at) == _MINUS
    first = at + 1 if negative else at
    number, behind = digits(first, end)
    if behind == first or (byte_at(first) == _ZERO and behind > first + 1):
        return 0.0, -1
    count = behind - first
    divisor = 1.0
    if behind < end and byte_at(behind) == _POINT:
        point = behind
        behind = point + 1
        while behind < end and count <= _MOST_EXACT_DIGITS:
            digit = byte_at(behind) - _ZERO
            if digit < 0 or digit > 9:
                break
            number = number * 10 + digit
            divisor *= 10.0
            count += 1
            behind += 1
        if behind == point + 1:
            return 0.0, -1
    if count > _MOST_EXACT_DIGITS or (negative and number == 0):
        return 0.0, -1
    value = number / divisor
    return (-value if negative else value), behind


@inlined
def scalar_end(at: int, end: int) -> int:
    """Return the address behind a value that is no object and no list."""
    first = byte_at(at)
    if first == _QUOTE:
        behind = text_end(at + 1, end)
        return behind if behind < 0 else behind + 1
    if first == _MINUS or _ZERO <= first <= _ZERO + 9:
        return number_end(at, end)
    if is_null(at):
        return at + 4
    _, behind = flag(at)
    return behind


@inlined
def _gap_end(at: int, end: int) -> int:
    while at < end and (byte_at(at) == _SPACE or byte_at(at) == _TAB):
        at += 1
    return at


@inlined
def _name_end(at: int, end: int) -> int:
    """Return the address of the value behind a name and its colon."""
    if byte_at(at) != _QUOTE:
        return -1
    at = text_end(at + 1, end)
    if at < 0:
        return -1
    at = _gap_end(at + 1, end)
    return _gap_end(at + 1, end) if byte_at(at) == _COLON else -1


@inlined
def nested_end(at: int, end: int) -> int:
    """Return the address behind an object or a list; refuses what is nested deeply or stands on several lines."""
    objects = 0
    depth = 0
    while at < end:
        first = byte_at(at)
        if first in (_OPEN, _OPEN_LIST):
            if depth == _MOST_DEPTH:
                return -1
            depth += 1
            objects = objects * 2 + (1 if first == _OPEN else 0)
            at = _gap_end(at + 1, end)
            if byte_at(at) != (_CLOSE if first == _OPEN else _CLOSE_LIST):
                if first == _OPEN:
                    at = _name_end(at, end)
                    if at < 0:
                        return -1
                continue
            depth -= 1
            objects >>= 1
            at += 1
        else:
            at = scalar_end(at, end)
            if at < 0:
                return -1
        # Behind a value.
        while depth > 0:
            at = _gap_end(at, end)
            if at >= end:
                return -1
            in_object = objects & 1 == 1
            if byte_at(at) == _COMMA:
                at = _gap_end(at + 1, end)
                if in_object:
                    at = _name_end(at, end)
                    if at < 0:
                        return -1
                break
            if byte_at(at) != (_CLOSE if in_object else _CLOSE_LIST):
                return -1
            depth -= 1
            objects >>= 1
            at += 1
        if depth == 0:
            return at
    return -1


@inlined
def value_end(at: int, end: int) -> int:
    """Return the address behind any value."""
    first = byte_at(at)
    return nested_end(at, end) if first in (_OPEN, _OPEN_LIST) else scalar_end(at, end)
