"""The aggregates of one operator together: columns, shared state, user-defined ones, sketches
and DuckDB's answers.
"""

import math
import statistics
from typing import ClassVar

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.engine.accumulators.arrays import Rows
from penstock.engine.accumulators.registry import make_accumulator
from penstock.model.aggregates import AggregateCall, UserAggregate
from penstock.model.errors import PlanError, UserError
from penstock.model.expressions import col
from tests.engine.accumulators.accumulators_support import Groups, table
from tests.hidden_libraries import hide

X, Y = col("x"), col("y")


class Product(UserAggregate):
    """Multiplies."""

    state: ClassVar = {"log": "float64", "negative": np.int64}
    result_type = float

    def update(self, state, groups, values):
        numbers = values[0].to_numpy()
        np.add.at(state["log"], groups, np.log(np.abs(numbers)))
        np.add.at(state["negative"], groups, numbers < 0)

    def merge(self, state, groups, other, other_groups):
        for name in ("log", "negative"):
            np.add.at(state[name], groups, other[name][other_groups])

    def result(self, state, groups):
        return np.exp(state["log"][groups]) * np.where(state["negative"][groups] % 2, -1, 1)


class Undoable(Product):
    def retract(self, state, groups, values):
        np.subtract.at(state["log"], groups, np.log(np.abs(values[0].to_numpy())))
        np.subtract.at(state["negative"], groups, values[0].to_numpy() < 0)


class Broken(Product):
    def result(self, state, groups):
        return {"short": [1.0] * (len(groups) - 1), "text": ["a"] * len(groups)}[self.how]


def test_a_user_aggregate_counts_known_rows_only():
    state = Groups(AggregateCall("user", (X,), user=Product()), [pa.float64()], 3)
    state.update(
        [0, 1, 0, -1, 1],
        pa.array([2.0, None, -4.0, 9.0, 5.0]),
        where=[True, True, True, True, False],
    )
    state.update([0, 0], [3.0, 0.5])
    assert state.result().to_pylist() == [pytest.approx(-12.0), None, None]
    state.absorb([1, 1], [0, 0])
    assert state.result([2, 1, 0]).to_pylist() == [None, pytest.approx(144.0), pytest.approx(-12.0)]


def test_a_user_aggregate_retracts_if_it_can():
    state = Groups(AggregateCall("user", (X,), user=Undoable()), [pa.float64()], 1, updating=True)
    state.update([0, 0, 0], [2.0, -4.0, 3.0], weights=[1, 1, -1])
    state.update([0, 0], [3.0, 2.0], weights=[1, -1])
    assert state.result().to_pylist() == [pytest.approx(-4.0)]
    with pytest.raises(PlanError, match="aggregate 'x' \\(user\\) cannot take rows back"):
        Groups(AggregateCall("user", (X,), user=Product()), [pa.float64()], 1, updating=True)


def test_what_a_user_aggregate_does_wrong_is_told():
    state = Groups(AggregateCall("user", (X,), user=Product()), [pa.string()], 1)
    with pytest.raises(UserError, match="operator 'op': aggregate 'x' \\(user\\): Product raised"):
        state.update([0], ["a"])
    for how, words in (
        ("short", "returned 0 values for 1 groups"),
        ("text", "must return values of type double"),
    ):
        broken = Broken()
        broken.how = how
        state = Groups(AggregateCall("user", (X,), user=broken), [pa.float64()], 1).update([0], [1.0])
        with pytest.raises(UserError, match=f"aggregate 'x' .*{words}"):
            state.result()
    nothing = type("Nothing", (Product,), {"result_type": object})
    with pytest.raises(PlanError, match="Nothing must declare"):
        Groups(AggregateCall("user", (X,), user=nothing()), [pa.float64()], 1)


def test_sum_and_mean_of_one_input_share_their_state():
    calls = {
        "n": AggregateCall("count"),
        "some": AggregateCall("count", (), Y > 0),
        "total": AggregateCall("sum", (X,)),
        "average": AggregateCall("mean", (X,)),
        "other": AggregateCall("mean", (Y,)),
        "part": AggregateCall("mean", (X,), Y > 0),
        "spread": AggregateCall("stddev", (X,)),
        "spread2": AggregateCall("variance", (X,)),
    }
    types = [[pa.int64()] * len(call.inputs) for call in calls.values()]
    aggregation = Aggregation("op", list(calls), list(calls.values()), types)
    assert aggregation.owners == [None, 1, 2, 2, 4, 5, 6, 6]
    assert [field.name for field in aggregation.fields()] == list(calls)
    assert {name.split(".")[0] for name in aggregation.columns()} == {
        "rows",
        "a1",
        "a2",
        "a4",
        "a5",
        "a6",
    }
    cells, slots = table(aggregation.columns(), 2)
    bound = aggregation.bind(cells)
    bound.reset(slots)
    x, y = pa.array([1, 2, None, 6]), pa.array([1, -1, 1, 2])
    positive = np.array([True, False, True, True])
    values = [[x if column is X else y for column in call.inputs] for call in calls.values()]
    where = [None if call.where is None else positive for call in calls.values()]
    bound.update(Rows(slots[np.array([0, 0, 0, 0])]), values, where)
    bound.absorb(slots[[1, 1]], bound, slots[[0, 0]])
    results = dict(zip(calls, bound.results(slots), strict=True))
    assert {name: column[0].as_py() for name, column in results.items()} == {
        "n": 4, "some": 3, "total": 9, "average": 3.0, "other": 0.75, "part": 3.5,
        "spread": pytest.approx(math.sqrt(7)), "spread2": pytest.approx(7),
    }  # fmt: skip
    assert [results[name][1].as_py() for name in ("n", "some", "total", "average")] == [
        8,
        6,
        18,
        3.0,
    ]
    assert bound.row_counts(slots).tolist() == [4, 8]


def test_equals_duckdb():
    rng = np.random.default_rng(7)
    rows, size = 4_000, 60
    data = pa.table(
        {
            "g": rng.integers(0, size, rows),
            "x": pa.array(rng.integers(-(2**40), 2**40, rows), mask=rng.random(rows) < 0.1),
            "d": pa.array(rng.integers(-(10**6), 10**6, rows)).cast(pa.decimal128(38, 0)).cast(pa.decimal128(20, 0)),
            "f": pa.array(rng.normal(1e6, 1.0, rows), mask=rng.random(rows) < 0.1),
            "s": pa.array(rng.integers(0, 500, rows).astype(str).tolist(), mask=rng.random(rows) < 0.1),
            "t": rng.permutation(rows),
        }
    )
    keep = rng.random(rows) < 0.7
    text = {
        "count": ("count({})", "xs"), "sum": ("sum({})", "xdf"), "mean": ("avg({})", "xdf"),
        "min": ("min({})", "xdfs"), "max": ("max({})", "xdfs"), "variance": ("var_samp({})", "xdf"),
        "stddev": ("stddev_samp({})", "xdf"), "first": ("arg_min({}, t)", "xs"),
        "last": ("arg_max({}, t)", "xs"), "arg_min": ("arg_min({}, t)", "fs"),
        "count_distinct": ("count(distinct {})", "xdfs"),
        "collect": ("list({0} order by {0} nulls last)", "ds"),
    }  # fmt: skip
    cases = [(name, sql, column) for name, (sql, columns) in text.items() for column in columns]
    calls = [AggregateCall(name, (col(c),) if name != "arg_min" else (col(c), col("t"))) for name, _, c in cases]
    calls = [call if index % 2 else call.filter(col("keep")) for index, call in enumerate(calls)]
    inputs = [[data[column].combine_chunks() for column in (case[2], "t")[: len(call.inputs)]]
              for case, call in zip(cases, calls, strict=True)]  # fmt: skip
    aggregation = Aggregation(
        "op",
        [str(index) for index in range(len(calls))],
        calls,
        [[array.type for array in arrays] for arrays in inputs],
    )
    cells, slots = table(aggregation.columns(), size)
    bound = aggregation.bind(cells)
    bound.reset(slots)
    for start in range(0, rows, 997):
        part = slice(start, start + 997)
        bound.update(
            Rows(slots[data["g"].to_numpy()[part]], times_us=data["t"].to_numpy()[part]),
            [[array[part] for array in arrays] for arrays in inputs],
            [None if call.where is None else keep[part] for call in calls],
        )
    selects = [
        sql.format(column) + ("" if call.where is None else " filter (where keep)")
        for (_, sql, column), call in zip(cases, calls, strict=True)
    ]
    bids = data.append_column("keep", pa.array(keep))  # noqa: F841  (DuckDB finds it by name)
    expected = duckdb.sql(f"select {', '.join(selects)} from bids group by g order by g").fetchall()
    assert len(expected) == size
    for index, column in enumerate(bound.results(slots)):
        for ours, theirs in zip(column.to_pylist(), (row[index] for row in expected), strict=True):
            if isinstance(theirs, float):
                theirs = pytest.approx(theirs, rel=1e-9)
            assert ours == theirs, selects[index]


@pytest.mark.parametrize("kind", ["int", "string", "decimal", "float"])
def test_approximate_distinct_counts_do_not_depend_on_order(kind):
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 20_000, 30_000)
    types = {
        "int": pa.int64(),
        "string": pa.string(),
        "decimal": pa.decimal128(30, 0),
        "float": pa.float64(),
    }
    values = pa.array(numbers).cast(pa.decimal128(30, 0) if kind == "decimal" else types[kind])
    true = len(np.unique(numbers))
    results = []
    for split in (1, 7):
        state = Groups(AggregateCall("approx_count_distinct", (X,)), [types[kind]], split + 1)
        order = rng.permutation(len(numbers))
        for part in range(split):
            rows = order[part::split]
            state.update(np.full(len(rows), part + 1), values.take(pa.array(rows)))
        state.absorb([0] * split, np.arange(split) + 1)
        results.append(state.result([0])[0].as_py())
    assert results[0] == results[1] == pytest.approx(true, rel=0.05)
    assert Groups(AggregateCall("approx_count_distinct", (X,)), [pa.int64()]).result().to_pylist() == [0] * 4


def test_approximate_quantiles_are_within_their_error():
    rng = np.random.default_rng(2)
    values = rng.exponential(size=40_000)
    calls = [AggregateCall("approx_quantile", (X,), None, {"q": q}) for q in (0, 0.5, 0.99, 1)]
    aggregation = Aggregation("op", list("abcd"), calls, [[pa.float64()]] * 4)
    assert aggregation.owners == [0, 0, 0, 0]
    cells, slots = table(aggregation.columns(), 3)
    bound = aggregation.bind(cells)
    bound.reset(slots)
    for start in range(0, len(values), 9_000):
        part = pa.array(values[start : start + 9_000])
        rows = Rows(slots[np.arange(len(part)) % 2])
        bound.update(rows, [[part]] * 4, [None] * 4)
    bound.absorb(slots[[0]], bound, slots[[1]])
    low, middle, high, top = (column[0].as_py() for column in bound.results(slots))
    assert (low, top) == (values.min(), values.max())
    assert np.mean(values <= middle) == pytest.approx(0.5, abs=0.04)
    assert np.mean(values <= high) == pytest.approx(0.99, abs=0.04)
    assert bound.results(slots[[2]])[0].to_pylist() == [None]
    few = Groups(calls[1], [pa.int64()], 1).update([0] * 5, [5, 1, 3, 2, 4])
    assert few.result().to_pylist() == [statistics.median([1, 2, 3, 4, 5])]


@pytest.mark.parametrize(("function", "options"), [("approx_count_distinct", {}), ("approx_quantile", {"q": 0.5})])
def test_sketches_know_their_bytes_and_cannot_retract(function, options, monkeypatch):
    call = AggregateCall(function, (X,), None, options)
    state = Groups(call, [pa.int64()], 1).update(np.zeros(5_000), np.arange(5_000))
    spec = state.aggregation.columns()["a0.sketch"]
    (sketch,) = [sketch for sketch in state.table.objects("a0.sketch") if sketch is not None]
    data = spec.encode(sketch)
    assert spec.encode(spec.decode(data)) == data
    assert len(data) / 2 < spec.size(sketch) < 3 * len(data)
    with pytest.raises(PlanError, match=r"aggregate 'x' \(approx_.*changelog"):
        Groups(call, [pa.int64()], 1, updating=True)
    hide(monkeypatch, "datasketches")
    with pytest.raises(PlanError, match=f"'op': {function} needs .*\\[sketches\\]"):
        make_accumulator(call, [pa.int64()], "op")


def test_two_texts_survive_a_changelog():
    state = Groups(AggregateCall("arg_max", (X, Y)), [pa.string(), pa.string()], 2, updating=True)
    words = ["", "a", "longer text", "é"]
    state.update([0] * 4, words, words[::-1])
    state.update([0, 0], ["", "a"], ["é", "longer text"], weights=[-1, -1])
    assert state.result().to_pylist() == ["longer text", None]
