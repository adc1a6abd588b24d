"""Random expressions mean the same to Spark as to our kernels, for every row, those included that have no answer."""

import math

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.engine.expressions.compiler import infer_type
from penstock.model.errors import ExpressionError
from penstock.model.expression_functions import when
from penstock.model.expressions import Expr, col
from penstock.replay.spark_sql import NoSparkTextError, row_error_sql, to_spark_sql
from tests.engine.expressions.test_compiler_properties import EXPRESSIONS, SCHEMA, batches
from tests.replay.further_expressions import MORE, ROW, TIMES, WHOLE
from tests.replay.spark_answers import check, drawn, in_spark


def fitting(expressions: list[Expr], schema: pa.Schema) -> list[Expr]:
    """Leave out what types do not allow, such as decimals of more than 38 digits, and what is there already."""
    found: dict[str, Expr] = {}
    for expression in expressions:
        try:
            infer_type(expression, schema, "test")
        except ExpressionError:
            continue
        found.setdefault(repr(expression), expression)
    return list(found.values())


def test_spark_means_what_our_kernels_mean(spark: SparkSession) -> None:
    rows = pa.Table.from_batches(drawn(batches(), 40))
    expressions = fitting(drawn(EXPRESSIONS, 200), SCHEMA)
    assert check(in_spark(spark, rows), SCHEMA, expressions) > 150


@pytest.mark.long("400 expressions more; test_spark_means_what_our_kernels_mean")
def test_of_further_types_too(spark: SparkSession) -> None:
    rows = pa.Table.from_pylist(drawn(ROW, 250), schema=MORE)
    expressions = fitting(drawn(WHOLE, 400), MORE)
    assert check(in_spark(spark, rows), MORE, expressions) > 300


def test_texts_of_times(spark: SparkSession) -> None:
    rows = pa.table({"text": [*TIMES, "2024-01-01 10:05Z", "2024-01-01T10-0230", None]})
    kinds = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us") for zone in (None, "UTC")]
    expressions = [col("text").try_cast(kind) for kind in kinds] + [col("text").cast(kind) for kind in kinds]
    assert check(in_spark(spark, rows), rows.schema, expressions) == len(expressions)


def test_what_nests_deep_has_a_short_text_or_none(spark: SparkSession) -> None:
    rows = pa.table({"a": [7, -(2**63), None], "b": [-1, 3, 1], "x": [1.5, math.nan, -math.inf]})
    whole, sums, cases = col("a"), col("b"), col("a")
    for level in range(20):
        sums = sums * 2 + col("b") - level
        cases = when(col("x") > level).then(cases * 2).otherwise(col("b"))
        whole = (whole // col("b")).round(-1) + level if level < 4 else whole
    assert all(len(to_spark_sql(deep, rows.schema)) < 3_000 for deep in (whole, sums, cases))
    assert check(in_spark(spark, rows), rows.schema, [whole, sums]) == 2
    with pytest.raises(NoSparkTextError, match="nests too deep"):
        for _ in range(20):
            whole = whole // col("b")
        to_spark_sql(whole, rows.schema)
    with pytest.raises(NoSparkTextError, match="too long"):
        row_error_sql(cases, rows.schema)
