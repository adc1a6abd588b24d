"""Aggregates of a replay, by key and window or by key alone: native Spark SQL unless a user's own code is called.

What an updating aggregate leaves standing at the end of its input is what is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, DoubleType, StructType

from penstock.model.job_graph import MAIN, AggregateSpec, OperatorNode
from penstock.model.result_columns import certified_of, high_of, low_of
from penstock.model.schema import StreamSchema
from penstock.model.windows import Count, Global
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.inexact import InexactColumns, aggregate_inputs, check_exact, sketches
from penstock.replay.operators import aggregate_sql
from penstock.replay.operators.aggregate_sql import prepared_calls
from penstock.replay.operators.closing import ROWS, closing_of
from penstock.replay.operators.estimates import (
    drawn_rows,
    draws_of,
    estimate_sql,
    interval_sums,
    result_columns,
    result_fields,
    sums_of,
    with_intervals,
)
from penstock.replay.operators.grouped import ByKey, Waits, final, run_by_key, waits_for_windows
from penstock.replay.operators.interval_ends import IntervalCall, with_ends
from penstock.replay.operators.prepared import computed, quoted, shown, tie_order, time_sql, unordered, with_times
from penstock.replay.operators.windows import WindowedRows, in_windows, window_columns
from penstock.replay.sample_columns import KEEP
from penstock.replay.spark_form import SparkForm

_BOUNDS = ("window_start", "window_end")


class AggregateForm(SparkForm[AggregateSpec]):
    """Rows of a key and window become one row."""

    spec = AggregateSpec
    carries = True

    def hidden(self, spec: AggregateSpec, inputs: Sequence[Frame], context: ReplayContext) -> pa.Schema:
        """Return how many rows went into a result, or how good it is; users' aggregates do not say."""
        return pa.schema([]) if _by_operator(spec, inputs[0]) else result_fields(spec, inputs[0], context)

    def refuse(self, spec: AggregateSpec, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
        """Say why there is no counterpart in a batch, None if there is one."""
        windowing = spec.windowing
        if windowing is not None and windowing.clock == "processing" and not isinstance(windowing.window, Global):
            return "its windows are of processing time: which rows they held depends on when these came; use event time"
        return None

    def compile(self, spec: AggregateSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Group rows by their keys and windows; a user's aggregates, and ties that stay open, by our operator."""
        frame = inputs[0]
        if _by_operator(spec, frame):
            return {MAIN: run_by_key(ByKey(final(spec), _waits(spec)), node, frame, context)}
        schema, fields = frame.schema, node.outputs[MAIN].fields
        prepared = prepared_calls(spec.aggregates, schema.fields, node.name)
        keys = [(f"$key{index}", key) for index, (_, key) in enumerate(spec.keys)]
        names = [name for name, _ in keys]
        rows = computed(frame, [*keys, *prepared.columns], node.name)
        window = None if spec.windowing is None else spec.windowing.window
        closing = closing_of(spec.windowing, node, context)
        if prepared.timed or not (window is None or isinstance(window, Global)):
            rows = with_times(rows, schema)
            rows = closing.counted(rows)
        windowed = WindowedRows(rows, (), None)
        if window is not None:
            windowed = in_windows(rows, window, names, tie_order(schema.fields), node.name)
        results = {
            f"$result{index}": estimate_sql(spec, call, fields.field(call.name).type)
            if context.estimates and KEEP in frame.hidden.names
            else aggregate_sql.aggregate_sql(call)
            for index, call in enumerate(prepared.calls)
        }
        of_results = result_columns(spec, frame, context)
        results |= of_results
        drawn = drawn_rows(spec, frame, prepared.calls) if context.estimates else {}
        results |= (interval_sums(spec, frame, prepared.calls) | drawn) if context.estimates else {}
        if windowed.bounds is not None:
            results |= {f"${name}": bound for name, bound in zip(_BOUNDS, windowed.bounds, strict=True)}
        groups = [*names, *windowed.groups]
        grouped = closing.over(_grouped(windowed, groups, results | closing.further()))
        columns = {column: quoted(name) for (column, _), (name, _) in zip(spec.keys, keys, strict=True)}
        if windowed.bounds is not None:
            columns |= {name: time_sql(quoted(f"${name}"), fields.field(name).type) for name in _BOUNDS}
        columns |= {call.name: quoted(f"$result{index}") for index, call in enumerate(prepared.calls)}
        hidden = self.hidden(spec, inputs, context)
        columns |= {name: quoted(name) for name in hidden.names}
        intervals = with_intervals(spec, frame) if context.estimates else ()
        if intervals:
            grouped = _with_ends(grouped, spec, intervals, context.confidence, drawn=bool(drawn))
        return {MAIN: shown(grouped, columns, pa.schema([*fields, *hidden]))}

    def row_keys(self, spec: AggregateSpec, node: OperatorNode) -> tuple[str, ...]:
        """Return key and window."""
        return (*(name for name, _ in spec.keys), *window_columns(spec.windowing, node))

    def inexact(self, spec: AggregateSpec, node: OperatorNode, approximate: InexactColumns) -> InexactColumns:
        """Return the sketches."""
        check_exact(node, approximate, aggregate_inputs(spec.keys, spec.aggregates))
        return sketches(spec.aggregates)


AGGREGATE = AggregateForm()


def _grouped(windowed: WindowedRows, groups: Sequence[str], results: dict[str, str]) -> DataFrame:
    results = {ROWS: "count(1)", **results}
    columns = [f.col(quoted(name)) for name in groups]
    grouped = windowed.rows.groupBy(*columns).agg(*(f.expr(sql).alias(name) for name, sql in results.items()))
    # Without groups Spark answers for no rows too.
    return grouped if groups else grouped.filter(f"{quoted(ROWS)} > 0")


def _with_ends(
    grouped: DataFrame, spec: AggregateSpec, intervals: Sequence[str], confidence: float, *, drawn: bool
) -> DataFrame:
    """Return groups with the ends of the intervals of these aggregates; ``drawn``: their rows drew by strata."""
    called = [
        IntervalCall(name, call.function, sums_of(index), draws_of(index) if drawn else None)
        for index, (name, call) in enumerate(spec.aggregates)
        if name in intervals
    ]
    schema = StructType([*grouped.schema.fields])
    for name in intervals:
        schema = schema.add(low_of(name), DoubleType()).add(high_of(name), DoubleType())
        schema = schema.add(certified_of(name), BooleanType())
    return grouped.mapInArrow(with_ends(called, confidence, (low_of, high_of, certified_of)), schema)


def _by_operator(spec: AggregateSpec, frame: Frame) -> bool:
    """Return whether our own operator computes it, over all rows of a key."""
    counts = spec.windowing is not None and isinstance(spec.windowing.window, Count)
    users = any(call.user is not None for _, call in spec.aggregates)
    return users or (counts and unordered(frame.schema.fields) is not None)


def _waits(spec: AggregateSpec) -> Waits | None:
    """Return what results wait for; those that follow their rows wait for nothing but the end of a count window."""
    waits = waits_for_windows(spec.windowing)
    counts = spec.windowing is not None and isinstance(spec.windowing.window, Count)
    return waits if counts or not waits.follows else None
