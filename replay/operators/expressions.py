"""Columns computed from expressions: by Spark where its SQL has an exact counterpart, else by the stream's own kernels.

Every operator of a replay that computes something calls it. Rows for which an expression has no answer are left out, as
they are dead letters of a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.engine.expressions.compiler import compile_projection, evaluate_isolating
from penstock.model.expressions import Expr, col
from penstock.replay.spark_sql import NoSparkTextError, condition_sql, row_error_sql, to_spark_sql
from penstock.replay.spark_types import from_spark_batch, quoted_name, spark_schema, to_spark_batch

Columns = Sequence[tuple[str, Expr]]
"""Output columns by name."""

Batches = Iterable[pa.RecordBatch]


def projected(
    rows: DataFrame, fields: pa.Schema, columns: Columns, operator: str, where: Expr | None = None
) -> DataFrame:
    """Return these columns of the rows for which all of them, and the condition, have an answer, and that is true.

    ``rows`` has the columns of ``fields``, in that order. If one expression has no text, all are computed by kernels.

    Raises:
        ExpressionError: an expression does not fit ``fields``.
        SchemaError: Spark has no type for a column.
    """
    try:
        return _by_spark(rows, fields, columns, operator, where)
    except NoSparkTextError:
        return _by_kernels(rows, fields, columns, operator, where)


def with_columns(rows: DataFrame, fields: pa.Schema, columns: Columns, operator: str) -> DataFrame:
    """Return the rows for which these expressions have an answer, with it in further columns.

    Raises:
        ExpressionError: an expression does not fit ``fields``.
        SchemaError: Spark has no type for a column.
    """
    return projected(rows, fields, [*same(fields), *columns], operator)


def same(fields: pa.Schema) -> list[tuple[str, Expr]]:
    """Return the columns as they are."""
    return [(name, col(name)) for name in fields.names]


def _by_spark(rows: DataFrame, fields: pa.Schema, columns: Columns, operator: str, where: Expr | None) -> DataFrame:
    texts = [f"{to_spark_sql(expression, fields, operator)} AS {quoted_name(name)}" for name, expression in columns]
    expressions = [expression for _, expression in columns] + ([] if where is None else [where])
    errors = dict.fromkeys(row_error_sql(expression, fields, operator) for expression in expressions)
    conditions = [f"NOT {error}" for error in errors if error is not None]
    if where is not None:
        conditions.append(condition_sql(where, fields, operator))
    if conditions:
        rows = rows.filter(" AND ".join(conditions))
    return rows.selectExpr(*texts)


def _by_kernels(rows: DataFrame, fields: pa.Schema, columns: Columns, operator: str, where: Expr | None) -> DataFrame:
    out = compile_projection(columns, fields, operator, where).schema
    return rows.mapInArrow(_kernels(fields, list(columns), operator, where), spark_schema(out))


def _kernels(
    fields: pa.Schema, columns: Columns, operator: str, where: Expr | None
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        # Compiled here, for kernels do not travel.
        projection = compile_projection(columns, fields, operator, where)
        for batch in batches:
            answered = evaluate_isolating(projection, from_spark_batch(batch, fields)).result
            if answered is not None:
                yield to_spark_batch(answered)

    return run
