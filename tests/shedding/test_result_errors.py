"""Errors of rows are freed from the keep rate, and counted in buckets that can be added."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.result_errors import ErrorCounts, half_width_at, relative_half_widths, unit_errors, widest
from tests.papers_cases import cases

KEEPS = st.floats(0.02, 0.99)
WIDTHS = st.floats(1e-3, 100.0)


def counted(widths: list[float], keeps: list[float]) -> ErrorCounts:
    return ErrorCounts.of(np.array(widths), np.array(keeps))


def test_a_half_width_is_by_the_size_of_the_value_and_none_is_infinite() -> None:
    value, low = np.array([10.0, -10.0, 0.0, 0.0, np.nan, 5.0]), np.array([9.0, -12.0, 0.0, -1.0, np.nan, np.nan])
    high = np.array([11.0, -8.0, 0.0, 1.0, np.nan, np.nan])
    assert relative_half_widths(value, low, high).tolist() == [0.1, 0.2, 0.0, math.inf, math.inf, math.inf]
    assert widest([np.array([0.1, 0.3]), np.array([0.2, np.inf])]).tolist() == [0.2, math.inf]


@settings(max_examples=cases())
@given(WIDTHS, KEEPS, KEEPS)
def test_a_unit_error_says_the_half_width_at_any_other_rate(width: float, keep: float, other: float) -> None:
    unit = float(unit_errors(np.array([width]), np.array([keep]))[0])
    assert half_width_at(unit, keep) == pytest.approx(width)
    variance = (1 - other) / other / ((1 - keep) / keep)
    assert half_width_at(unit, other) == pytest.approx(width * math.sqrt(variance))


@settings(max_examples=cases())
@given(st.lists(st.tuples(WIDTHS, KEEPS), min_size=1, max_size=200), st.floats(0.5, 0.99))
def test_a_quantile_is_that_of_the_rows_to_a_bucket(rows: list[tuple[float, float]], share: float) -> None:
    widths, keeps = (list(column) for column in zip(*rows, strict=True))
    units = np.sort(unit_errors(np.array(widths), np.array(keeps)))
    true = float(units[math.ceil(share * len(units) - 1e-9) - 1])
    assert counted(widths, keeps).quantile(share) == pytest.approx(true, rel=0.16)


@settings(max_examples=cases())
@given(st.lists(st.tuples(WIDTHS, KEEPS), max_size=50), st.lists(st.tuples(WIDTHS, KEEPS), max_size=50))
def test_counts_of_several_sinks_are_added_and_earlier_ones_taken_off(
    first: list[tuple[float, float]], second: list[tuple[float, float]]
) -> None:
    one, other, both = (
        counted([row[0] for row in rows], [row[1] for row in rows]) for rows in (first, second, first + second)
    )
    assert np.allclose((one + other).figures, both.figures)
    assert np.allclose(both.since(one).figures, other.figures)
    # An instance that began anew counts from zero.
    assert not first or one.since(one + both) is one


def test_rows_without_an_interval_are_the_widest_and_exact_ones_say_nothing() -> None:
    counts = counted([0.1] * 90 + [math.inf] * 10 + [0.0] * 50, [0.5] * 90 + [0.2] * 10 + [1.0] * 50)
    assert (counts.rows, counts.unknown) == (100, 10)
    assert counts.unknown_keep == pytest.approx(0.2)
    assert counts.quantile(0.9) == pytest.approx(0.1, rel=0.16)
    assert counts.quantile(0.91) == math.inf
    assert counts.without_unknown().quantile(0.99) < math.inf
    assert ErrorCounts().quantile(0.95) == 0.0
