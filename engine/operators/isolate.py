"""Evaluation over a batch that rejects only the rows that fail."""

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from penstock.engine.core.contract import OperatorContext
from penstock.engine.expressions.compiler import ROW_ERRORS, evaluate_isolating

Result = TypeVar("Result")


def evaluate(
    context: OperatorContext, function: Callable[[pa.RecordBatch], Result], rows: pa.RecordBatch
) -> tuple[pa.RecordBatch, Result | None]:
    """Evaluate ``function`` over rows; return the rows it could be evaluated for, and the result over those.

    Rows that raise are counted and handed to the dead letters, which may raise `BadRecordError`. The result is None
    when no row is left.
    """
    try:
        return rows, function(rows)
    except ROW_ERRORS:
        isolated = evaluate_isolating(function, rows)
    if isolated.errors:
        bad = rows.take(pa.array([index for index, _ in isolated.errors], pa.int64()))
        context.counters.dead_lettered += bad.num_rows
        context.dead_letters.reject(context.name, bad, [text for _, text in isolated.errors])
        rows = rows.take(isolated.good)
    return rows, (isolated.result if rows.num_rows else None)
