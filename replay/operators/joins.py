"""Joins on equal keys of a replay, within windows or for ever: joins of Spark SQL over all rows of both sides.

What a join of updating streams leaves standing is the join of what stands on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.operators.joins.join_schema import key_types
from penstock.model.expressions import Expr
from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Hopping, Tumbling
from penstock.replay.frames import Context, Frame, Rows
from penstock.replay.operators.join_sides import Side, joined, put_out
from penstock.replay.operators.prepared import time_sql, unordered
from penstock.replay.operators.windows import END, START

_WHERE = "$where"
_ONCE = {"m:m": (), "1:m": (0,), "m:1": (1,), "1:1": (0, 1)}


def refuse_join(spec: JoinSpec, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
    """Say why there is no counterpart in a batch, None if there is one."""
    for side in _ONCE[spec.validate]:
        column = unordered(inputs[side].fields)
        if column is not None:
            return (
                f"of rows that repeat a key (validate={spec.validate!r}) it keeps the first by their columns, and "
                f"Spark cannot order the map {column!r}"
            )
    return None


def compile_join(spec: JoinSpec, node: OperatorNode, inputs: Sequence[Frame], context: Context) -> Rows:
    """Join rows with equal keys.

    Where a key comes once, says ``validate``, and comes again, the first row by event time is taken; the stream takes
    the one that arrived first.
    """
    left, right = inputs
    kinds = key_types(spec, left.schema, right.schema, node.name)
    once = _ONCE[spec.validate]
    beside: dict[int, tuple[tuple[str, Expr], ...]] = {}
    if spec.where is not None and spec.one_side is not None:
        beside[spec.one_side] = ((_WHERE, spec.where),)
    sides = (
        Side(node.name, 0, left, spec.left_keys, kinds, beside.get(0, ()), 0 in once),
        Side(node.name, 1, right, spec.right_keys, kinds, beside.get(1, ()), 1 in once),
    )
    conditions = [sides[side].column(_WHERE) for side in beside]
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
    return {MAIN: put_out(rows, sides, spec.output, fields, **own)}
