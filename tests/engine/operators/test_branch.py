"""Branches behind a source: the rows that go on, their header, and the account."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import Batch
from penstock.engine.operators.branch import Branch
from penstock.engine.operators.select import Filter, Project
from penstock.model.expressions import col
from penstock.model.job_graph import BranchSpec, FilterSpec, ProjectSpec
from penstock.model.keep_rates import STEPS
from penstock.model.sampling import STEP
from penstock.model.schema import StreamSchema
from tests.engine.support import open_operator

STREAM = StreamSchema(pa.schema({"x": pa.int64()}))


def stepped(steps: list[int]) -> pa.RecordBatch:
    schema = STREAM.fields.append(STEP)
    return pa.RecordBatch.from_arrays(
        [pa.array(range(len(steps)), pa.int64()), pa.array(steps, pa.uint8())], schema=schema
    )


def passed(spec: BranchSpec, batch: Batch) -> list[Batch]:
    operator = open_operator(Branch(spec))
    batches = [item for _, item in operator.process(0, batch)]
    counters = operator.context.counters
    assert counters.balanced() and counters.rows_in == batch.rows.num_rows
    assert counters.shed == batch.rows.num_rows - sum(item.rows.num_rows for item in batches)
    return batches


@given(
    st.lists(st.integers(0, STEPS - 1), max_size=20),
    st.integers(1, STEPS),
    st.tuples(st.integers(0, STEPS), st.integers(0, STEPS)),
    st.sampled_from([None, 0, 1]),
    st.booleans(),
)
def test_rows_below_the_limit_go_on_and_stand_for_the_others(
    steps: list[int], source: int, limits: tuple[int, int], number: int | None, is_last: bool
) -> None:
    kept = [step for step in steps if step < source]
    batches = passed(
        BranchSpec(("a", "b"), number, is_last), Batch(stepped(kept), source / STEPS, 7, branches=bytes(limits))
    )
    limit = source if number is None else min(source, limits[number])
    stay = [place for place, step in enumerate(kept) if step < limit]
    assert [row for item in batches for row in item.rows.column("x").to_pylist()] == stay
    for item in batches:
        assert (item.keep, item.ingest_ns) == (limit / STEPS, 7)
        assert item.branches == (b"" if is_last else bytes(limits))
        assert (STEP.name in item.rows.schema.names) != is_last


def test_while_no_branch_sheds_batches_pass_as_they_are() -> None:
    batch = Batch(pa.record_batch({"x": np.arange(5)}), 0.5)
    assert passed(BranchSpec(("a", "b"), 0, True), batch)[0] is batch


def test_operators_on_the_way_carry_the_steps_of_their_rows() -> None:
    batch = Batch(stepped([5, 60, 7]), branches=bytes([32]))
    for operator in (
        Filter(FilterSpec(col("x") > 0), STREAM, "o"),
        Project(ProjectSpec((("x", col("x") + 1),), col("x") > 0), STREAM, "o"),
    ):
        ((_, made),) = open_operator(operator).process(0, batch)
        assert made.rows.column(STEP.name).to_pylist() == [60, 7]
        assert made.rows.schema.field(1) == STEP and made.branches == batch.branches
