"""Columns become the same Python values that pyarrow makes of them, faster."""

import datetime

import pyarrow as pa
import pytest

from penstock.engine.operators.functions.python_rows import python_rows, python_values

FIRST = datetime.datetime(1, 1, 1)
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([FIRST, None, LAST], pa.timestamp("s")),
        pa.array([FIRST, None, LAST], pa.timestamp("ms")),
        pa.array([FIRST, None, LAST], pa.timestamp("us")),
        pa.array([0, None, -1, 1_760_000_000_123_456], pa.timestamp("us", "UTC")),
        pa.array([0, None, 1_711_846_800_000, 1_711_850_400_000], pa.timestamp("ms", "Europe/Berlin")),
        pa.array([FIRST.date(), None, LAST.date()]),
        pa.array([1, None, 3]),
        pa.array(["a", None]),
        pa.array([[1], None]),
    ],
    ids=lambda column: str(column.type),
)
def test_values_are_those_of_pyarrow(column: pa.Array) -> None:
    for part in (column, column[1:], column[:0]):
        values = python_values(part)
        assert values == part.to_pylist()
        assert [type(value) for value in values] == [type(value) for value in part.to_pylist()]


def test_nanoseconds_become_datetimes_whether_pandas_is_there_or_not() -> None:
    column = pa.array([0, None, 1_000], pa.timestamp("ns"))
    values = python_values(column)
    assert values == column.cast(pa.timestamp("us")).to_pylist()
    assert [type(value) for value in values] == [datetime.datetime, type(None), datetime.datetime]


def test_dates_that_python_does_not_know_fail_as_in_pyarrow() -> None:
    column = pa.array([2**55], pa.timestamp("ms"))
    with pytest.raises((ValueError, OverflowError)):
        python_values(column)


def test_rows_are_dicts_of_the_asked_columns() -> None:
    rows = pa.record_batch({"a": [1, 2], "b": ["x", None]})
    assert python_rows(rows, ["b"]) == [{"b": "x"}, {"b": None}]
    assert python_rows(rows, []) == [{}, {}]
