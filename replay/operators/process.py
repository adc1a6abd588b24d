"""Process functions of a replay: the stream's own operator calls them with the rows of each key in event-time order."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.keyed_specs import ProcessSpec
from penstock.model.schema import StreamSchema
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.operators.grouped import ByKey, Waits, run_by_key
from penstock.replay.spark_form import SparkForm


class ProcessForm(SparkForm[ProcessSpec]):
    """A function of the user's takes the rows of each key."""

    spec = ProcessSpec

    def refuse(self, spec: ProcessSpec, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
        """Say why there is no counterpart in a batch, None if there is one."""
        if spec.order != "event":
            return f"it takes rows as they arrive (order={spec.order!r}), and a batch does not know how that was"
        for name, state in spec.states.items():
            if state.ttl_us is not None and state.ttl_clock == "processing":
                return f"its state {name!r} expires by processing time; use ttl_clock='event'"
        return None

    def compile(self, spec: ProcessSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Call a process function."""
        return {MAIN: run_by_key(ByKey(spec, Waits(), sets_timers=True), node, inputs[0], context)}


PROCESS = ProcessForm()
