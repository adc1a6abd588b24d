"""Estimates for all rows from those that were kept, as Spark SQL (docs/design/papers/stream-economics.md 11).

Written from the formulas and not from the engine's accumulators, so that either shows what is wrong with the other. A
row of keep rate k stands for w = 1 / k rows: SUM^ = sum w * x, COUNT^ = sum w, MEAN^ = SUM^ / COUNT^. Called by the
aggregates of a replay of kept rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.accumulators.estimates import ESTIMATED
from penstock.engine.operators.aggregates.estimate_schema import has_interval
from penstock.model.job_graph import AggregateSpec
from penstock.model.result_columns import ACCURACY, BIASED, DRAW, certified_of, high_of, low_of
from penstock.model.windows import Count, Session
from penstock.replay.frames import Frame, ReplayContext
from penstock.replay.operators.aggregate_sql import PreparedCall, aggregate_sql
from penstock.replay.operators.prepared import quoted
from penstock.replay.sample_columns import COUNT_FIELDS, EXPECTED, KEEP, QUALITY_FIELDS, USED
from penstock.replay.spark_types import sql_type

GROUP_SUMS = "$group"
"""The column with the sums over all rows of a group."""

_W = f"(1.0D / {quoted(KEEP)})"
_SHED = f"(min({quoted(KEEP)}) < 1.0D)"


def result_fields(spec: AggregateSpec, frame: Frame, context: ReplayContext) -> pa.Schema:
    """Return the hidden columns of an aggregate's results."""
    if not frame.hidden.names:
        return pa.schema([])
    if not context.estimates:
        return COUNT_FIELDS
    ends = [
        field
        for name in with_intervals(spec, frame)
        for field in (
            *(pa.field(of(name), pa.float64()) for of in (low_of, high_of)),
            pa.field(certified_of(name), pa.bool_()),
        )
    ]
    return pa.schema([*ends, *QUALITY_FIELDS])


def with_intervals(spec: AggregateSpec, frame: Frame) -> list[str]:
    """Return the aggregates that have intervals, by name: those over a sample, not those over results of others."""
    if KEEP not in frame.hidden.names or ACCURACY in frame.hidden.names:
        return []
    return [name for name, call in spec.aggregates if has_interval(spec, call)]


def interval_sums(spec: AggregateSpec, frame: Frame, prepared: Sequence[PreparedCall]) -> dict[str, str]:
    """Return what ends of intervals follow from, as aggregates of rows by name: see `interval_ends`."""
    names = with_intervals(spec, frame)
    if not names:
        return {}
    rate = f"CASE WHEN {quoted(KEEP)} < 1.0D THEN {quoted(KEEP)} END"
    group = {"shed": f"count({rate})", "least": f"min({rate})", "most": f"max({rate})"}
    return {GROUP_SUMS: _struct(group)} | {
        sums_of(index): _struct(_sums(call)) for index, call in enumerate(prepared) if call.name in names
    }


def draws_of(index: int) -> str:
    """Return the column with what the rows of an aggregate have drawn."""
    return f"$draws{index}"


def drawn_rows(spec: AggregateSpec, frame: Frame, prepared: Sequence[PreparedCall]) -> dict[str, str]:
    """Return lists of the rows below keep 1 of aggregates, where their records drew by strata: step, keep and value."""
    names = with_intervals(spec, frame) if DRAW in frame.hidden.names else []
    lists = {}
    for index, call in enumerate(prepared):
        if call.name in names:
            row = f"named_struct('step', {quoted(DRAW)}, 'keep', {quoted(KEEP)}, 'x', {_value(call)})"
            lists[draws_of(index)] = (
                f"collect_list(CASE WHEN ({_condition(call)}) AND {quoted(KEEP)} < 1.0D THEN {row} END)"
            )
    return lists


def sums_of(index: int) -> str:
    """Return the column with the sums of an aggregate; a name with a dot is none to `mapInArrow`."""
    return f"$sums{index}"


def _sums(call: PreparedCall) -> dict[str, str]:
    condition = _condition(call)
    x = _value(call)
    shed = f"({condition}) AND {quoted(KEEP)} < 1.0D"
    sums = {
        "exact": f"count_if(({condition}) AND {quoted(KEEP)} = 1.0D)",
        "n": f"count_if({shed})",
        "w": f"sum(CASE WHEN {shed} THEN {_W} END)",
        "total": f"sum(CASE WHEN {condition} THEN {_W} * {x} END)",
    }
    scales = {"s": f"({_W} * ({_W} - 1))", "t": f"({_W} * pow({_W} - 1, 2))", "f": f"({_W} * pow({_W} - 1, 3))"}
    for of, scale in scales.items():
        for power in range(5 if of == "f" else 4):
            factor = "" if power == 0 or x == "1.0D" else f" * pow({x}, {power})"
            sums[f"{of}{power}"] = f"sum(CASE WHEN {shed} THEN {scale}{factor} END)"
    return sums


def _value(call: PreparedCall) -> str:
    """Return what an aggregate adds up of a row."""
    return f"CAST({quoted(call.values[0])} AS DOUBLE)" if call.values and call.call.function != "count" else "1.0D"


def _struct(columns: dict[str, str]) -> str:
    fields = ", ".join(f"'{name}', CAST({sql} AS DOUBLE)" for name, sql in columns.items())
    return f"named_struct({fields})"


def _condition(call: PreparedCall) -> str:
    """Return which rows an aggregate counts."""
    conditions = [f"{quoted(name)} IS NOT NULL" for name in call.values]
    if call.where is not None:
        conditions.append(quoted(call.where))
    return " AND ".join(conditions) or "true"


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
    condition = _condition(prepared)

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
