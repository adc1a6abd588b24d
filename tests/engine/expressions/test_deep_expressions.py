"""Expressions that nest deep: what is allowed works on a deep stack too, what is not is one sentence."""

import functools
import operator
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.dsl.stream import Stream
from penstock.engine.expressions.compiler import compile_expression
from penstock.engine.plan.optimiser import optimise
from penstock.model.errors import ExpressionError
from penstock.model.expression_trees import MOST_LEVELS
from penstock.model.expressions import Expr, col, conjuncts, substitute
from penstock.model.job_graph import ProjectSpec
from penstock.model.sql_reader import sql

SCHEMA = pa.schema([("x", pa.int64())])
ROWS = pa.record_batch({"x": pa.array([0, 1, None])}, schema=SCHEMA)

Build = Callable[[Expr], Expr]


def nested(build: Build, levels: int) -> Expr:
    return functools.reduce(lambda inner, _: build(inner), range(levels), col("x"))


def values(expression: Expr) -> list[object]:
    found: list[object] = compile_expression(expression, SCHEMA, "deep")(ROWS).to_pylist()
    return found


def on_a_deep_stack(frames: int, call: Callable[[], None]) -> None:
    if frames:
        on_a_deep_stack(frames - 1, call)
    else:
        call()


@pytest.mark.parametrize(
    ("build", "levels", "expected"),
    [
        (lambda inner: inner + 1, 1, [100, 101, None]),
        (lambda inner: 1 + inner, 1, [100, 101, None]),
        (lambda inner: -inner, 1, [0, 1, None]),
        (lambda inner: inner.abs(), 1, [0, 1, None]),
        (lambda inner: inner.fill_null(7), 1, [0, 1, 7]),
        (lambda inner: inner.between(0, 1).cast("int64"), 3, [1, 1, None]),
        (lambda inner: inner.is_in([0, 1]).cast("int64"), 3, [1, 1, None]),
    ],
    ids=["left", "right", "sign", "call", "coalesce", "between", "in"],
)
def test_what_may_be_nested_works_everywhere(build: Build, levels: int, expected: list[object]) -> None:
    def use() -> None:
        deep = nested(build, MOST_LEVELS // levels)
        assert values(deep) == expected
        same = substitute(deep, {"x": col("x")})
        assert deep.same_as(same)
        assert hash(deep) == hash(same)
        assert repr(deep) == same.name == same.alias("other").tree.this.sql("duckdb", normalize_functions=False)

    on_a_deep_stack(250, use)


@pytest.mark.parametrize(
    "build",
    [lambda inner: inner + col("x"), lambda inner: inner.call("abs"), lambda inner: (inner > 0) | (col("x") > 1)],
    ids=["sum", "call", "condition"],
)
def test_what_nests_deeper_is_refused_where_it_is_written(build: Build) -> None:
    with pytest.raises(
        ExpressionError, match=r"^The expression at .*test_deep_expressions.py:\d+ nests more than 100 operators and "
    ):
        nested(build, 1_000)


def test_a_hundred_conditions_are_taken_apart_in_order() -> None:
    conditions = [col("x") != number for number in range(MOST_LEVELS)]
    parts = conjuncts(functools.reduce(operator.and_, conditions))
    assert [str(part.name) for part in parts] == [condition.name for condition in conditions]


def test_sql_text() -> None:
    assert values(sql(" + ".join(["x"] * (MOST_LEVELS + 1)))) == [0, MOST_LEVELS + 1, None]
    assert sql("(" * 30 + "x + 1" + ")" * 30).same_as(col("x") + 1)
    for text in (" or ".join(f"x = {number}" for number in range(2_000)), " + ".join(["x"] * 1_000)):
        with pytest.raises(ExpressionError, match=r"^The expression at .*\.py:\d+ nests more than 100 operators"):
            sql(text)
    for text in ("(" * 1_000 + "x" + ")" * 1_000, "abs(" * 400 + "x" + ")" * 400, "- " * 3_000 + "x"):
        with pytest.raises(ExpressionError, match=r"^The (SQL )?expression at .*\.py:\d+ nests "):
            sql(text)


def test_a_part_used_twice_at_every_level_is_computed_once() -> None:
    """Otherwise thirty levels would take a thousand million steps."""
    text = "x"
    for number in range(30):
        text = f"nullif({text}, {number + 5})"
    assert values(sql(text)) == [0, 1, None]
    assert values(nested(lambda inner: inner.between(0, 1).cast("int64"), 30)) == [1, 1, None]


def test_long_pipelines_of_projections_are_merged_no_deeper_than_users_may_nest() -> None:
    job = Job()
    stream: Stream = read_memory([{"x": 1}, {"x": 2}], job=job)
    for _ in range(300):
        stream = stream.with_columns(x=col("x").abs() + 1)
    result = stream.collect()
    graph = optimise(job.graph)
    assert sum(isinstance(node.spec, ProjectSpec) for node in graph.operators.values()) < 30
    job.run("long")
    assert result.rows() == [{"x": 301}, {"x": 302}]
