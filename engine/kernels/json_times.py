"""Times in JSON texts, read by address: ``yyyy-MM-dd HH:mm:ss`` with a fraction or without, ``T`` and ``Z`` allowed.

Called by the kernel that matches messages with shapes. What is refused is for a general decoder.
"""

import numpy as np

from penstock.engine.kernels.json_values import byte_at, digits
from penstock.state.kernels.intrinsics import inlined, load64

_DATE = np.uint64(int.from_bytes(b"0000-00-", "little"))
_DATE_MARKS = np.uint64(int.from_bytes(b"\0\0\0\0\xff\0\0\xff", "little"))
_CLOCK = np.uint64(int.from_bytes(b"00\x0000:00", "little"))
_CLOCK_MARKS = np.uint64(int.from_bytes(b"\0\0\0\0\0\xff\0\0", "little"))
_SECONDS = np.uint64(int.from_bytes(b":00\0\0\0\0\0", "little"))
_THREE_BYTES = np.uint64(0xFF_FFFF)
_THIRD_BYTE = np.uint64(0xFF_0000)
_HIGHS = np.uint64(0x8080_8080_8080_8080)
_TO_HIGH = np.uint64(0x7676_7676_7676_7676)
_BYTE = np.uint64(0xFF)

_QUOTE, _POINT, _ZULU, _SPACE, _T = ord('"'), ord("."), ord("Z"), ord(" "), ord("T")
_DAY_SECONDS = 86_400
_FRACTION_DIGITS = 9
_LEAST_NS_YEAR, _GREATEST_NS_YEAR = 1700, 2200


@inlined
def _two(word: int, place: int) -> int:
    """Return the number that two digits tell, of a word of digit values."""
    tens = (word >> np.uint64(8 * place)) & _BYTE
    units = (word >> np.uint64(8 * place + 8)) & _BYTE
    return int(np.int64(tens)) * 10 + int(np.int64(units))


@inlined
def _are_digits(word: int) -> bool:
    """Return whether every byte is at most 9."""
    return bool(((word | (word + _TO_HIGH)) & _HIGHS) == np.uint64(0))


@inlined
def _days(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date, counted in eras of 400 years that begin in March."""
    march_year = year - 1 if month <= 2 else year
    era = march_year // 400
    year_of_era = march_year - era * 400
    march_month = month + 9 if month <= 2 else month - 3
    day_of_year = (153 * march_month + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


@inlined
def _month_days(year: int, month: int) -> int:
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@inlined
def time_text(at: int, end: int, kept: int) -> tuple[int, int]:
    """Return a time since 1970 in units of 10^-``kept`` seconds, floored, and the address behind its closing quote.

    ``at`` is behind the opening quote. The address is -1 for what is refused.
    """
    if at + 20 > end:
        return 0, -1
    date = load64(at) ^ _DATE
    clock = load64(at + 8) ^ _CLOCK
    between = byte_at(at + 10)
    clock &= ~_THIRD_BYTE
    last = (load64(at + 16) ^ _SECONDS) & _THREE_BYTES
    marks = (date & _DATE_MARKS) | (clock & _CLOCK_MARKS) | (last & _BYTE)
    if marks or (between != _SPACE and between != _T):
        return 0, -1
    if not (_are_digits(date) and _are_digits(clock) and _are_digits(last)):
        return 0, -1
    year, month, day = _two(date, 0) * 100 + _two(date, 2), _two(date, 5), _two(clock, 0)
    hour, minute, second = _two(clock, 3), _two(clock, 6), _two(last, 1)
    if year < 1 or month < 1 or month > 12 or day < 1 or day > _month_days(year, month):
        return 0, -1
    if hour > 23 or minute > 59 or second > 59:
        return 0, -1
    if kept == 9 and (year < _LEAST_NS_YEAR or year > _GREATEST_NS_YEAR):
        return 0, -1
    at += 19
    fraction, count = 0, 0
    if byte_at(at) == _POINT:
        fraction, behind = digits(at + 1, end)
        count = behind - at - 1
        if count < 1 or count > _FRACTION_DIGITS:
            return 0, -1
        at = behind
    if byte_at(at) == _ZULU:
        at += 1
    if at >= end or byte_at(at) != _QUOTE:
        return 0, -1
    scale = 1
    for _ in range(kept):
        scale *= 10
    while count > kept:
        fraction //= 10
        count -= 1
    while count < kept:
        fraction *= 10
        count += 1
    seconds = _days(year, month, day) * _DAY_SECONDS + hour * 3_600 + minute * 60 + second
    return seconds * scale + fraction, at + 1
