"""Durations and points in time as people write them, as integers of microseconds inside."""

import datetime
import re

from penstock.model.errors import OptionError

Duration = str | int | float | datetime.timedelta
"""``"10s"``, ``"1m30s"``, a `timedelta`, or a number of seconds."""

_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|min|s|m|h|d|w)")


def to_microseconds(duration: Duration, what: str = "duration") -> int:
    """Return the duration in microseconds.

    Raises:
        OptionError: it is negative or not a duration; `what` names the option.
    """
    if isinstance(duration, datetime.timedelta):
        value = round(duration / datetime.timedelta(microseconds=1))
    elif isinstance(duration, bool) or not isinstance(duration, str | int | float):
        raise OptionError(f"{what} must be a duration such as '10s', not {duration!r}")
    elif isinstance(duration, int | float):
        value = round(duration * 1_000_000)
    else:
        text = duration.strip().lower()
        parts = _PART.findall(text)
        if not parts or _PART.sub("", text).strip():
            raise OptionError(f"{what} must be a duration such as '10s', '500ms' or '1h30m', not {duration!r}")
        value = round(sum(float(number) * _UNITS_US[unit] for number, unit in parts))
    if value < 0:
        raise OptionError(f"{what} must not be negative, got {duration!r}")
    return value


def format_microseconds(value_us: int) -> str:
    """Write a duration the way `to_microseconds` reads it, in its largest whole unit."""
    for unit in ("d", "h", "m", "s", "ms"):
        if value_us and value_us % _UNITS_US[unit] == 0:
            return f"{value_us // _UNITS_US[unit]}{unit}"
    return f"{value_us}us"
