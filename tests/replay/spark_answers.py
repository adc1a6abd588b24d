"""Expressions evaluated by Spark and by our Arrow kernels over the same rows, many in one query; called by tests."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from penstock.engine.expressions.compiler import compile_expression, evaluate_isolating
from penstock.model.expressions import Expr
from penstock.replay.spark_sql import NoSparkTextError, row_error_sql, to_spark_sql
from penstock.replay.spark_types import carrier_schema, from_spark_batch, spark_schema

Drawn = TypeVar("Drawn")

_IN_ONE_QUERY = 60
# Java's may differ from C's in the last digit.
_INEXACT = {"exp", "ln", "power"}


def drawn(strategy: st.SearchStrategy[Drawn], count: int) -> list[Drawn]:
    """Return examples that a property test would try, always the same."""
    examples: list[Drawn] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Drawn) -> None:
        examples.append(example)

    collect()
    return examples


def in_spark(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows as Spark has them; it compiles what is computed of them, as it does with rows that it reads."""
    carried = rows.cast(carrier_schema(rows.schema))
    return spark.createDataFrame(carried, spark_schema(rows.schema)).repartition(1).cache()


def out_of_spark(rows: DataFrame, schema: pa.Schema) -> pa.RecordBatch:
    """Return all rows with the types of our stream."""
    batches = rows.toArrow().combine_chunks().to_batches()
    return from_spark_batch(batches[0], schema) if batches else schema.empty_table().to_batches()[0]


def check(rows: DataFrame, schema: pa.Schema, expressions: Sequence[Expr]) -> int:
    """Check that values, and the rows that have none, are the same; return how many expressions have a text."""
    batch = out_of_spark(rows, schema)
    written = []
    for expression in expressions:
        try:
            written.append((expression, to_spark_sql(expression, schema), row_error_sql(expression, schema)))
        except NoSparkTextError:
            continue
    differences = []
    for start in range(0, len(written), _IN_ONE_QUERY):
        part = written[start : start + _IN_ONE_QUERY]
        texts = [f"{text} AS v{i}" for i, (_, text, _) in enumerate(part)]
        failures = [f"{failure or 'FALSE'} AS e{i}" for i, (_, _, failure) in enumerate(part)]
        answers = rows.selectExpr(*texts, *failures).toArrow()
        for i, (expression, text, _) in enumerate(part):
            found = _difference(expression, batch, answers.column(f"v{i}"), answers.column(f"e{i}"))
            if found:
                differences.append(f"{expression!r} = {text[:1500]}\n    {found}")
    assert not differences, "\n".join(differences[:5])
    return len(written)


def _difference(expression: Expr, batch: pa.RecordBatch, values: Any, failures: Any) -> str | None:
    compiled = compile_expression(expression, batch.schema, "test")
    ours = evaluate_isolating(compiled, batch)
    reasons = dict(ours.errors)
    for row in sorted(set(reasons) ^ {row for row, fails in enumerate(failures.to_pylist()) if fails}):
        return f"of {batch.slice(row, 1).to_pylist()} we say {reasons.get(row)}, Spark the opposite"
    if ours.result is None:
        return None
    schema = pa.schema([("value", compiled.type)])
    answered = values.combine_chunks().take(ours.good)
    theirs = from_spark_batch(pa.RecordBatch.from_arrays([answered], ["value"]), schema).column(0)
    inexact = any(str(call.name).lower() in _INEXACT for call in expression.tree.find_all(exp.Anonymous))
    for row, one, other in zip(ours.good.to_pylist(), ours.result.to_pylist(), theirs.to_pylist(), strict=True):
        if not same(one, other, 1e-14 if inexact else 0.0):
            return f"of {batch.slice(row, 1).to_pylist()} we make {one!r}, Spark {other!r}"
    return None


def same(one: Any, other: Any, tolerance: float = 0.0) -> bool:
    """Return whether two values are the same; NaN is itself, and -0.0 is 0.0."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=tolerance)
    return bool(one == other) and (one is None) == (other is None)
