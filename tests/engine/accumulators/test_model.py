"""Every aggregate against a brute-force model: random splits, merges, filters, nulls and
retractions.
"""

import decimal
import functools
import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.model.aggregates import AggregateCall
from penstock.model.errors import NumericOverflowError
from penstock.model.expressions import col
from tests.engine.accumulators.accumulators_support import Groups

GROUPS = 3
PANES = 3
EXACT = decimal.Context(prec=60)

I64 = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63 - 1, -(2**63)]))
SMALL = st.integers(-3, 3)
NAN = float("nan")


def decimals(digits, scale):
    numbers = st.one_of(
        SMALL,
        st.integers(1 - 10**digits, 10**digits - 1),
        st.sampled_from([1 - 10**digits, 10**digits - 1]),
    )
    return numbers.map(lambda number: decimal.Decimal(number).scaleb(-scale, EXACT))


FLOATS = st.one_of(
    st.floats(-1e140, 1e140, allow_subnormal=False),
    st.floats(-4, 4, allow_subnormal=False),
    st.sampled_from([NAN, math.inf, -math.inf, -0.0, 0.0, 1.5]),
)
TEXT = st.one_of(st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600", "\x00"]), st.text(max_size=3))
TYPES = {
    "int64": (pa.int64(), I64),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint64": (pa.uint64(), st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))),
    "double": (pa.float64(), FLOATS),
    "float": (
        pa.float32(),
        st.one_of(st.floats(width=32, allow_subnormal=False), st.sampled_from([0.0, -0.0, 1.5])),
    ),
    "bool": (pa.bool_(), st.booleans()),
    "decimal(10,2)": (pa.decimal128(10, 2), decimals(10, 2)),
    "decimal(38,5)": (pa.decimal128(38, 5), decimals(38, 5)),
    "string": (pa.string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=2)),
    "binary(2)": (pa.binary(2), st.binary(min_size=2, max_size=2)),
    "date32": (pa.date32(), SMALL),
    "time64": (pa.time64("us"), st.integers(0, 4)),
    "timestamp": (pa.timestamp("us", "UTC"), st.one_of(SMALL, st.integers(-(2**60), 2**60))),
    "duration": (pa.duration("ms"), I64),
}


def order(value):
    """A Python key in SQL's order."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode()
    return value


def distinct(values):
    return {order(value) for value in values}


def total(kind, values):
    if pa.types.is_floating(kind):
        finite = [value for value in values if math.isfinite(value)]
        special = [value for value in values if not math.isfinite(value)]
        return sum(special) if special else math.fsum(finite)
    if pa.types.is_decimal(kind):
        return functools.reduce(EXACT.add, values)
    return sum(values)


def mean(kind, values):
    if not values:
        return None
    if pa.types.is_floating(kind):
        return total(kind, values) / len(values)
    return float(sum(Fraction(value) for value in values) / len(values))


def variance(kind, values):
    if len(values) < 2:
        return None
    if any(abs(value) > 1e140 or value != value for value in map(float, values)):
        return NAN
    fractions = [Fraction(float(value)) for value in values]
    middle = sum(fractions) / len(values)
    return float(sum((value - middle) ** 2 for value in fractions) / (len(values) - 1))


def model(function, kind, rows):
    """The answer over rows of (time, inputs): the specification."""
    if function == "count_rows":
        return len(rows)
    if function == "collect":
        values = [inputs[0] for _, inputs in rows]
        known = sorted((value for value in values if value is not None), key=order)
        return [*known, *[None] * (len(values) - len(known))] or None
    rows = [(time, inputs) for time, inputs in rows if None not in inputs]
    values = [inputs[0] for _, inputs in rows]
    if function == "count":
        return len(rows)
    if function == "count_distinct":
        return len(distinct(values))
    if function == "mean":
        return mean(kind, values)
    if function in ("variance", "stddev"):
        spread = variance(kind, values)
        return math.sqrt(spread) if spread is not None and function == "stddev" else spread
    if not rows:
        return None
    if function == "sum":
        return total(kind, values)
    best = {
        "min": lambda: min(values, key=order),
        "max": lambda: max(values, key=order),
        "first": lambda: min(rows, key=lambda row: (row[0], order(row[1][0])))[1][0],
        "last": lambda: max(rows, key=lambda row: (row[0], order(row[1][0])))[1][0],
        "arg_min": lambda: min(rows, key=lambda row: (order(row[1][1]), order(row[1][0])))[1][0],
        "arg_max": lambda: arg_max(rows),
    }
    return best[function]()


def arg_max(rows):
    top = max(order(inputs[1]) for _, inputs in rows)
    return min((inputs[0] for _, inputs in rows if order(inputs[1]) == top), key=order)


@st.composite
def histories(draw, strategies, updating, filtered):
    """Events (group, time, inputs, weight, passes the filter, pane) in order of arrival, and the
    rows that remain.
    """
    row = st.tuples(
        st.integers(0, GROUPS - 1),
        st.integers(-2, 2),
        st.tuples(*(st.one_of(st.none(), strategy, strategy, strategy) for strategy in strategies)),
        st.booleans() if filtered else st.just(True),
    )
    rows = draw(st.lists(row, max_size=14))
    gone = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))) if updating else [False] * len(rows)
    events = [(*item, 1) for item in rows] + [(*item, -1) for item, left in zip(rows, gone, strict=True) if left]
    events = draw(st.permutations(events))
    panes = draw(st.lists(st.integers(0, PANES - 1), min_size=len(events), max_size=len(events)))
    remaining = [item for item, left in zip(rows, gone, strict=True) if not left]
    return events, panes, remaining, draw(st.integers(1, 6)), draw(st.booleans())


def play(call, types, history, updating, asks):
    """Fold a history in batches into panes, then merge them into pane 0; returns the result
    arrays of the groups.
    """
    events, panes, _, batch, at_once = history
    state = Groups(call, types, GROUPS * PANES, updating)
    for start in range(0, len(events), batch):
        part = events[start : start + batch]
        places = [event[0] + GROUPS * pane for event, pane in zip(part, panes[start:], strict=False)]
        columns = [pa.array([None, *(event[2][j] for event in part)], kind)[1:] for j, kind in enumerate(types)]
        state.update(
            places,
            *columns,
            weights=[event[4] for event in part] if updating else None,
            where=[event[3] for event in part] if call.where is not None else None,
            times=[event[1] for event in part],
        )
        if asks:
            state.result()
    if at_once:
        state.absorb(np.tile(np.arange(GROUPS), PANES - 1), np.arange(GROUPS, GROUPS * PANES))
    else:
        for pane in range(1, PANES):
            state.absorb(np.arange(GROUPS), np.arange(GROUPS) + GROUPS * pane)
    return state.result(np.arange(GROUPS))


def slack(function, events):
    """What two doubles lose of everything that was ever added, also of what was taken back."""
    if function not in ("sum", "mean", "variance", "stddev"):
        return 0.0
    known = [abs(float(event[2][0])) for event in events if event[2][0] is not None]
    finite = [value for value in known if value <= 1e140]
    if function in ("sum", "mean"):
        return 1e-28 * sum(finite)
    squares = 1e-28 * sum(value * value for value in finite)
    return math.sqrt(squares) if function == "stddev" else squares


def same(ours, theirs, tolerance):
    if theirs is None or ours is None:
        return ours is theirs
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same(*pair, tolerance) for pair in zip(ours, theirs, strict=True))
    if isinstance(theirs, float) and math.isnan(theirs):
        return math.isnan(ours)
    if isinstance(theirs, float):
        return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=tolerance)
    return ours == theirs


def plain(array):
    """Python values, with times as the integers behind them."""
    kind = array.type
    if pa.types.is_list(kind):
        return [None if item.values is None else plain(item.values) for item in array]
    if pa.types.is_temporal(kind):
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return array.to_pylist()


CASES = [
    *(("count_rows", ()),),
    *(("count", (name,)) for name in ("int64", "string", "bool")),
    *(
        ("sum", (name,))
        for name in (
            "int64",
            "int8",
            "uint64",
            "decimal(10,2)",
            "decimal(38,5)",
            "duration",
            "double",
        )
    ),
    *(("mean", (name,)) for name in ("int64", "decimal(38,5)", "double")),
    *(
        (name, (kind,))
        for name, kind in (
            ("variance", "double"),
            ("stddev", "int64"),
            ("variance", "decimal(10,2)"),
        )
    ),
    *(("min" if at % 2 else "max", (name,)) for at, name in enumerate(TYPES)),
    *(("max" if at % 2 else "min", (name,)) for at, name in enumerate(("double", "string", "decimal(38,5)"))),
    *(("first", (name,)) for name in ("int64", "string", "decimal(38,5)", "bool")),
    *(("last", (name,)) for name in ("double", "binary(2)")),
    *(("arg_min", pair) for pair in (("int64", "double"), ("string", "binary"), ("date32", "decimal(38,5)"))),
    *(("arg_max", pair) for pair in (("string", "int8"), ("decimal(38,5)", "string"), ("int64", "bool"))),
    *(("count_distinct", (name,)) for name in ("int64", "double", "string", "decimal(10,2)")),
    *(("collect", (name,)) for name in ("int64", "double", "string", "timestamp")),
]


@pytest.mark.parametrize("updating", [False, True], ids=["append", "changelog"])
@pytest.mark.parametrize(
    ("function", "names"),
    CASES,
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_equals_the_model(function, names, updating):
    types, strategies = [TYPES[name][0] for name in names], [TYPES[name][1] for name in names]

    @settings(max_examples=15, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def check(data):
        filtered, asks = data.draw(st.booleans()), data.draw(st.booleans())
        history = data.draw(histories(strategies, updating, filtered))
        call = AggregateCall(
            function.removesuffix("_rows"),
            tuple(col(f"c{j}") for j in range(len(types))),
            col("keep") if filtered else None,
            {},
        )
        kind = types[0] if types else pa.int64()
        expected = [
            model(
                function,
                kind,
                [(row[1], row[2]) for row in history[2] if row[0] == group and row[3]],
            )
            for group in range(GROUPS)
        ]
        if function == "sum" and any(too_large(kind, value) for value in expected):
            with pytest.raises(NumericOverflowError, match="operator 'op': aggregate 'x' \\(sum\\): the sum"):
                play(call, types, history, updating, asks=False)
            return
        result = play(call, types, history, updating, asks=asks and function != "sum")
        for ours, theirs in zip(plain(result), expected, strict=True):
            assert same(ours, theirs, slack(function, history[0])), (ours, theirs, history)

    check()


def too_large(kind, value):
    if value is None or pa.types.is_floating(kind):
        return False
    if pa.types.is_decimal(kind):
        return not -(10**38) < int(value.scaleb(kind.scale, EXACT)) < 10**38
    return not -(2**63) <= value < 2**63
