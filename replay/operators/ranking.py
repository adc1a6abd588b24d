"""The first rows of every key of a replay: top-n and deduplication, by rank in Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.model.expressions import column_name
from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.keyed_specs import FirstSpec, TopSpec
from penstock.model.schema import StreamSchema
from penstock.replay.checkpoint_progress import before_watermark
from penstock.replay.frames import Frame, ReplayContext, Rows
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

_RANK = "$rank"


class TopForm(SparkForm[TopSpec]):
    """The first rows of every key."""

    spec = TopSpec

    def compile(self, spec: TopSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Keep the rows whose rank is low enough; where ties stay open, by our operator."""
        frame, fields = inputs[0], node.outputs[MAIN].fields
        if unordered(frame.schema.fields):
            return {MAIN: run_by_key(ByKey(replace(spec, interval_us=NEVER_US)), node, frame, context)}
        keys = [(f"$key{index}", key) for index, (_, key) in enumerate(spec.keys)]
        order = [(f"$order{index}", by) for index, by in enumerate(spec.order)]
        rows = computed(frame, [*keys, *((name, by.expression) for name, by in order)], node.name)
        sorting = [*ordered_by(order), *tie_order(frame.schema.fields, spec.tie_descending)]
        rank = f"row_number() {over([name for name, _ in keys], sorting)}"
        first = rows.selectExpr("*", f"{rank} AS {quoted(_RANK)}").filter(f"{quoted(_RANK)} <= {spec.rows}")
        columns = {name: quoted(name) for name in frame.schema.fields.names}
        if spec.rank is not None:
            columns[spec.rank] = quoted(_RANK)
        return {MAIN: shown(first, columns, fields)}

    def row_keys(self, spec: TopSpec, node: OperatorNode) -> tuple[str, ...]:
        """Return key and rank; without a rank rows of a key are told apart by nothing."""
        return () if spec.rank is None else (*(name for name, _ in spec.keys), spec.rank)


TOP = TopForm()


class FirstForm(SparkForm[FirstSpec]):
    """The first row of every key."""

    spec = FirstSpec

    def refuse(self, spec: FirstSpec, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
        """Say why there is no counterpart in a batch, None if there is one."""
        if spec.by_arrival and not _whole_rows(spec, inputs[0]):
            return "it keeps the row of a key that arrives first, and a batch does not know which that was"
        if spec.by_arrival and spec.ttl_us is not None:
            return "which rows it keeps depends on when they arrive, for a key is new again after its ttl"
        return None

    def compile(self, spec: FirstSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Keep the first row of every key; with a ttl, or where ties stay open, by our operator."""
        frame = inputs[0]
        if spec.by_arrival:
            return {MAIN: frame.rows.distinct()}
        if spec.ttl_us is not None or unordered(frame.schema.fields):
            return {MAIN: run_by_key(ByKey(spec, Waits()), node, frame, context)}
        keys = [(f"$key{index}", key) for index, (_, key) in enumerate(spec.keys)]
        rows = with_times(computed(frame, keys, node.name), frame.schema)
        rank = f"row_number() {over([name for name, _ in keys], [quoted(AT), *tie_order(frame.schema.fields)])}"
        first = rows.selectExpr("*", f"{rank} AS {quoted(_RANK)}").filter(f"{quoted(_RANK)} = 1")
        first = before_watermark(context.progress, node, first, AT)
        fields = node.outputs[MAIN].fields
        return {MAIN: shown(first, {name: quoted(name) for name in fields.names}, fields)}


FIRST = FirstForm()


def _whole_rows(spec: FirstSpec, schema: StreamSchema) -> bool:
    """Return whether rows of one key are equal, so that it does not matter which of them is kept."""
    return {column_name(key) for _, key in spec.keys} == set(schema.fields.names)
