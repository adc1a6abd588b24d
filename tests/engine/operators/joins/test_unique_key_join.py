"""The join with a side whose keys come once, against nested loops, for any interleaving of its inputs."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.engine.core.elements import Batch
from penstock.engine.operators.joins import waiting_rows
from penstock.engine.operators.joins.unique_key_join import OneJoin
from penstock.model.errors import OptionError, PlanError
from penstock.model.expressions import Expr, col
from penstock.model.job_graph import FilterSpec
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema
from tests.engine.operators.joins.test_join import (
    LEFT,
    LOCATE,
    ON_BOTH,
    ON_NUMBER,
    ON_TEXT,
    OUTPUT,
    batches_of,
    feed,
    rows,
    sizes,
)
from tests.engine.operators.joins.timed_join_support import CUTS
from tests.engine.restarts import Restarting
from tests.engine.support import Rejected, open_operator

RIGHT_SCHEMA, LEFT_SCHEMA = StreamSchema(batches_of([(1, 1, None)], [1])[0][1].schema), StreamSchema(LEFT)

Row = tuple[int, int | None, str | None]


def key_of(row: Row, on: Any) -> tuple[Any, ...]:
    return {ON_NUMBER: row[1:2], ON_TEXT: row[2:], ON_BOTH: row[1:]}[on]


def expected(rows: list[Row], on: Any, validate: str, wanted: Any) -> tuple[Counter[tuple[int, int]], list[int]]:
    """Return the pairs of (left, right), and the rows that repeat a key where it comes once."""
    once = {"1:m": [0], "m:1": [1], "1:1": [0, 1]}[validate]
    seen: set[tuple[int, Any]] = set()
    kept, repeated = [], []
    for index, row in enumerate(rows):
        if row[0] in once and None not in key_of(row, on):
            if (row[0], key_of(row, on)) in seen:
                repeated.append(index)
                continue
            seen.add((row[0], key_of(row, on)))
        kept.append(index)
    one = 0 if validate == "1:m" else 1
    pairs = Counter(
        (i, j)
        for i in kept
        for j in kept
        if rows[i][0] == 0 and rows[j][0] == 1 and key_of(rows[i], on) == key_of(rows[j], on)
        if None not in key_of(rows[i], on) and wanted((i, j)[one])
    )
    return pairs, repeated


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    rows,
    sizes,
    st.sampled_from([ON_NUMBER, ON_TEXT, ON_BOTH]),
    st.sampled_from(["1:m", "m:1", "1:1"]),
    st.sampled_from([None, 0, 5]),
    st.sampled_from([1, 3, 64]),
    st.sampled_from([0, 65_536]),
    CUTS,
)
def test_equals_nested_loops(
    rows: list[Row],
    sizes: list[int],
    on: Any,
    validate: str,
    least: int | None,
    batch_rows: int,
    span: int,
    cuts: list[str],
) -> None:
    where: Expr | None = None if least is None else col("id") >= least
    spec = JoinSpec(on[0], on[1], OUTPUT, validate=validate, where=where)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting_rows, "_LEAST_SPAN", span)
        patch.setattr(waiting_rows, "_SPARSE", 4 if span else 1)
        join = open_operator(
            Restarting(lambda: OneJoin(spec, LEFT_SCHEMA, RIGHT_SCHEMA, "j"), cuts, LOCATE[on]), batch_rows=batch_rows
        )
        out = feed(join, batches_of(rows, sizes)).rows()
    pairs, repeated = expected(rows, on, validate, lambda row: least is None or row >= least)
    assert Counter((row["left_id"], row["right_id"]) for row in out) == pairs
    assert all(row["x"] == f"x{row['left_id']}" and row["y"] == row["right_id"] / 2 for row in out)
    letters = join.context.dead_letters
    assert isinstance(letters, Rejected)
    assert sorted(row["id"] for row in letters.rows) == repeated
    counters = join.context.counters
    assert (counters.rows_in, counters.dead_lettered) == (len(rows), len(repeated))
    assert counters.filtered == sum(None in key_of(row, on) for row in rows)


def test_rows_that_met_are_not_kept() -> None:
    spec = JoinSpec(*ON_NUMBER, OUTPUT, validate="m:1", where=col("y") > 100.0)
    join = open_operator(OneJoin(spec, LEFT_SCHEMA, RIGHT_SCHEMA, "j"))

    def push(rows: list[Row]) -> int:
        return sum(
            batch.rows.num_rows
            for port, rows_of in batches_of(rows, [1_000])
            for _, batch in join.process(port, Batch(rows_of))
        )

    waiting = join.context.state.log("waiting", join._waiting._fields)
    push([(0, key, None) for key in range(500)])
    assert waiting.live().size == 500
    # y of row i is i / 2: the rows of keys 0 to 200 are not wanted, and rows that wait for them go all the same.
    assert push([(1, key, None) for key in range(400)]) == 199
    assert waiting.live().size == 100
    assert push([(0, key, None) for key in range(400)]) == 199
    assert waiting.live().size == 100


def test_repeated_key_names_the_option() -> None:
    spec = JoinSpec(*ON_NUMBER, OUTPUT, validate="m:1")
    join = open_operator(OneJoin(spec, LEFT_SCHEMA, RIGHT_SCHEMA, "j"))
    feed(join, batches_of([(1, 7, "a"), (1, 7, "b")], [2]))
    letters = join.context.dead_letters
    assert isinstance(letters, Rejected)
    assert [row["t"] for row in letters.rows] == ["b"]
    assert letters.errors == ["its key has come before on this side, where validate='m:1' has it come once"]


def streams() -> tuple[ps.Job, ps.Stream, ps.Stream]:
    job = ps.Job()
    orders = ps.read_memory([{"item": 1, "n": 5}, {"item": 2, "n": 6}, {"item": 1, "n": 7}], job=job)
    items = ps.read_memory([{"item": 1, "kind": "a", "size": 3}, {"item": 2, "kind": "b", "size": 4}], job=job)
    return job, orders, items


def ran(job: ps.Job, stream: ps.Stream) -> list[dict[str, Any]]:
    result = stream.collect()
    job.run("one")
    return list(result.rows())


def test_a_filter_over_the_one_side_is_the_joins_own() -> None:
    job, orders, items = streams()
    joined = orders.join(items, on="item", validate="m:1").select("n", sort="kind")
    assert sorted(row["n"] for row in ran(job, joined.filter(col("sort") == "a"))) == [5, 7]


@pytest.mark.parametrize(
    ("condition", "moves"),
    [
        (col("kind") == "a", True),
        ((col("kind") == "a") | (col("size") > 3), True),
        (col("n") > 5, False),
        (col("size") / 0 > 1, False),
    ],
)
def test_only_conditions_over_the_one_side_that_cannot_fail_move(condition: Expr, moves: bool) -> None:
    job, orders, items = streams()
    orders.join(items, on="item", validate="m:1").filter(condition).write_black_hole()
    specs = [node.spec for node in job.plan(1).graph.operators.values()]
    (join,) = [spec for spec in specs if isinstance(spec, JoinSpec)]
    assert (join.where is not None) == moves
    assert any(isinstance(spec, FilterSpec) for spec in specs) != moves


def test_two_filters_are_both_asked() -> None:
    job, orders, items = streams()
    joined = orders.join(items, on="item", validate="m:1")
    assert ran(job, joined.filter(col("kind") == "a").filter(col("size") > 3)) == []


def test_what_cannot_be() -> None:
    _, orders, items = streams()
    with pytest.raises(OptionError, match="one of m:m, 1:m, m:1, 1:1, not 'n:1'"):
        orders.join(items, on="item", validate="n:1")
    with pytest.raises(PlanError, match="needs an inner join of append-only streams"):
        orders.join(items, on="item", validate="m:1", how="left")
    with pytest.raises(PlanError, match="needs an inner join of append-only streams"):
        orders.key_by("item").agg(n=ps.count()).join(items, on="item", validate="m:1")
