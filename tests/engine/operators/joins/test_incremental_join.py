"""The incremental join against nested loops over the rows that are present, after every batch."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import Batch
from penstock.engine.operators.changelog import with_weights
from penstock.engine.operators.joins.incremental_join import IncrementalJoin
from penstock.engine.operators.joins.join_schema import join_output
from penstock.engine.operators.registry import make_operator
from penstock.model.errors import BugError, PlanError
from penstock.model.expressions import col
from penstock.model.join_specs import HOWS, JoinSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Tumbling, Windowing
from tests.engine.operators.joins.incremental_join_support import (
    KEYS,
    LEFT,
    OUTPUTS,
    RIGHT,
    Rows,
    Step,
    batches_of,
    feed,
    joined,
    locate,
    schemas,
)
from tests.engine.operators.joins.timed_join_support import CUTS
from tests.engine.restarts import Restarting
from tests.engine.support import open_operator

step = st.builds(
    Step,
    st.integers(0, 1),
    st.sampled_from([0, 0, 1, 2, None]),
    st.sampled_from(["", "a", "a", None]),
    st.sampled_from([0, 1, None]),
    st.sampled_from([1, 1, -1]),
)
steps = st.lists(step, max_size=4) | st.lists(step, min_size=12, max_size=40)
sizes = st.lists(st.integers(1, 12), min_size=1, max_size=5)
kinds = st.tuples(st.booleans(), st.booleans())


def as_appended(steps: list[Step], changelog: tuple[bool, bool]) -> list[Step]:
    return [step if changelog[step.side] else Step(step.side, step.number, step.text, step.value, 1) for step in steps]


@settings(max_examples=80)
@given(
    steps,
    sizes,
    kinds,
    st.sampled_from(HOWS),
    st.sampled_from(sorted(KEYS)),
    st.sampled_from(sorted(OUTPUTS)),
    st.sampled_from([1, 3, 64]),
    CUTS,
)
def test_what_is_out_is_the_join_of_what_is_present(
    steps: list[Step],
    sizes: list[int],
    changelog: tuple[bool, bool],
    how: str,
    keys: str,
    output: str,
    batch_rows: int,
    cuts: list[str],
) -> None:
    if how == "inner" and not any(changelog):
        changelog = (True, False)
    steps = as_appended(steps, changelog)
    spec = JoinSpec(*KEYS[keys], OUTPUTS[output], None, how)
    join = open_operator(
        Restarting(lambda: IncrementalJoin(spec, *schemas(changelog), "j"), cuts, locate(keys)), batch_rows=batch_rows
    )
    out: Rows = Counter()
    for port, (rows, so_far) in batches_of(steps, sizes, changelog):
        feed(join, port, rows, out)
        assert +out == joined(so_far, spec, keys)
    counters = join.context.counters
    assert counters.rows_in == len(steps)
    kept = {"left": (True, False), "right": (False, True), "full": (True, True)}.get(how, (False, False))
    parts = {"number": (0,), "computed": (0,), "text": (1,), "both": (0, 1)}[keys]
    alone = [step for step in steps if None in [(step.number, step.text)[part] for part in parts]]
    assert counters.filtered == sum(not kept[step.side] for step in alone)
    assert counters.passed == sum(kept[step.side] and not changelog[step.side] for step in alone)


@pytest.mark.parametrize("changelog", [(True, True), (False, True), (True, False)])
def test_nothing_is_left_of_what_has_been_taken_back(changelog: tuple[bool, bool]) -> None:
    spec = JoinSpec(*KEYS["number"], OUTPUTS["all"], None, "full")
    join = open_operator(IncrementalJoin(spec, *schemas(changelog), "j"))
    out: Rows = Counter()
    changes = [Step(side, number, None, None, 1) for side in (0, 1) for number in (None, 1, 1, 2) if changelog[side]]
    taken = [Step(step.side, step.number, step.text, step.value, -1) for step in changes]
    for sign in (1, -1):
        for port, (rows, _) in batches_of([*changes, *taken][::sign], [3, 2], changelog):
            feed(join, port, rows, out)
        assert not +out
    tables = [name for name in ("left", "right") if changelog[name == "right"]]
    for name in tables:
        assert not join.context.state.log(f"{name}_rows", {"left": LEFT, "right": RIGHT}[name]).live().size


def test_a_hot_key_comes_in_bounded_batches_one_at_a_time() -> None:
    changelog = (True, False)
    spec = JoinSpec(*KEYS["number"], OUTPUTS["values"], None, "full")
    join = open_operator(IncrementalJoin(spec, *schemas(changelog), "j"), batch_rows=100)
    out: Rows = Counter()
    feed(join, 1, pa.RecordBatch.from_pylist([{"b": 1, "y": index / 2} for index in range(300)], schema=RIGHT), out)
    left = pa.RecordBatch.from_pylist([{"a": 1, "x": f"x{index}"} for index in range(70)], schema=LEFT)
    emissions = iter(join.process(0, Batch(with_weights(left, np.ones(70, np.int8)))))
    retracted = [next(emissions)[1].rows.num_rows for _ in range(3)]
    assert retracted == [100, 100, 100]
    inserted = [batch.rows.num_rows for _, batch in emissions]
    assert (sum(inserted), max(inserted)) == (300 * 70, 100)


def test_a_row_that_is_there_many_times_comes_out_as_often() -> None:
    spec = JoinSpec(*KEYS["number"], OUTPUTS["values"], None, "left")
    join = open_operator(IncrementalJoin(spec, *schemas((True, True)), "j"), batch_rows=7)
    out: Rows = Counter()
    left, right = Step(0, 1, None, 1, 1), Step(1, 1, None, 1, 1)
    for port, (rows, _) in batches_of([left] * 20 + [right] * 30, [50], (True, True)):
        feed(join, port, rows, out)
    assert +out == Counter({("'x1'", "0.5"): 600})
    for port, (rows, _) in batches_of([Step(1, 1, None, 1, -1)] * 30, [50], (True, True)):
        feed(join, port, rows, out)
    assert +out == Counter({("'x1'", "None"): 20})


def test_a_partner_of_nulls_and_none_cancel() -> None:
    spec = JoinSpec(*KEYS["number"], (("x", 0, "x"), ("y", 1, "y")), None, "left")
    join = open_operator(IncrementalJoin(spec, *schemas((False, False)), "j"))
    out: Rows = Counter()
    feed(join, 0, pa.RecordBatch.from_pylist([{"a": 1, "x": "x1"}], schema=LEFT), out)
    assert not list(join.process(1, Batch(pa.RecordBatch.from_pylist([{"b": 1, "y": None}], schema=RIGHT))))


def test_registry_chooses_by_what_comes_in() -> None:
    inner, left = (JoinSpec(*KEYS["number"], OUTPUTS["all"], None, how) for how in ("inner", "left"))
    assert not isinstance(make_operator(inner, schemas((False, False)), "j"), IncrementalJoin)
    assert isinstance(make_operator(inner, schemas((False, True)), "j"), IncrementalJoin)
    assert isinstance(make_operator(left, schemas((False, False)), "j"), IncrementalJoin)
    with pytest.raises(BugError):
        IncrementalJoin(inner, *schemas((False, False)), "j")


@pytest.mark.parametrize(
    ("how", "nullable"),
    [("inner", [False, False]), ("left", [False, True]), ("right", [True, False]), ("full", [True, True])],
)
def test_schema(how: str, nullable: list[bool]) -> None:
    left, right = (StreamSchema(pa.schema([pa.field("k", pa.int64(), False)]), None, True) for _ in range(2))
    spec = JoinSpec((col("k"),), (col("k"),), (("l", 0, "k"), ("r", 1, "k")), None, how)
    join = open_operator(IncrementalJoin(spec, left, right, "j"))
    rows = with_weights(pa.RecordBatch.from_arrays([pa.array([1])], schema=left.fields), np.ones(1, np.int8))
    list(join.process(0, Batch(rows)))
    list(join.process(1, Batch(rows)))
    output = join_output(spec, left, right, "j")
    assert [field.nullable for field in output.fields] == nullable
    assert output.changelog


def test_joins_within_windows_stay_final() -> None:
    windowing = Windowing(Tumbling(1_000_000))
    with pytest.raises(PlanError, match="its right one is updating"):
        make_operator(JoinSpec(*KEYS["number"], OUTPUTS["all"], windowing), schemas((False, True)), "j")
    with pytest.raises(PlanError, match="inner ones, not left"):
        make_operator(JoinSpec(*KEYS["number"], OUTPUTS["all"], windowing, "left"), schemas((False, False)), "j")
