"""The plan and output schema of a process function, checked when the pipeline is built."""

from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.core.event_time import kept_time, time_type
from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.process.types import ValueType
from penstock.model.errors import PlanError
from penstock.model.keyed_specs import ProcessSpec
from penstock.model.process_states import MapState, State, ValueState
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.state.keys.batch_keys import KeyCodec


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """A checked process function.

    ``fields`` and ``time`` are the input's (None: no event time), ``output`` is what comes out, ``zone`` the time zone
    of the event time and so of every datetime a user sees (without event time: UTC).
    """

    key_names: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    fields: pa.Schema
    time: TimeColumn | None
    time_type: pa.TimestampType
    output: StreamSchema

    @property
    def zone(self) -> str | None:
        """The time zone, None: datetimes without one."""
        zone: str | None = self.time_type.tz
        return zone


def plan_process(spec: ProcessSpec, schema: StreamSchema, name: str) -> ProcessPlan:
    """Check a process function; its output is append-only, with the input's event time if that column keeps its type.

    Raises:
        PlanError: the input is updating, event time is needed and there is none, or a key cannot be one.
    """
    if schema.changelog:
        raise PlanError(
            f"{name!r} processes an updating stream, whose rows a function cannot take back; "
            "use a final window upstream"
        )
    if spec.order == "event":
        if schema.time is None:
            raise PlanError(
                f"{name!r} processes rows in the order of event time, but its input has none; declare it at the source "
                "with time=..., or use order='arrival'"
            )
        time_type(schema, name)
    for state_name, state in spec.states.items():
        if schema.time is None and state.ttl_us is not None and state.ttl_clock == "event":
            raise PlanError(
                f"state {state_name!r} of {name!r} has a ttl in event time, but the input has none; "
                "write ttl_clock='processing'"
            )
        if spec.vectorised and isinstance(state, MapState):
            raise PlanError(
                f"state {state_name!r} of {name!r} is a map, which has no columnar form; use value or list state in a "
                "BatchProcess, or a Process"
            )
        _check_default(state_name, state, name)
    key_types = tuple(infer_type(key, schema.fields, name) for _, key in spec.keys)
    KeyCodec(key_types)
    kind = pa.timestamp("us", "UTC") if schema.time is None else time_type(schema, name)
    output = StreamSchema(spec.fields, kept_time(schema, spec.fields))
    return ProcessPlan(tuple(key for key, _ in spec.keys), key_types, schema.fields, schema.time, kind, output)


def _check_default(state_name: str, state: State, name: str) -> None:
    if isinstance(state, ValueState):
        what = f"the default of state {state_name!r} of {name!r}"
        ValueType(state.declared.kind, state.declared.type, what).admit(state.default)
