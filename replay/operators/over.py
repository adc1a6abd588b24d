"""Running and row-window aggregates of a replay: window functions of Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.keyed_specs import OverSpec
from penstock.replay.checkpoint_progress import before_watermark
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.inexact import InexactColumns, aggregate_inputs, check_exact, sketches
from penstock.replay.operators import aggregate_sql
from penstock.replay.operators.aggregate_sql import prepared_calls
from penstock.replay.operators.grouped import NEVER_US, ByKey, Waits, run_by_key
from penstock.replay.operators.prepared import (
    AT,
    computed,
    ordered_by,
    over,
    quoted,
    shown,
    tie_order,
    unordered,
    with_times,
)
from penstock.replay.spark_form import SparkForm


class OverForm(SparkForm[OverSpec]):
    """Every row gets aggregates over the rows of its key before it."""

    spec = OverSpec

    def compile(self, spec: OverSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Add aggregates over each row's frame; those of a user's, or where ties stay open, by our operator."""
        frame, fields = inputs[0], node.outputs[MAIN].fields
        if any(call.user is not None for _, call in spec.aggregates) or unordered(frame.schema.fields):
            waits = None if spec.order or frame.schema.changelog else Waits()
            return {MAIN: run_by_key(ByKey(replace(spec, interval_us=NEVER_US), waits), node, frame, context)}
        prepared = prepared_calls(spec.aggregates, frame.schema.fields, node.name)
        keys = [(f"$key{index}", key) for index, (_, key) in enumerate(spec.keys)]
        order = [(f"$order{index}", by) for index, by in enumerate(spec.order)]
        orders = [(name, by.expression) for name, by in order]
        rows = computed(frame, [*keys, *prepared.columns, *orders], node.name)
        if frame.schema.time is not None:
            rows = with_times(rows, frame.schema)
        sorting = [*(ordered_by(order) if order else [quoted(AT)]), *tie_order(frame.schema.fields)]
        before = "UNBOUNDED" if spec.rows is None else str(spec.rows - 1)
        clause = over([name for name, _ in keys], sorting, f"ROWS BETWEEN {before} PRECEDING AND CURRENT ROW")
        columns = {name: quoted(name) for name in frame.schema.fields.names}
        results = {
            f"$result{index}": aggregate_sql.aggregate_sql(call, clause) for index, call in enumerate(prepared.calls)
        }
        rows = rows.selectExpr("*", *(f"{sql} AS {quoted(name)}" for name, sql in results.items()))
        if not spec.order and not frame.schema.changelog:
            rows = before_watermark(context.progress, node, rows, AT)
        columns |= {call.name: quoted(name) for call, name in zip(prepared.calls, results, strict=True)}
        return {MAIN: shown(rows, columns, fields)}

    def inexact(self, spec: OverSpec, node: OperatorNode, approximate: InexactColumns) -> InexactColumns:
        """Return what is known of rows, and the sketches over them."""
        check_exact(
            node, approximate, [*aggregate_inputs(spec.keys, spec.aggregates), *(by.expression for by in spec.order)]
        )
        return {**approximate, **sketches(spec.aggregates)}


OVER = OverForm()
