"""The join of rows with equal keys whose event times are close, in a replay: a join with bounds in Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.model.expressions import Expr
from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.join_specs import IntervalJoinSpec
from penstock.replay.checkpoint_progress import micros_literal
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.operators.join_sides import JoinSide, joined, put_out, two_sides
from penstock.replay.operators.prepared import AT, micros_sql
from penstock.replay.spark_form import SparkForm

_UPPER = "$upper"

# More than all of time, yet far from overflowing when added to a time.
_LONG_US = 1 << 60


class IntervalJoinForm(SparkForm[IntervalJoinSpec]):
    """Rows of equal keys meet if their event times are close."""

    spec = IntervalJoinSpec

    def compile(
        self, spec: IntervalJoinSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext
    ) -> Rows:
        """Join rows whose times are within the bounds."""
        left, right = two_sides(spec, node, inputs)
        upper = spec.upper
        sides = (replace(left, beside=((_UPPER, upper),)) if isinstance(upper, Expr) else left, right)
        at, other = sides[0].column(AT), sides[1].column(AT)
        last = micros_sql(sides[0].column(_UPPER)) if isinstance(upper, Expr) else f"{at} + {_bounded(upper)}L"
        conditions = [f"{other} >= {at} + {_bounded(spec.lower_us)}L", f"{other} <= {last}"]
        rows = joined(sides[0].rows(), sides[1].rows(), sides, conditions, spec.how)
        progress = context.progress
        passed_us = None if progress is None or spec.how == "inner" else progress.passed_us(node)
        if progress is not None and passed_us is not None:
            rows = progress.due(node, rows, _alone(sides, passed_us, at, last, other, _bounded(spec.lower_us)))
        return {MAIN: put_out(rows, sides, spec.output, node.outputs[MAIN].fields)}


INTERVAL_JOIN = IntervalJoinForm()


def _alone(sides: tuple[JoinSide, JoinSide], passed_us: int, at: str, last: str, other: str, lower_us: int) -> str:
    """Return when a joined row has been put out: as a pair, or without a partner once none can come any more.

    A row for which none could ever come has left at once.
    """
    passed = micros_literal(passed_us)
    never = [" OR ".join(f"{side.column(f'$key{index}')} IS NULL" for index in range(len(side.keys))) for side in sides]
    left = f"{last} IS NULL OR {last} < {at} + {lower_us}L OR {last} < {passed} OR {never[0]}"
    right = (
        f"{other} < {micros_literal(max(START_OF_TIME_US, min(END_OF_TIME_US, passed_us + lower_us)))} OR {never[1]}"
    )
    return f"CASE WHEN {other} IS NULL THEN {left} WHEN {at} IS NULL THEN {right} ELSE TRUE END"


def _bounded(bound_us: int) -> int:
    return max(-_LONG_US, min(_LONG_US, bound_us))
