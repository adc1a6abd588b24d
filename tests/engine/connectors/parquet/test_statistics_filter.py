"""Random predicates over random row groups: what is left out never holds a row that counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.connectors.parquet.statistics_filter import PartStatistics, StatisticsFilter
from penstock.engine.expressions.compiler import compile_predicate
from penstock.model.expressions import Expr, col
from tests.engine.connectors.reading import read_all

SCHEMA = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("b", pa.bool_())])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "f": st.sampled_from([float("nan"), float("inf"), -0.0, 0.0, 1.5, -2.5]),
    "s": st.sampled_from(["", "a", "ab", "é", "z" * 80]),
}


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    row = {name: st.none() | values for name, values in VALUES.items()}
    return st.lists(st.fixed_dictionaries({**row, "b": st.none() | st.booleans()}), min_size=1, max_size=12)


@st.composite
def comparisons(draw: st.DrawFn) -> Expr:
    name = draw(st.sampled_from([*VALUES, "b"]))
    if name == "b":
        return col("b")
    column, value = col(name), draw(VALUES[name])
    simple: list[Expr] = [
        column > value,
        column >= value,
        column < value,
        column <= value,
        column == value,
        column != value,
        value < column,
        column.is_null(),
        column.is_not_null(),
        column.is_in([value, draw(VALUES[name])]),
        column.between(value, draw(VALUES[name])),
    ]
    return draw(st.sampled_from(simple))


def predicates() -> st.SearchStrategy[Expr]:
    return st.recursive(
        comparisons(),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
            inner.map(lambda one: ~one),
        ),
        max_leaves=5,
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(rows(), min_size=1, max_size=4), predicates())
def test_no_row_that_counts_is_left_out(tmp_path: Path, groups: list[list[dict[str, Any]]], predicate: Expr) -> None:
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for group in groups:
            writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
    got = read_all(ParquetSource(path).restrict(SCHEMA.names, predicate))
    compiled = compile_predicate(predicate, SCHEMA, "test")
    kept = [row for batch in got.batches for row in batch.filter(compiled(batch)).to_pylist()]
    everything = pa.RecordBatch.from_pylist([row for group in groups for row in group], schema=SCHEMA)
    assert repr(kept) == repr(everything.filter(compiled(everything)).to_pylist())
    assert len(got.rows) + got.skipped == everything.num_rows


def test_parts_without_statistics_may_always_match() -> None:
    empty = pa.RecordBatch.from_pylist([{}], schema=pa.schema([("i", pa.int64())]))
    unknown = PartStatistics(np.array([5]), empty, empty, {"i": np.array([-1])})
    for predicate in (col("i") > 5, col("i") == 5, col("i") != 5, col("i").is_null(), ~col("i").is_null()):
        assert StatisticsFilter(predicate, SCHEMA).may_match(unknown).tolist() == [True]


def test_a_predicate_that_may_fail_leaves_nothing_out() -> None:
    """Its failing rows are bad records, not filtered ones."""
    bounds = pa.RecordBatch.from_pylist([{"i": 1}], schema=pa.schema([("i", pa.int64())]))
    part = PartStatistics(np.array([5]), bounds, bounds, {"i": np.array([0])})
    assert StatisticsFilter(col("i") > 5, SCHEMA).may_match(part).tolist() == [False]
    assert StatisticsFilter((col("i") > 5) & (col("i") * 2 > 5), SCHEMA).may_match(part).tolist() == [True]
