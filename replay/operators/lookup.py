"""The join of a replay with a side table, which is read when the pipeline is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.operators.joins.lookup_schema import lookup_key_types
from penstock.model.durations import format_microseconds
from penstock.model.expressions import col
from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.join_specs import LookupSpec
from penstock.model.schema import StreamSchema
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.operators.join_sides import JoinSide, joined, put_out
from penstock.replay.spark_form import SparkForm
from penstock.replay.spark_types import carrier_schema, spark_schema


class LookupForm(SparkForm[LookupSpec]):
    """Each row meets rows of a table."""

    spec = LookupSpec

    def refuse(self, spec: LookupSpec, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
        """Say why there is no counterpart in a batch, None if there is one."""
        if spec.table.refresh_us is None:
            return None
        every = format_microseconds(spec.table.refresh_us)
        return f"its table is read again every {every}, and what a row found in it depends on when it came"

    def compile(self, spec: LookupSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Join rows with the table as it is now."""
        left, table = inputs[0], spec.table
        kinds = lookup_key_types(spec, left.schema, node.name)
        fields = table.schema
        rows = context.session.createDataFrame(table.load().cast(carrier_schema(fields)), spark_schema(fields))
        loaded = Frame(rows, StreamSchema(fields))
        sides = (
            JoinSide(node.name, 0, left, spec.left_keys, kinds),
            JoinSide(node.name, 1, loaded, tuple(col(column) for column in spec.right_keys), kinds),
        )
        matched = joined(sides[0].rows(), sides[1].rows(), sides, (), spec.how)
        return {MAIN: put_out(matched, sides, spec.output, node.outputs[MAIN].fields)}


LOOKUP = LookupForm()
