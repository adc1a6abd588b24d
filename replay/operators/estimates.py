"""Estimates for all rows from those that were kept, as Spark SQL (docs/design/papers/stream-economics.md 11).

Written from the formulas and not from the engine's accumulators, so that either shows what is wrong with the other. A
row of keep rate k stands for w = 1 / k rows: SUM^ = sum w * x, COUNT^ = sum w, MEAN^ = SUM^ / COUNT^. Called by the
aggregates of a replay of kept rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.accumulators.estimates import ESTIMATED
from penstock.engine.operators.aggregates.estimate_schema import has_interval
from penstock.model.job_graph import AggregateSpec
from penstock.model.result_columns import ACCURACY, BIASED
from penstock.model.windows import Count, Session
from penstock.replay.frames import Frame, ReplayContext
from penstock.replay.operators.aggregate_sql import PreparedCall, aggregate_sql
from penstock.replay.operators.prepared import quoted
from penstock.replay.sample_columns import COUNT_FIELDS, EXPECTED, KEEP, QUALITY_FIELDS, USED
from penstock.replay.spark_types import sql_type

_W = f"(1.0D / {quoted(KEEP)})"
_SHED = f"(min({quoted(KEEP)}) < 1.0D)"


def result_fields(frame: Frame, context: ReplayContext) -> pa.Schema:
    """Return the hidden columns of an aggregate's results."""
    if not frame.hidden.names:
        return pa.schema([])
    return QUALITY_FIELDS if context.estimates else COUNT_FIELDS


def result_columns(spec: AggregateSpec, frame: Frame, context: ReplayContext) -> dict[str, str]:
    """Return the hidden columns of an aggregate's results, as aggregates of its rows."""
    names = frame.hidden.names
    if not names:
        return {}
    if not context.estimates:
        # What was counted is counted again for results of results.
        counted = EXPECTED in names
        return {
            EXPECTED: f"sum({quoted(EXPECTED)})" if counted else "count(1)",
            USED: f"sum({quoted(USED)})" if counted else f"count_if({quoted(KEEP)} > 0.0D)",
        }
    if ACCURACY in names:
        worse = f"max({quoted(ACCURACY)} < 1.0D OR {quoted(BIASED)})"
        return {ACCURACY: f"avg({quoted(ACCURACY)})", BIASED: worse}
    accuracy = f"CASE WHEN {_SHED} THEN count(1) / sum({_W}) ELSE 1.0D END"
    return {ACCURACY: accuracy, BIASED: "false" if all_estimated(spec) else _SHED}


def all_estimated(spec: AggregateSpec) -> bool:
    """Return whether every result is an estimate for all rows."""
    torn = spec.windowing is not None and isinstance(spec.windowing.window, Session | Count)
    return not torn and all(has_interval(spec, call) for _, call in spec.aggregates)


def estimate_sql(spec: AggregateSpec, prepared: PreparedCall, kind: pa.DataType) -> str:
    """Return an aggregate over kept rows as the estimate for all; one without an estimator is that of the kept rows.

    ``kind`` is the type of the result, to which an estimate is rounded.
    """
    plain = aggregate_sql(prepared)
    if prepared.call.function not in ESTIMATED or not has_interval(spec, prepared.call):
        return plain
    values = [quoted(name) for name in prepared.values]
    conditions = [f"{value} IS NOT NULL" for value in values]
    if prepared.where is not None:
        conditions.append(quoted(prepared.where))
    condition = " AND ".join(conditions) or "true"

    def total(of: str) -> str:
        return f"sum(CASE WHEN {condition} THEN {of} END)"

    weighted = "" if prepared.call.function == "count" else f"{_W} * CAST({values[0]} AS DOUBLE)"
    if prepared.call.function == "count":
        estimate = f"coalesce({total(_W)}, 0.0D)"
    elif prepared.call.function == "sum":
        estimate = total(weighted)
    else:
        estimate = f"({total(weighted)} / {total(_W)})"
    return f"CASE WHEN {_SHED} THEN {_in_type(estimate, kind)} ELSE {_cast(plain, kind)} END"


def _in_type(estimate: str, kind: pa.DataType) -> str:
    if pt.is_floating(kind):
        return _cast(estimate, kind)
    # Halves away from zero, as nothing but ties could tell.
    scale = kind.scale if pt.is_decimal(kind) else 0
    return _cast(f"round({estimate}, {scale})", kind)


def _cast(sql: str, kind: pa.DataType) -> str:
    return f"CAST({sql} AS {sql_type(kind)})"
