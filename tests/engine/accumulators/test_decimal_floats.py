"""Decimals become the nearest floating point number, and rounding has an answer wherever there is one."""

import math
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.accumulators.arrays import doubles
from penstock.engine.expressions.compiler import compile_expression
from penstock.engine.expressions.decimals import nearest_floats
from penstock.model.expressions import Expr, col

TYPES = st.sampled_from([(3, 3), (9, 2), (15, 15), (18, 4), (20, 18), (28, 25), (38, 0), (38, 10), (38, 22), (38, 38)])


@st.composite
def decimals(draw: st.DrawFn) -> pa.Array:
    """Draw decimals of one type: of any length, nulls, and those between two floats."""
    precision, scale = draw(TYPES)
    most = 10**precision - 1
    whole = st.integers(-most, most) | st.integers(-(2**54), 2**54).filter(lambda value: abs(value) <= most)
    drawn = draw(st.lists(st.none() | whole, max_size=20))
    with localcontext() as context:
        context.prec = 80
        values = [None if value is None else Decimal(value).scaleb(-scale) for value in drawn]
    return pa.array([None, *values], pa.decimal128(precision, scale)).slice(1)


@given(decimals())
def test_the_nearest_double(values: pa.Array) -> None:
    # Python rounds correctly.
    expected = [None if value is None else float(value) for value in values.to_pylist()]
    assert nearest_floats(values, pa.float64()).to_pylist() == expected
    assert doubles(values)[np.asarray(values.is_valid())].tolist() == [value for value in expected if value is not None]


@given(decimals())
def test_the_nearest_float_of_32_bits(values: pa.Array) -> None:
    for value, found in zip(values.to_pylist(), nearest_floats(values, pa.float32()).to_pylist(), strict=True):
        if value is None:
            assert found is None
            continue
        one = np.float32(found)
        distances = [abs(Fraction(float(near)) - Fraction(value)) for near in (one, *_neighbours(one))]
        assert distances[0] == min(distances)


def _neighbours(value: np.float32) -> list[np.float32]:
    return [np.nextafter(value, np.float32(end)) for end in (-math.inf, math.inf)]


def answer(expression: Expr, values: pa.Array) -> list[object]:
    rows = pa.record_batch({"v": values})
    found: list[object] = compile_expression(expression, rows.schema, "test")(rows).to_pylist()
    return found


def test_a_decimal_equals_the_number_that_is_written_like_it() -> None:
    values = pa.array([Decimal("0.285"), Decimal("1.005"), Decimal("0.3"), None], pa.decimal128(12, 3))
    for text in ("0.285", "1.005", "0.3"):
        equal = [None if value is None else value == Decimal(text) for value in values.to_pylist()]
        assert answer(col("v") == float(text), values) == equal


def test_great_numbers_have_no_decimal_places_to_round() -> None:
    values = pa.array([1e308, -1e308, 0.285, 2.5, None, math.inf, -math.inf])
    assert answer(col("v").round(10), values) == [1e308, -1e308, 0.285, 2.5, None, math.inf, -math.inf]
    assert answer(col("v").round(1), values)[2:4] == [0.3, 2.5]
    assert math.isnan(answer(col("v").round(2), pa.array([math.nan, 1e308]))[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("digits", [-18, -11, -10, -9, -1, 0, 1, 2])
@pytest.mark.parametrize(("precision", "scale"), [(12, 2), (38, 10), (38, 20), (3, 3)])
def test_decimals_round_to_any_place(precision: int, scale: int, digits: int) -> None:
    most = 10**precision - 1
    with localcontext() as context:
        context.prec = 80
        values = [Decimal(value).scaleb(-scale) for value in (0, 1, most, -most, most // 2, -most // 2, 5 * 10**8, 15)]
        values = [value for value in values if abs(value.scaleb(scale)) <= most]
        unit = Decimal(1).scaleb(-digits)
        expected = [(value / unit).quantize(Decimal(1), ROUND_HALF_UP) * unit for value in values]
    assert answer(col("v").round(digits), pa.array(values, pa.decimal128(precision, scale))) == expected


def test_numbers_that_are_no_time_are_null() -> None:
    values = pa.array([5, 2**63 - 1, 2**63, 2**64 - 1, None], pa.uint64())
    kept = [True, True, False, False, False]
    found = compile_expression(col("v").try_cast(pa.timestamp("us")), pa.schema([("v", pa.uint64())]), "test")
    assert found(pa.record_batch({"v": values})).is_valid().to_pylist() == kept
