"""Rows that stand for others: values for all rows, as the scalar estimators have them, and what results say of it."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.accumulators.arrays import RowQuality
from penstock.engine.accumulators.estimates import Sample
from penstock.engine.accumulators.intervals import Moments, binomial, interval
from penstock.engine.kernels.binomial import chance_of_at_most
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import NumericOverflowError
from penstock.model.expressions import col
from penstock.model.keep_rates import STEPS
from penstock.shedding import estimators
from tests.engine.accumulators.sample_support import CALLS, Part, SampledGroups

VALUES = st.one_of(st.none(), st.floats(-1e6, 1e6, allow_subnormal=False), st.floats(2.5, 3.5))
KEEPS = st.integers(1, STEPS).map(lambda steps: steps / STEPS)


@st.composite
def parts(draw: st.DrawFn) -> Part:
    rows = draw(st.lists(st.tuples(st.integers(0, 2), VALUES), max_size=12))
    return Part([group for group, _ in rows], [value for _, value in rows], draw(KEEPS))


def rows_of(batches: list[Part], group: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values (NaN: null) and weights of a group's rows, and which of them are above 2."""
    pairs = [
        (math.nan if value is None else value, part.weight)
        for part in batches
        for where, value in zip(part.groups, part.values, strict=True)
        if where == group
    ]
    x, w = (np.array([pair[place] for pair in pairs], float) for place in (0, 1))
    return x, w, x > 2


@given(st.lists(parts(), max_size=8), st.permutations(range(3)), st.integers(0, 8))
def test_values_and_variances_are_those_of_the_scalar_estimators(
    batches: list[Part], order: list[int], cut: int
) -> None:
    """However rows are cut into batches, and batches into parts that are merged in any order."""
    pieces = [batches[:cut], batches[cut : cut + 2], batches[cut + 2 :]]
    states = []
    for piece in (pieces[place] for place in order):
        states.append(SampledGroups(size=3))
        for part in piece:
            states[-1].fold(part)
    whole, *others = states
    for other in others:
        whole.absorb(other)
    vectors = whole.table.vectors("weighted")
    for group, row in enumerate(whole.results()):
        x, w, above = rows_of(batches, group)
        known = ~np.isnan(x)
        assert row["n"] == round(estimators.count(w).value)
        assert row["known"] == round(estimators.count(w[known]).value)
        assert row["big"] == round(estimators.count(w[above]).value)
        if not known.any():
            assert row["total"] is None and row["average"] is None
            continue
        total, average = estimators.total(x[known], w[known]), estimators.mean(x[known], w[known])
        assert average is not None
        scale = float(np.abs(w * np.nan_to_num(x)).sum()) + 1
        assert row["total"] == pytest.approx(total.value, rel=1e-9, abs=1e-9 * scale)
        assert row["average"] == pytest.approx(average.value, rel=1e-9, abs=1e-9 * scale)
        assert row["$accuracy"] == pytest.approx(len(w) / w.sum(), rel=1e-9)
        assert row["$biased"] is False
        if vectors.is_used:
            estimates = whole.aggregation.estimates
            assert estimates is not None and (block := estimates.blocks[3]) is not None
            vector = vectors.rows()[whole.slots[group]]
            squares = float(((w * w - w) * np.nan_to_num(x) ** 2).sum())
            assert vector[2] == pytest.approx(estimators.count(w).variance, rel=1e-9, abs=1e-9)
            assert vector[block.start + 9] == pytest.approx(squares, rel=1e-9, abs=1e-9)


@given(st.lists(parts(), max_size=6))
def test_rows_of_keep_1_give_what_they_give_without_estimates(batches: list[Part]) -> None:
    whole = [Part(part.groups, part.values) for part in batches]
    sampled, plain = SampledGroups(size=3), SampledGroups(size=3, sample=Sample.UNKNOWN)
    for part in whole:
        sampled.fold(part)
        plain.fold(part)
    for row, expected in zip(sampled.results(), plain.results(), strict=True):
        assert {name: row[name] for name in CALLS} == expected
        for name in CALLS:
            assert row[f"$low.{name}"] == row[f"$high.{name}"] == row[name]
            assert row[f"$certified.{name}"] is (None if row[name] is None else True)
        assert (row["$accuracy"], row["$biased"]) == (1.0, False)


def test_nothing_is_allocated_or_written_before_something_is_shed() -> None:
    sampled = SampledGroups().fold(Part([0, 1], [1.0, 2.0]))
    sampled.absorb(SampledGroups().fold(Part([0, 3], [1.0, 2.0])))
    sampled.results()
    assert not sampled.table.vectors("weighted").is_used
    sampled.fold(Part([0], [1.0], 0.5))
    assert sampled.table.vectors("weighted").is_used


def test_a_row_goes_into_one_part_only() -> None:
    """Three rows of keep 1 are exact; each of two at 1/4 stands for four."""
    sampled = SampledGroups({"n": CALLS["n"], "total": CALLS["total"], "top": AggregateCall("max", (col("x"),))})
    sampled.fold(Part([0, 0, 0], [1.0, 2.0, 4.0])).fold(Part([0, 0], [8.0, 16.0], 0.25))
    row = sampled.results()[0]
    assert (row["n"], row["total"], row["top"]) == (11, 7.0 + 4 * 24.0, 16.0)
    assert row["$accuracy"] == pytest.approx(5 / 11)


def test_an_aggregate_without_an_estimator_makes_the_row_biased_and_leaves_its_neighbours_their_intervals() -> None:
    sampled = SampledGroups({"n": CALLS["n"], "top": AggregateCall("max", (col("x"),))})
    sampled.fold(Part([0] * 64 + [1], [1.0] * 65)).fold(Part([0] * 64, [1.0] * 64, 0.5))
    shed, exact = sampled.results()[:2]
    assert shed["$biased"] is True and exact["$biased"] is False
    assert shed["n"] == 64 + 128
    assert 64 + 100 < shed["$low.n"] < 64 + 128 < shed["$high.n"] < 64 + 156  # type: ignore[operator]
    assert "$low.top" not in shed


def test_aggregates_of_windows_that_follow_from_rows_stay_raw() -> None:
    sampled = SampledGroups(sample=Sample.MEASURED).fold(Part([0, 0], [1.0, 2.0], 0.5))
    assert sampled.results()[0] == {
        "n": 2,
        "known": 2,
        "big": 0,
        "total": 3.0,
        "average": 1.5,
        "$accuracy": 0.5,
        "$biased": True,
    }


@pytest.mark.parametrize(("rows", "known"), [(49, False), (50, True)])
def test_intervals_need_fifty_kept_rows(rows: int, known: bool) -> None:
    values = [float(value) for value in range(1, rows + 1)]
    row = SampledGroups().fold(Part([0] * rows, values, 0.5)).results()[0]
    assert (row["$low.total"] is not None) is known
    assert (row["$high.average"] is not None) is known
    assert row["$certified.total"] is (True if known else None)


def test_a_count_at_one_keep_rate_is_bounded_at_any_number() -> None:
    row = SampledGroups().fold(Part([0] * 5, [3.0, 3.0, None, 1.0, 1.0], 0.5)).results()[0]
    assert (row["n"], row["$low.n"], row["$high.n"]) == (10, 5, 19)
    assert (row["big"], row["$low.big"]) == (4, 2)
    assert row["$certified.n"] is True


def test_few_rows_at_several_keep_rates_have_no_bounds() -> None:
    row = SampledGroups().fold(Part([0], [1.0], 0.5)).fold(Part([0], [1.0], 0.25)).results()[0]
    assert row["n"] == 6
    assert row["$low.n"] is None and row["$high.n"] is None and row["$certified.n"] is None


def test_rows_at_several_keep_rates_count_as_those_of_the_greatest_weight() -> None:
    """A hundred rows at 1/2 hardly add to the variance of ten at 1/16."""
    few = SampledGroups().fold(Part([0] * 100, [1.0, 2.0] * 50, 0.5)).fold(Part([0] * 10, [1.0, 2.0] * 5, 0.0625))
    assert few.results()[0]["$low.total"] is None
    even = SampledGroups().fold(Part([0] * 100, [1.0, 2.0] * 50, 0.5)).fold(Part([0] * 100, [1.0, 2.0] * 50, 0.375))
    assert even.results()[0]["$low.total"] is not None


def test_nothing_of_a_count_was_kept() -> None:
    """Of none kept at 1/2 there were at most five: six would all be dropped with a chance of 1/64, below 2.5%."""
    row = SampledGroups().fold(Part([0], [1.0], 0.5)).results()[0]
    assert (row["big"], row["$low.big"], row["$high.big"]) == (0, 0, 5)


@given(st.integers(0, 49), st.integers(1, STEPS - 1))
def test_exact_bounds_are_those_where_the_tails_end(kept: int, steps: int) -> None:
    keep = steps / STEPS
    found = binomial(np.array([kept]), np.array([keep]))
    low, high = int(found.low[0]), int(found.high[0])
    assert kept <= low <= high
    assert 1 - chance_of_at_most(kept - 1, low, keep) > 0.025
    assert low == kept or 1 - chance_of_at_most(kept - 1, low - 1, keep) <= 0.025
    assert chance_of_at_most(kept, high, keep) > 0.025 >= chance_of_at_most(kept, high + 1, keep)


def test_chances_are_those_of_the_binomial_distribution() -> None:
    expected = sum(math.comb(40, k) * 0.3**k * 0.7 ** (40 - k) for k in range(13))
    assert chance_of_at_most(12, 40, 0.3) == pytest.approx(expected, rel=1e-12)


def test_without_skewness_an_interval_is_the_normal_one() -> None:
    """So many rows that the variance is known."""
    zero = np.zeros(1)
    found = interval(np.array([10.0]), np.array([50.0]), Moments(np.array([4.0]), zero, zero, np.array([1e-12])))
    reference = estimators.Estimate(10.0, 4.0)
    assert (found.low[0], found.high[0]) == pytest.approx((reference.low, reference.high), rel=1e-9)
    assert found.valid[0] and found.certified[0]


def test_an_interval_that_rests_on_one_large_value_is_not_certified() -> None:
    rows = [1.0] * 99 + [1000.0]
    row = SampledGroups().fold(Part([0] * 100, rows, 0.5)).results()[0]
    assert row["$low.total"] is not None
    assert row["$certified.total"] is False and row["$certified.average"] is False
    assert row["$certified.n"] is True


INTEGERS: dict[str, AggregateCall] = {"total": CALLS["total"], "average": CALLS["average"]}


def test_sums_keep_their_types_and_are_rounded_to_them() -> None:
    for kind, expected in ((pa.int64(), 4), (pa.decimal128(10, 2), Decimal("3.56")), (pa.duration("ms"), 4)):
        row = SampledGroups({"total": CALLS["total"]}, kind)
        values: list[Any] = [Decimal("1.00")] if pa.types.is_decimal(kind) else [1]
        found = row.fold(Part([0], values, 18 / 64)).results()[0]["total"]
        if pa.types.is_duration(kind):
            found = found.total_seconds() * 1000  # type: ignore[attr-defined]
        assert found == expected


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(12, 2), pa.duration("ms")], ids=str)
def test_ends_of_intervals_have_the_type_of_the_value(kind: pa.DataType) -> None:
    values: list[Any] = [Decimal(value) for value in range(64)] if pa.types.is_decimal(kind) else list(range(64))
    row = SampledGroups({"total": CALLS["total"]}, kind).fold(Part([0] * 64, values, 0.5)).results()[0]
    low, value, high = row["$low.total"], row["total"], row["$high.total"]
    assert low < value < high  # type: ignore[operator]
    assert type(low) is type(value) is type(high)


def test_an_estimate_that_does_not_fit_is_an_error() -> None:
    sampled = SampledGroups(INTEGERS, pa.int64()).fold(Part([0], [2**62], 0.25))
    with pytest.raises(NumericOverflowError, match=r"'total'.*does not fit in 64 bits"):
        sampled.results()


def test_a_mean_of_values_that_hardly_differ_keeps_its_variance() -> None:
    values = [1e5 + (place % 7) for place in range(70)]
    row = SampledGroups().fold(Part([0] * 70, values, 0.5)).results()[0]
    assert row["average"] == pytest.approx(1e5 + 3, abs=1e-3)
    width = row["$high.average"] - row["$low.average"]  # type: ignore[operator]
    assert width == pytest.approx(2 * 1.96 * 2 * math.sqrt(0.5 / 70), rel=0.1)


def test_a_mean_whose_variance_has_no_correct_digit_has_no_interval() -> None:
    row = SampledGroups().fold(Part([0] * 70, [1e9 + (place % 7) for place in range(70)], 0.5)).results()[0]
    assert row["average"] == pytest.approx(1e9 + 3, abs=1e-3)
    assert row["$low.average"] is None and row["$certified.average"] is None


def quality(*accuracies: float) -> RowQuality:
    missing = 1.0 - np.array(accuracies)
    return RowQuality(missing, (missing > 0).astype(float))


def test_results_over_results_have_the_mean_accuracy_and_no_intervals() -> None:
    sampled = SampledGroups().fold(Part([0, 0, 0, 1], [1.0, 2.0, 3.0, 4.0]), quality=quality(1.0, 0.5, 0.3, 1.0))
    first, second = sampled.results()[:2]
    assert first["$accuracy"] == pytest.approx(0.6)
    assert first["$biased"] is True
    assert (first["total"], first["$low.total"], first["$certified.total"]) == (6.0, None, None)
    assert (second["$accuracy"], second["$biased"], second["$low.total"]) == (1.0, False, 4.0)


def test_results_that_are_taken_back_take_their_accuracy_with_them() -> None:
    sampled = SampledGroups(updating=True)
    sampled.fold(Part([0, 0], [1.0, 2.0]), signs=[1, 1], quality=quality(0.7, 1.0))
    assert sampled.results()[0]["$accuracy"] == pytest.approx(0.85)
    sampled.fold(Part([0], [1.0]), signs=[-1], quality=quality(0.7))
    row = sampled.results()[0]
    assert (row["$accuracy"], row["$biased"], row["$low.total"]) == (1.0, False, 2.0)


def test_runs_are_added_up_with_their_weighted_parts() -> None:
    sampled = SampledGroups(size=3).fold(Part([0, 1, 2], [1.0, 2.0, 4.0], 0.5))
    sampled.bound.scan(sampled.slots, np.array([0, 1, 2]))
    assert [row["total"] for row in sampled.results()] == [2.0, 6.0, 14.0]


def test_an_accuracy_has_no_digits_that_sums_of_weights_have_lost() -> None:
    """The weights of 5,000 rows at 36/64, added up one by one, make 0.562499999999...."""
    sampled = SampledGroups({"n": CALLS["n"]}).fold(Part([0] * 5_000, [1.0] * 5_000, 36 / STEPS))
    assert sampled.results()[0]["$accuracy"] == 36 / STEPS
