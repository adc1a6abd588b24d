import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.text.text_values import epoch_times, parse_times, to_column

MICROSECONDS = pa.timestamp("us")
FIRST_OF_2020 = 1_577_836_800_000_000


def parsed(text: str, kind: pa.TimestampType = MICROSECONDS) -> int:
    value: int = parse_times(pa.array([text]), kind).view(pa.int64())[0].as_py()
    return value


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-01",
        "2020-01-01T00:00:00",
        "2020-01-01 00:00:00",
        "2020-01-01T00:00:00Z",
        "2020-01-01 02:00:00+02:00",
        "2020-01-01T02:00+0200",
        "2019-12-31T19:00:00-05",
        "2020-01-01T00:00:00.000000999",
        "2020-01-01T00:00:00.000000999Z",
        "1577836800000",
    ],
)
def test_ways_to_write_a_time(text: str) -> None:
    assert parsed(text) == FIRST_OF_2020
    assert parsed(text, pa.timestamp("us", "UTC")) == FIRST_OF_2020
    assert parsed(text, pa.timestamp("s")) == FIRST_OF_2020 // 1_000_000


@pytest.mark.parametrize(
    "text", ["", "now", "2020-02-30", "2020-01-01T25:00:00", "1e3", "2020-01-01T00:00:00 CET", " 2020-01-01"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        parsed(text)


def test_mixed_writings_stand_in_one_column() -> None:
    texts = pa.array(["2020-01-01T00:00:00Z", None, "2020-01-01", "1577836800000", "2020-01-01T00:00:00.1234567"])
    microseconds = parse_times(texts, MICROSECONDS).view(pa.int64()).to_pylist()
    assert microseconds == [FIRST_OF_2020, None, FIRST_OF_2020, FIRST_OF_2020, FIRST_OF_2020 + 123_456]


@given(st.datetimes(), st.sampled_from(["T", " "]))
def test_iso_text_is_read_exactly(time: datetime.datetime, separator: str) -> None:
    text = time.isoformat(separator)
    assert parse_times(pa.array([text]), MICROSECONDS).to_pylist() == [time]
    milliseconds = time.replace(microsecond=time.microsecond // 1000 * 1000)
    assert parse_times(pa.array([text]), pa.timestamp("ms")).to_pylist() == [milliseconds]


def test_epoch_milliseconds_are_floored_and_range_checked() -> None:
    assert epoch_times(pa.array([-1]), pa.timestamp("s")).view(pa.int64()).to_pylist() == [-1]
    assert epoch_times(pa.array([-1]), MICROSECONDS).view(pa.int64()).to_pylist() == [-1000]
    with pytest.raises(pa.ArrowInvalid):
        epoch_times(pa.array([2**62]), MICROSECONDS)


def test_python_values_become_columns_strictly() -> None:
    times = to_column([datetime.datetime(2020, 1, 1), "2020-01-01", 1_577_836_800_000, None], MICROSECONDS)
    assert times.view(pa.int64()).to_pylist() == [FIRST_OF_2020, FIRST_OF_2020, FIRST_OF_2020, None]
    assert to_column([2.0], pa.int64()).to_pylist() == [2]
    for value in (1.5, "5", 2**70, True):
        with pytest.raises((pa.ArrowException, TypeError, ValueError, OverflowError)):
            to_column([value], pa.int64())
