"""What the state of each operator of a plan stands for, in the words of the pipeline: pure functions of the plan.

Written into manifests by `snapshots`; `meaning_changes` compares two. Nothing depends on parallelism, and of what the
optimiser does only the conditions that it moves into joins, for they decide which rows are kept. What functions of the
user's do is not part of it, but the state that they declare is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.engine.operators.over.input import seen_expressions
from penstock.engine.operators.over.schema import plan_over
from penstock.model.aggregates import AggregateCall
from penstock.model.durations import format_microseconds
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.expression_trees import bare, in_one_order, sql_text
from penstock.model.expressions import Expr, Ordering, column_name
from penstock.model.ids import OperatorId
from penstock.model.job_graph import (
    AggregateSpec,
    AsyncFunctionSpec,
    JobGraph,
    OperatorNode,
    ReduceSpec,
    SinkSpec,
    SourceSpec,
    TimeSpec,
)
from penstock.model.join_specs import AsOfJoinSpec, IntervalJoinSpec, JoinSpec, TwoSided
from penstock.model.keyed_specs import FirstSpec, Keys, OverSpec, ProcessSpec, TopSpec
from penstock.model.process_states import MapState, State
from penstock.model.schema import StreamSchema
from penstock.model.windows import Count, Hopping, Session, Tumbling, Windowing
from penstock.state.checkpoints.operator_meaning import AggregateMeaning, OperatorMeaning

_VERBS = {
    "aggregate": "agg",
    "first": "deduplicate",
    "asyncfunction": "map_async",
    "time": "event_time",
    "intervaljoin": "interval_join",
    "asofjoin": "asof_join",
    "rowfunction": "map",
    "batchfunction": "map_batches",
    "project": "select",
}
"""The verbs of specs that are called otherwise."""

_WITHOUT_STATE_OF = ("q",)
"""Options of aggregates that say what is read from the state, and nothing about the state."""

_CHANGELOG = {True: "an updating stream", False: "an append-only stream"}


def verb_of(node: OperatorNode) -> str:
    """Return the verb that makes operators of this kind."""
    return _VERBS.get(node.kind, node.kind)


def meanings_of(plan: ExecutionGraph) -> dict[str, OperatorMeaning]:
    """Return what the state of each operator of a plan stands for, by name; operators without state are left out."""
    found = {node.name: _meaning(plan, node) for node in plan.graph.operators.values()}
    return {name: meaning for name, meaning in found.items() if meaning is not None}


def _meaning(plan: ExecutionGraph, node: OperatorNode) -> OperatorMeaning | None:
    spec, verb = node.spec, verb_of(node)
    inputs = [plan.graph[edge.operator].outputs[edge.output] for edge in node.inputs]
    match spec:
        case SourceSpec() | SinkSpec() | AsyncFunctionSpec():
            return OperatorMeaning(kind=verb)
        case TimeSpec():
            return OperatorMeaning(kind=verb, traits={"event time": spec.column})
        case AggregateSpec():
            lying = _key_text(plan.incoming(node.id)[0].keys)
            traits = _keyed(spec.keys, inputs[0]) | _window(spec.windowing) | {"rows lie by": lying}
            kept = _aggregates(
                plan_aggregate(spec, inputs[0], node.name).aggregation, spec.aggregates, _aggregate_table(spec)
            )
            return OperatorMeaning(kind=verb, traits=traits, aggregates=kept, keys=_names(spec.keys))
        case ReduceSpec():
            traits = _keyed(spec.keys, inputs[0]) | _window(spec.windowing)
            return OperatorMeaning(kind=verb, traits=traits, keys=_names(spec.keys))
        case OverSpec():
            frame = "all rows so far" if spec.rows is None else f"the last {spec.rows}"
            traits = _keyed(spec.keys, inputs[0]) | {"frame": frame, "order": _order(spec.order) or "event time"}
            return OperatorMeaning(
                kind=verb,
                traits=traits,
                aggregates=_over(spec, inputs[0], node.name),
                values=_frame_values(spec, inputs[0]),
                keys=_names(spec.keys),
            )
        case TopSpec():
            traits = {
                "number of rows": str(spec.rows),
                "order": _order(spec.order),
                "rank": "none" if spec.rank is None else "a column",
                "ties": "greatest first" if spec.tie_descending else "least first",
            }
            return OperatorMeaning(kind=verb, traits=_keyed(spec.keys, inputs[0]) | traits, keys=_names(spec.keys))
        case FirstSpec():
            traits = {"order": "arrival" if spec.by_arrival else "event time", "ttl": _duration(spec.ttl_us)}
            return OperatorMeaning(kind=verb, traits=_keyed(spec.keys, inputs[0]) | traits, keys=_names(spec.keys))
        case ProcessSpec():
            traits = _keyed(spec.keys, inputs[0]) | {"order": "event time" if spec.order == "event" else "arrival"}
            states = {name: _state(state) for name, state in spec.states.items()}
            return OperatorMeaning(kind=verb, traits=traits, states=states, keys=_names(spec.keys))
        case JoinSpec() | IntervalJoinSpec() | AsOfJoinSpec():
            sides = tuple(_sources(plan.graph, edge.operator) for edge in node.inputs)
            keys = tuple(column_name(key) or _text(key) for key in spec.left_keys)
            return OperatorMeaning(kind=verb, traits=_joined(spec, inputs), keys=keys, sides=sides)
        case _:
            return None


def _keyed(keys: Keys, schema: StreamSchema) -> dict[str, str]:
    return {"key": _key_text([key for _, key in keys]), "input": _CHANGELOG[schema.changelog]}


def _window(windowing: Windowing | None) -> dict[str, str]:
    if windowing is None:
        return {"window": "none"}
    window = windowing.window
    offset_us = window.offset_us if isinstance(window, Tumbling | Hopping) else 0
    return {
        "window": f"{window}, offset {format_microseconds(offset_us)}" if offset_us else str(window),
        "allowed lateness": _duration(windowing.lateness_us or None),
        "clock": f"{windowing.clock} time",
        "emission": "final results" if windowing.emission.mode == "final" else "updates",
    }


def _joined(spec: TwoSided, inputs: Sequence[StreamSchema]) -> dict[str, str]:
    traits = {
        "left key": _key_text(spec.left_keys),
        "right key": _key_text(spec.right_keys),
        "left input": _CHANGELOG[inputs[0].changelog],
        "right input": _CHANGELOG[inputs[1].changelog],
        "how": spec.how,
    }
    match spec:
        case JoinSpec():
            kept = "all" if spec.where is None else f"those where {_text(spec.where)}"
            traits |= _window(spec.windowing) | {"validate": spec.validate, "rows with a partner": kept}
        case IntervalJoinSpec():
            upper = _text(spec.upper) if isinstance(spec.upper, Expr) else _signed(spec.upper)
            traits |= {"between": f"{_signed(spec.lower_us)} and {upper}"}
        case AsOfJoinSpec():
            traits |= {"tolerance": _duration(spec.tolerance_us)}
    return traits


def _aggregate_table(spec: AggregateSpec) -> str:
    """Return the table that holds the accumulators; see `operators.registry`."""
    windowing = spec.windowing
    if windowing is None:
        return "groups"
    if isinstance(windowing.window, Session):
        return "sessions"
    return "groups" if windowing.emission.mode == "updates" and not isinstance(windowing.window, Count) else "windows"


def _aggregates(
    aggregation: Aggregation, named: Sequence[tuple[str, AggregateCall]], table: str
) -> tuple[AggregateMeaning, ...]:
    pairs = zip(named, aggregation.owners, strict=True)
    return tuple(
        AggregateMeaning(name=name, means=_aggregate_text(call), table=table, place=owner)
        for (name, call), owner in pairs
    )


def _over(spec: OverSpec, schema: StreamSchema, name: str) -> tuple[AggregateMeaning, ...]:
    """Return the aggregates and where running totals are kept; the others are computed from the rows of the frame."""
    if spec.rows is not None or spec.order or schema.changelog:
        return tuple(AggregateMeaning(name=column, means=_aggregate_text(call)) for column, call in spec.aggregates)
    plan = plan_over(spec, schema, name)
    small = _aggregates(plan.small, [spec.aggregates[place] for place in plan.small_calls], "totals")
    return small + _aggregates(plan.large, [spec.aggregates[place] for place in plan.large_calls], "multisets")


def _frame_values(spec: OverSpec, schema: StreamSchema) -> tuple[str, ...]:
    """Return what frames keep of each row, in order; nothing if they keep whole rows, or totals."""
    if spec.rows is None or spec.order or schema.changelog:
        return ()
    return tuple(map(_text, seen_expressions(spec)))


def _aggregate_text(call: AggregateCall) -> str:
    arguments = [_text(item) for item in call.inputs]
    arguments += [f"{name}={value!r}" for name, value in sorted(call.options.items()) if name not in _WITHOUT_STATE_OF]
    if call.user is None:
        text = f"{call.function}({', '.join(arguments)})"
    else:
        state = ", ".join(f"{name} {dtype}" for name, dtype in sorted(_dtypes(call.user.state).items()))
        text = f"aggregate({', '.join(arguments)}) with state {state}"
    return text if call.where is None else f"{text} where {_text(call.where)}"


def _dtypes(state: Mapping[str, Any]) -> dict[str, str]:
    return {name: getattr(kind, "__name__", str(kind)) for name, kind in state.items()}


def _state(state: State) -> str:
    key = f"{state.keys_declared.type} to " if isinstance(state, MapState) else ""
    ttl = "" if state.ttl_us is None else f", ttl {format_microseconds(state.ttl_us)} of {state.ttl_clock} time"
    return f"{state.shape} of {key}{state.declared.type}{ttl}"


def _sources(graph: JobGraph, operator: OperatorId) -> tuple[str, ...]:
    """Return the names of the sources upstream of an operator, itself included."""
    names: set[str] = set()
    pending, seen = [operator], set[OperatorId]()
    while pending:
        node = graph[pending.pop()]
        if node.id not in seen:
            seen.add(node.id)
            pending += [edge.operator for edge in node.inputs]
            if isinstance(node.spec, SourceSpec):
                names.add(node.name)
    return tuple(sorted(names))


def _names(keys: Keys) -> tuple[str, ...]:
    return tuple(name for name, _ in keys)


def _key_text(keys: Iterable[Expr]) -> str:
    return ", ".join(map(_text, keys)) or "none"


def _order(order: Sequence[Ordering]) -> str:
    return ", ".join(_text(item.expression) + (" desc" if item.descending else "") for item in order)


def _text(expression: Expr) -> str:
    # A set of strings has another order in every process.
    return column_name(expression) or sql_text(in_one_order(bare(expression.tree, keep_alias=False)))


def _duration(value_us: int | None) -> str:
    return "none" if value_us is None else format_microseconds(value_us)


def _signed(value_us: int) -> str:
    return f"-{format_microseconds(-value_us)}" if value_us < 0 else format_microseconds(value_us)
