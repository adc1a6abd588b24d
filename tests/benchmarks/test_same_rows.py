"""The comparison of results tells equal multisets from different ones."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.benchmarks.oracle import assert_same_rows


def table(**columns: object) -> pa.Table:
    return pa.table(columns)


def test_order_does_not_matter_but_counts_do() -> None:
    once = table(a=[1, 2, 2, None], b=["x", "y", "y", None])
    assert_same_rows(once, once.take([3, 1, 0, 2]))
    with pytest.raises(AssertionError, match=r"4 rows, expected 4: \n1 unexpected\n  .*'a': 2"):
        assert_same_rows(once, table(a=[1, 1, 2, None], b=["x", "x", "y", None]))
    with pytest.raises(AssertionError, match="3 rows, expected 4"):
        assert_same_rows(once.slice(1), once)


def test_a_failure_lists_few_rows() -> None:
    with pytest.raises(AssertionError, match=r"1,000 missing(\n  \{'a': \d+\}){5}\n  ... and 995"):
        assert_same_rows(table(a=[7]), table(a=[7, *range(1000)]).slice(0))


def test_layout_does_not_matter() -> None:
    plain = table(
        t=pa.array([1_000, 2_000], pa.timestamp("ms")),
        s=pa.array(["x", "y"]),
        d=pa.array([Decimal("1.500"), None], pa.decimal128(23, 3)),
    )
    other = table(
        t=pa.array([1_000_000, 2_000_000], pa.timestamp("us")),
        s=pa.array(["x", "y"], pa.string_view()),
        d=pa.array([Decimal("1.500"), None], pa.decimal128(38, 3)),
    )
    assert_same_rows(other, plain)
    assert_same_rows(plain, other.set_column(1, "s", plain["s"].dictionary_encode()))


@pytest.mark.parametrize(
    "other",
    [
        pa.array([1], pa.int32()),
        pa.array([1.0]),
        pa.array(["1"]),
        pa.array([Decimal("1")], pa.decimal128(38, 0)),
    ],
)
def test_types_matter(other: pa.Array) -> None:
    with pytest.raises(AssertionError, match="column a is"):
        assert_same_rows(table(a=other), table(a=[1]))


def test_names_and_their_order_matter() -> None:
    with pytest.raises(AssertionError, match="columns are"):
        assert_same_rows(table(a=[1], b=[1]), table(b=[1], a=[1]))


def test_floats_have_a_tolerance() -> None:
    wanted = table(k=[1, 1, 2, 3], x=[1.0, 5.0, math.nan, None])
    assert_same_rows(table(k=[3, 2, 1, 1], x=[None, math.nan, 5.0 + 1e-12, 1.0 - 1e-12]), wanted)
    with pytest.raises(AssertionError, match=r"1 unexpected(.|\n)*1 missing"):
        assert_same_rows(table(k=[3, 2, 1, 1], x=[None, math.nan, 5.0001, 1.0]), wanted)
    with pytest.raises(AssertionError, match="1 unexpected"):
        assert_same_rows(table(k=[3, 2, 1, 1], x=[0.0, math.nan, 5.0, 1.0]), wanted)
    with pytest.raises(AssertionError, match="1 missing"):
        assert_same_rows(table(k=[1, 2], x=[1.0, 2.0]), table(k=[1, 2, 3], x=[1.0, 2.0, 1.0]))
