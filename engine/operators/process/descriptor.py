"""The descriptor of process functions."""

from collections.abc import Mapping, Sequence

from penstock.engine.core.contract import LATE, MAIN
from penstock.engine.operators.descriptions import Words, columns_text, function_name
from penstock.engine.operators.descriptor import Columns, KeyedDescriptor, KeyExpressions, PlanContext
from penstock.engine.operators.process.process import Process
from penstock.engine.operators.process.schema import plan_process
from penstock.model.durations import format_microseconds
from penstock.model.job_graph import OperatorNode
from penstock.model.keyed_specs import ProcessSpec
from penstock.model.process_states import MapState, State
from penstock.model.schema import StreamSchema
from penstock.state.checkpoints.operator_meaning import OperatorMeaning


class ProcessDescriptor(KeyedDescriptor[ProcessSpec]):
    """A function of the user's takes the rows of each key; what is kept is the state that it declares, and timers."""

    spec = ProcessSpec
    verb = "process"
    operator = Process
    folded_may_fail = True

    def outputs(self, spec: ProcessSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return what the function puts out; see `plan_process`."""
        return {MAIN: plan_process(spec, inputs[0], name).output, LATE: inputs[0]}

    def partitioned_by(self, spec: ProcessSpec, placed: Sequence[KeyExpressions]) -> Columns | None:
        """Return None: nothing says that the function puts out the keys."""
        return None

    def meaning(self, spec: ProcessSpec, context: PlanContext) -> OperatorMeaning:
        """Return the order of rows and the declared states."""
        states = {name: _state_words(state) for name, state in spec.states.items()}
        return self.keyed_meaning(spec, context, states=states)

    def traits(self, spec: ProcessSpec, context: PlanContext) -> dict[str, str]:
        """Return the order of rows."""
        return {"order": "event time" if spec.order == "event" else "arrival"}

    def depends_on(self, spec: ProcessSpec) -> str | None:
        """Return that rows come in any order, if the function takes them so."""
        return "takes rows in order of arrival" if spec.order == "arrival" else None

    def words(self, spec: ProcessSpec, node: OperatorNode) -> Words:
        """Name the function, what it puts out, its state and the order of its rows."""
        details = (("columns", ", ".join(spec.fields.names)), ("state", ", ".join(spec.states) or "none"))
        order = ("order", "event time" if spec.order == "event" else "arrival")
        return Words(f"process {function_name(spec.function)} per {columns_text(spec.keys)}", (*details, order))


PROCESS = ProcessDescriptor()


def _state_words(state: State) -> str:
    key = f"{state.keys_declared.type} to " if isinstance(state, MapState) else ""
    ttl = "" if state.ttl_us is None else f", ttl {format_microseconds(state.ttl_us)} of {state.ttl_clock} time"
    return f"{state.shape} of {key}{state.declared.type}{ttl}"
