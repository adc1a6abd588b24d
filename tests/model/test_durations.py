"""Durations as people write them."""

from datetime import timedelta

import pytest

from penstock.model.durations import format_microseconds, to_microseconds
from penstock.model.errors import OptionError

SECOND_US = 1_000_000


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("10s", 10),
        ("1m30s", 90),
        ("1h 30m", 5400),
        ("500ms", 0.5),
        ("1.5min", 90),
        ("1 minute", 60),
        ("2 Minutes", 120),
        ("1 minute 30 seconds", 90),
        ("1 hour, 2 minutes and 3 seconds", 3723),
        ("10 seconds", 10),
        ("250 milliseconds", 0.25),
        ("7 microseconds", 7e-6),
        ("1 day", 86_400),
        ("2 weeks", 1_209_600),
        ("5 mins", 300),
        ("3 hrs", 10_800),
        (" 4 sec ", 4),
        (3, 3),
        (0.25, 0.25),
        (timedelta(minutes=2), 120),
    ],
)
def test_durations_are_read(written: str | float | timedelta, seconds: float) -> None:
    assert to_microseconds(written) == round(seconds * SECOND_US)


@pytest.mark.parametrize(
    "written",
    ["", "10", "ten seconds", "1 month", "1 year", "s", "10s!", "10 s x", "1 minutess", "and", "-1s", None, True],
)
def test_what_is_none_is_refused_with_examples(written: object) -> None:
    with pytest.raises(OptionError, match=r"'10s', '500ms', '1h30m' or '1 minute'|such as '10s'"):
        to_microseconds(written, "size")  # type: ignore[arg-type]


@pytest.mark.parametrize("value_us", [0, 1, 1_500, SECOND_US, 90 * SECOND_US, 86_400 * SECOND_US])
def test_what_is_written_is_read_back(value_us: int) -> None:
    assert to_microseconds(format_microseconds(value_us)) == value_us
