"""Accumulators at the edges: overflow, decimals at 38 digits, NaN, empty input, odd arrays,
early retractions.
"""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.accumulators.arrays import Rows
from penstock.engine.accumulators.registry import make_accumulator
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import BugError, ExpressionError, NumericOverflowError, PlanError
from penstock.model.expressions import col
from tests.engine.accumulators.accumulators_support import Groups, table

TOP, BOTTOM = 2**63 - 1, -(2**63)
NINES, LOWEST = Decimal(10**38 - 1), Decimal(1 - 10**38)
WIDE = pa.decimal128(38, 0)


def groups(function, *types, updating=False, **options):
    return Groups(
        AggregateCall(function, tuple(map(col, "xyz"[: len(types)])), None, options),
        list(types),
        1,
        updating,
    )


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [TOP, 1]),
        (pa.int64(), [BOTTOM, -1]),
        (pa.int64(), [TOP, TOP, 2]),
        (pa.int64(), [BOTTOM, BOTTOM]),
        (pa.uint64(), [2**63]),
        (pa.duration("us"), [TOP, 1]),
        (WIDE, [NINES, 1]),
        (WIDE, [LOWEST, -1]),
        (WIDE, [NINES] * 4),
        (WIDE, [LOWEST] * 7),
        (pa.decimal128(18, 2), [Decimal("9999999999999999.99")] * 3),
    ],
    ids=str,
)
def test_a_sum_outside_its_type_is_an_error_and_comes_back(kind, values):
    state = groups("sum", kind, updating=True)
    state.update([0] * len(values), pa.array(values, kind))
    if kind == pa.decimal128(18, 2):  # widens to 38 digits
        assert state.result().to_pylist() == [Decimal("29999999999999999.97")]
        return
    with pytest.raises(
        NumericOverflowError,
        match=r"operator 'op': aggregate 'x' \(sum\): the sum .* cast its input",
    ):
        state.result()
    state.update([0] * len(values), pa.array(values, kind), weights=[-1] * len(values))
    assert state.result().to_pylist() == [None]
    state.update([0], pa.array(values[:1], kind).cast(kind) if kind != pa.uint64() else pa.array([7], kind))
    assert len(state.result()) == 1


def test_only_the_total_counts_not_the_way_there():
    assert groups("sum", pa.int64()).update([0] * 4, [TOP, TOP, -TOP, -TOP]).result().to_pylist() == [0]
    assert groups("sum", pa.int64()).update([0] * 3, [BOTTOM, -1, 1]).result().to_pylist() == [BOTTOM]
    assert groups("sum", pa.uint64()).update([0], [TOP]).result().to_pylist() == [TOP]
    many = [NINES] * 5 + [LOWEST] * 4
    assert groups("sum", WIDE).update([0] * 9, pa.array(many, WIDE)).result().to_pylist() == [NINES]
    state = groups("sum", pa.int64(), updating=True).update([0, 0], [BOTTOM, 5], weights=[-1, 1])
    state.update([0, 0], [BOTTOM, 1])
    assert state.result().to_pylist() == [6]


def test_means_are_exact_before_they_are_divided():
    assert groups("mean", pa.int64()).update([0] * 3, [TOP, TOP, TOP]).result().to_pylist() == [float(TOP)]
    assert groups("mean", pa.int64()).update([0] * 2, [BOTTOM, BOTTOM + 2]).result().to_pylist() == [float(BOTTOM)]
    assert groups("mean", pa.int64()).update([0] * 3, [TOP, -TOP, 1]).result().to_pylist() == [1 / 3]
    assert groups("mean", WIDE).update([0] * 3, pa.array([NINES] * 3, WIDE)).result().to_pylist() == [1e38]
    small = pa.decimal128(5, 2)
    assert (
        groups("mean", small).update([0] * 2, pa.array([Decimal("-0.05"), Decimal(0)], small)).result()[0].as_py()
        == -0.025
    )


def test_floats_keep_what_is_not_finite_apart_on_a_changelog():
    state = groups("sum", pa.float64(), updating=True)
    state.update([0] * 4, [1.0, math.inf, math.nan, 2.0])
    assert math.isnan(state.result()[0].as_py())
    state.update([0], [math.nan], weights=[-1])
    assert state.result().to_pylist() == [math.inf]
    state.update([0, 0], [-math.inf, math.inf], weights=[1, -1])
    assert state.result().to_pylist() == [-math.inf]
    state.update([0], [-math.inf], weights=[-1])
    assert state.result().to_pylist() == [3.0]


def test_compensated_sums():
    assert groups("sum", pa.float64()).update([0] * 4, [1e20, 1.0, -1e20, 1e-3]).result().to_pylist() == [1.001]
    assert groups("sum", pa.float64()).update([0] * 2, [1e308, 1e308]).result().to_pylist() == [math.inf]
    offset = 1e9 + np.array([4.0, 7.0, 13.0, 16.0])
    assert groups("variance", pa.float64()).update([0] * 4, offset).result().to_pylist() == [30.0]
    assert math.isnan(groups("stddev", pa.float64()).update([0] * 2, [1.0, math.inf]).result()[0].as_py())


def test_nan_is_greatest_and_zero_is_one():
    values = [math.nan, 1.0, -math.inf, -math.nan]
    assert groups("min", pa.float64()).update([0] * 4, values).result().to_pylist() == [-math.inf]
    assert math.isnan(groups("max", pa.float64()).update([0] * 4, values).result()[0].as_py())
    assert groups("count_distinct", pa.float64()).update([0] * 6, [*values, 0.0, -0.0]).result().to_pylist() == [4]
    assert math.copysign(1, groups("min", pa.float64()).update([0], [-0.0]).result()[0].as_py()) == 1.0


@pytest.mark.parametrize("updating", [False, True])
@pytest.mark.parametrize(
    ("function", "types", "empty"),
    [
        ("count", [], 0),
        ("count", [pa.null()], 0),
        ("count_distinct", [pa.string()], 0),
        *((name, [pa.float64()], None) for name in ("sum", "mean", "variance", "stddev", "collect")),
        *((name, [pa.string()], None) for name in ("min", "max", "first", "last", "collect")),
        *((name, [WIDE, pa.bool_()], None) for name in ("arg_min", "arg_max")),
    ],
)
def test_empty_groups_and_batches(function, types, empty, updating):
    call = AggregateCall(function, tuple(map(col, "xyz"[: len(types)])), col("keep"))
    state, other = (Groups(call, types, 1, updating) for _ in range(2))
    none = [pa.array([], kind) for kind in types]
    state.update([], *none, weights=[], where=[], times=[])
    state.update([-1, 0], *(pa.nulls(2, kind) for kind in types), where=[True, False], times=[0, 0])
    state.absorb([], [])
    state.absorb([0], [0], other)
    assert state.result().to_pylist() == [empty]
    assert state.result([]).to_pylist() == []


def test_arrays_of_every_shape():
    state = groups("sum", pa.int32())
    state.update(
        [0, 0, 0],
        pa.array([1, None, 3, None, 5], pa.int32())[2:],
        where=np.array([True, False] * 3)[::2],
    )
    assert state.result().to_pylist() == [8]
    unaligned = np.frombuffer(b"\0" + np.arange(4, dtype=np.int64).tobytes(), np.uint8)[1:]
    array = pa.Array.from_buffers(pa.int64(), 4, [None, pa.py_buffer(unaligned)])
    assert groups("sum", pa.int64()).update([0] * 4, array).result().to_pylist() == [6]
    flags = pa.array([None] * 7 + [True, False, None, True], pa.bool_())
    assert groups("max", pa.bool_()).update([0] * 3, flags[8:]).result().to_pylist() == [True]
    assert groups("count", pa.bool_()).update([0] * 3, flags[8:]).result().to_pylist() == [2]
    assert groups("min", pa.string()).update([0] * 2, pa.array(["a", "c", "b"])[1:]).result().to_pylist() == ["b"]
    assert groups("max", pa.float16()).update([0] * 2, pa.array([1.5, 2.5], pa.float16())).result().to_pylist() == [2.5]


def test_order_is_event_time_then_value():
    first, last = groups("first", pa.string()), groups("last", pa.string())
    for batch in (slice(0, 2), slice(2, 4)):
        values, times = ["z", "b", "a", "c"][batch], [5, 1, 1, 5][batch]
        first.update([0] * 2, values, times=times)
        last.update([0] * 2, values, times=times)
    assert first.result().to_pylist() == ["a"]
    assert last.result().to_pylist() == ["z"]
    with pytest.raises(BugError, match="without event times"):
        first.update([0], ["x"])


def test_a_retraction_may_come_before_its_insert():
    for function in ("sum", "min", "max", "collect", "mean"):
        state = groups(function, pa.int64(), updating=True)
        state.update([0], [7], weights=[-1])
        assert state.result().to_pylist() == [None], function
        state.update([0, 0], [7, 9])
        assert state.result().to_pylist() == [[9] if function == "collect" else 9], function
    with pytest.raises(BugError, match="given a retraction"):
        groups("min", pa.int64()).update([0], [1], weights=[-1])


def test_merging_knows_of_debts():
    state = Groups(AggregateCall("min", (col("x"),)), [pa.int64()], 2, updating=True)
    state.update([0, 1, 1], [3, 3, 4], weights=[1, 1, 1])
    state.update([1], [3], weights=[-1])
    state.update([1, 0], [3, 8], weights=[-1, 1])
    state.absorb([0], [1])
    assert state.result([0]).to_pylist() == [4]


def test_results_have_the_documented_types():
    def type_of(function, *types, **options):
        return make_accumulator(AggregateCall(function, (), None, options), types, "op").result_type

    assert type_of("sum", pa.int8()) == type_of("count") == type_of("count_distinct", pa.string()) == pa.int64()
    assert type_of("sum", pa.decimal128(5, 2)) == pa.decimal128(38, 2)
    assert type_of("sum", pa.duration("ms")) == pa.duration("ms")
    assert type_of("mean", pa.decimal128(5, 2)) == type_of("mean", pa.int64()) == pa.float64()
    assert type_of("sum", pa.float32()) == type_of("stddev", pa.int64()) == pa.float64()
    for kind in (
        pa.float32(),
        pa.time32("s"),
        pa.binary(3),
        pa.timestamp("ns", "UTC"),
        pa.decimal128(30, 4),
    ):
        assert type_of("max", kind) == type_of("first", kind) == type_of("arg_min", kind, pa.int64()) == kind
        assert type_of("collect", kind) == pa.list_(kind)


@pytest.mark.parametrize(
    ("error", "words", "function", "types", "options"),
    [
        (
            ExpressionError,
            "'op': sum does not take string; it takes integers",
            "sum",
            [pa.string()],
            {},
        ),
        (ExpressionError, "'op': mean does not take bool", "mean", [pa.bool_()], {}),
        (ExpressionError, "'op': min does not take list", "min", [pa.list_(pa.int64())], {}),
        (
            ExpressionError,
            "'op': first does not take decimal256",
            "first",
            [pa.decimal256(50, 2)],
            {},
        ),
        (
            ExpressionError,
            "'op': arg_min takes a value and what to compare by, not 1",
            "arg_min",
            [pa.int64()],
            {},
        ),
        (ExpressionError, "'op': sum takes one input, not 0", "sum", [], {}),
        (PlanError, "no aggregate 'median'; one of count, sum", "median", [pa.int64()], {}),
        (PlanError, "sum has no option 'q'", "sum", [pa.int64()], {"q": 1}),
        (
            PlanError,
            "approx_quantile needs q between 0 and 1, not 2",
            "approx_quantile",
            [pa.int64()],
            {"q": 2},
        ),
        (PlanError, "needs q between 0 and 1, not None", "approx_quantile", [pa.int64()], {}),
        (PlanError, "no option 'p'; it has q, k", "approx_quantile", [pa.int64()], {"p": 0.5}),
        (
            PlanError,
            "needs lg_k between 7 and 21, not 30",
            "approx_count_distinct",
            [pa.int64()],
            {"lg_k": 30},
        ),
        (PlanError, "user needs a UserAggregate", "user", [], {}),
    ],
)
def test_refusals_name_operator_aggregate_and_type(error, words, function, types, options):
    with pytest.raises(error) as raised:
        make_accumulator(AggregateCall(function, (), None, options), types, "op")
    assert words in str(raised.value)


def test_only_its_own_kind_can_be_merged():
    sums = make_accumulator(AggregateCall("sum"), [pa.int64()], "op")
    counts = make_accumulator(AggregateCall("count"), [], "op")
    left, slots = table(sums.columns, 1)
    right, _ = table(counts.columns, 1)
    with pytest.raises(BugError, match="CountCells was merged into IntegerSum"):
        sums.cells(left, "").absorb(slots, counts.cells(right, ""), slots)
    sums.cells(left, "").update(Rows(slots), [pa.array([5])], None)
    assert sums.cells(left, "").result(slots).to_pylist() == [5]
