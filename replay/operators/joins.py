"""Joins on equal keys of a replay, within windows or for ever: joins of Spark SQL over all rows of both sides.

What a join of updating streams leaves standing is the join of what stands on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Hopping, Tumbling
from penstock.replay.checkpoint_progress import micros_literal
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.operators.join_sides import joined, put_out, two_sides
from penstock.replay.operators.prepared import time_sql, unordered
from penstock.replay.operators.windows import END, START
from penstock.replay.spark_form import SparkForm

_WHERE = "$where"
_ONCE = {"m:m": (), "1:m": (0,), "m:1": (1,), "1:1": (0, 1)}


class JoinForm(SparkForm[JoinSpec]):
    """Rows of equal keys meet; within a window, or whenever they come."""

    spec = JoinSpec

    def refuse(self, spec: JoinSpec, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
        """Say why there is no counterpart in a batch, None if there is one."""
        for side in _ONCE[spec.validate]:
            column = unordered(inputs[side].fields)
            if column is not None:
                return (
                    f"whether rows that repeat a key (validate={spec.validate!r}) are equal cannot be told: Spark does "
                    f"not compare the map {column!r}"
                )
        return None

    def compile(self, spec: JoinSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Join rows with equal keys.

        Where a key comes once, says ``validate``, and comes again with other values, the query fails: the stream keeps
        the row that arrives first.
        """
        once = _ONCE[spec.validate]
        beside = {} if spec.where is None else {spec.one_side: ((_WHERE, spec.where),)}
        left, right = (
            replace(
                side,
                beside=beside.get(side.number, ()),
                once=_output_columns(spec, side.number) if side.number in once else None,
            )
            for side in two_sides(spec, node, inputs)
        )
        sides = (left, right)
        conditions = [side.column(_WHERE) for side in sides if side.beside]
        window = None if spec.windowing is None else spec.windowing.window
        assert window is None or isinstance(window, Tumbling | Hopping)
        own = {}
        fields = node.outputs[MAIN].fields
        if window is not None:
            conditions.append(f"{sides[0].column(START)} = {sides[1].column(START)}")
            kinds_of = {column: fields.field(result).type for result, side, column in spec.output if side == -1}
            bounds = {"window_start": START, "window_end": END}
            own = {name: time_sql(sides[0].column(bounds[name]), kind) for name, kind in kinds_of.items()}
        rows = joined(sides[0].rows(window), sides[1].rows(window), sides, conditions, spec.how)
        progress = context.progress
        if spec.windowing is not None and progress is not None:
            passed_us = progress.passed_us(node, spec.windowing.lateness_us)
            if passed_us is not None:
                rows = progress.due(node, rows, f"{sides[0].column(END)} <= {micros_literal(passed_us)}")
        return {MAIN: put_out(rows, sides, spec.output, fields, **own)}


JOIN = JoinForm()


def _output_columns(spec: JoinSpec, side: int) -> tuple[str, ...]:
    """Return the columns of a side that are put out."""
    return tuple(dict.fromkeys(column for _, number, column in spec.output if number == side))
