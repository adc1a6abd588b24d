"""Durations and points in time as people write them, as integers of microseconds inside."""

import datetime
import re

from penstock.model.errors import OptionError

Duration = str | int | float | datetime.timedelta
"""``"10s"``, ``"1m30s"``, ``"1 minute"``, a `timedelta`, or a number of seconds."""

UNITS_US = {
    **dict.fromkeys(("us", "microsecond", "microseconds", "usec", "usecs"), 1),
    **dict.fromkeys(("ms", "millisecond", "milliseconds", "msec", "msecs", "millis"), 1_000),
    **dict.fromkeys(("s", "second", "seconds", "sec", "secs"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes", "mins"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours", "hr", "hrs"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000_000),
}
"""Every way to write a unit. Months and years are none: they have no fixed length."""

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_BETWEEN = re.compile(r"(?:\s|,|\band\b)*")


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
        has_known_units = all(unit in UNITS_US for _, unit in parts)
        if not parts or not has_known_units or not _BETWEEN.fullmatch(_PART.sub(" ", text)):
            raise OptionError(
                f"{what} must be a duration such as '10s', '500ms', '1h30m' or '1 minute', not {duration!r}"
            )
        value = round(sum(float(number) * UNITS_US[unit] for number, unit in parts))
    if value < 0:
        raise OptionError(f"{what} must not be negative, got {duration!r}")
    return value


def format_microseconds(value_us: int) -> str:
    """Write a duration the way `to_microseconds` reads it, in its largest whole unit."""
    for unit in ("d", "h", "m", "s", "ms"):
        if value_us and value_us % UNITS_US[unit] == 0:
            return f"{value_us // UNITS_US[unit]}{unit}"
    return f"{value_us}us"
