"""Operators that keep nothing: a restart finds nothing to bring back and does not show."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import Operator
from penstock.engine.operators.functions.batch_function import BatchFunction
from penstock.engine.operators.functions.row_function import RowFunction
from penstock.engine.operators.select import Filter, Pass, Project, Split
from penstock.engine.operators.union import Union
from penstock.model.expressions import col
from penstock.model.job_graph import BatchFunctionSpec, FilterSpec, ProjectSpec, RowFunctionSpec, SplitSpec
from penstock.model.schema import StreamSchema
from tests.engine.restarts import RESTARTS, Restarting
from tests.engine.support import collect, open_operator

FIELDS = pa.schema({"x": pa.int64()})
STREAM = StreamSchema(FIELDS)

MAKERS: dict[str, Callable[[], Operator]] = {
    "filter": lambda: Filter(FilterSpec(col("x") > 2), STREAM, "o"),
    "project": lambda: Project(ProjectSpec((("x", col("x") + 1),)), STREAM, "o"),
    "split": lambda: Split(SplitSpec((("odd", col("x") % 2 == 1),)), STREAM, "o"),
    "union": lambda: Union([STREAM, STREAM], "o"),
    "pass": Pass,
    "rows": lambda: RowFunction(RowFunctionSpec("map", lambda x: {"x": 6 // x}, FIELDS, ("x",)), STREAM, "o"),
    "batches": lambda: BatchFunction(BatchFunctionSpec(lambda rows: rows, FIELDS), STREAM, "o"),
}

steps = st.lists(st.lists(st.integers(0, 5), min_size=1).map(lambda xs: pa.record_batch({"x": xs})), max_size=5)


@pytest.mark.parametrize("kind", MAKERS)
@settings(max_examples=10)
@given(steps, RESTARTS)
def test_a_restart_does_not_show(kind: str, steps: list[pa.RecordBatch], restarts: list[str]) -> None:
    make = MAKERS[kind]
    operator, whole = open_operator(Restarting(make, restarts)), open_operator(make())
    found, expected = collect(operator, steps), collect(whole, steps)
    assert found.batches == expected.batches
    assert operator.context.counters == whole.context.counters
    (inner,) = operator._inner
    assert (inner.context.state.names(), inner.notes()) == ([], {})
