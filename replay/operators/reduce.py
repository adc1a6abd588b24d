"""Rows that a replay folds with a function of the user's: the stream's own operator does, in event-time order."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.job_graph import MAIN, OperatorNode, ReduceSpec
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.operators.grouped import ByKey, final, run_by_key, waits_for_windows
from penstock.replay.operators.windows import window_columns
from penstock.replay.spark_form import SparkForm


class ReduceForm(SparkForm[ReduceSpec]):
    """Rows of a key and window folded by a function of the user's."""

    spec = ReduceSpec

    def compile(self, spec: ReduceSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Fold the rows of every key and window."""
        by_key = ByKey(final(spec), waits_for_windows(spec.windowing))
        return {MAIN: run_by_key(by_key, node, inputs[0], context)}

    def row_keys(self, spec: ReduceSpec, node: OperatorNode) -> tuple[str, ...]:
        """Return key and window."""
        return (*(name for name, _ in spec.keys), *window_columns(spec.windowing, node))


REDUCE = ReduceForm()
