"""Column pruning: every operator computes, and every source reads, only the columns that something above uses."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.engine.operators.joins.join_schema import LATE_RIGHT
from penstock.engine.plan.schemas import output_schemas
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.expressions import Expr, col, columns_of
from penstock.model.ids import OperatorId
from penstock.model.job_graph import (
    LATE,
    MAIN,
    AggregateSpec,
    AsyncFunctionSpec,
    FilterSpec,
    Input,
    JobGraph,
    OperatorNode,
    OperatorSpec,
    ProjectSpec,
    RowFunctionSpec,
    SourceSpec,
    SplitSpec,
    TimeSpec,
    UnionSpec,
)
from penstock.model.join_specs import AsOfJoinSpec, IntervalJoinSpec, JoinSpec, LookupSpec
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Count

Required = dict[tuple[OperatorId, str], set[str]]


def prune_columns(graph: JobGraph) -> JobGraph:
    """Return the graph without unused columns. A sink's columns are never pruned."""
    required: Required = {}
    for node in reversed(list(graph.operators.values())):
        for edge, names in zip(node.inputs, _needs(graph, node, required), strict=True):
            required.setdefault((edge.operator, edge.output), set()).update(names)
    keep_time = _event_time_matters(graph)
    pruned = JobGraph()
    for node in graph.operators.values():
        _rebuild(pruned, node, required, keep_time)
    return pruned


def _event_time_matters(graph: JobGraph) -> bool:
    """Whether the event time column is worth reading although no expression uses it.

    Operators that group or order by time need watermarks row by row, and several sources are aligned by them. One
    source under stateless operators reports event time from what it skips over instead.
    """
    sources = sum(isinstance(node.spec, SourceSpec) for node in graph.operators.values())
    stateless = FilterSpec | ProjectSpec | RowFunctionSpec | SplitSpec | SourceSpec | UnionSpec
    others = [node for node in graph.operators.values() if node.inputs and not isinstance(node.spec, stateless)]
    return sources > 1 or any(node.kind not in ("sink",) for node in others)


def _needs(graph: JobGraph, node: OperatorNode, required: Required) -> list[set[str]]:
    """Return, per input, the columns this operator needs, given what its outputs must bring."""
    inputs = [graph[edge.operator].outputs[edge.output] for edge in node.inputs]
    spec = node.spec
    everything = [set(schema.fields.names) for schema in inputs]
    if (node.id, DEAD_LETTER) in required:
        # A dead letter shows the whole row, and a row is bad whichever of its columns cannot be computed.
        return everything
    wanted = required.get((node.id, MAIN), set())
    if isinstance(spec, FilterSpec):
        return [wanted | columns_of(spec.predicate)]
    if isinstance(spec, ProjectSpec):
        where = frozenset() if spec.where is None else columns_of(spec.where)
        return [{*where, *_columns(expression for name, expression in spec.columns if name in _kept(spec, wanted))}]
    if isinstance(spec, RowFunctionSpec) and spec.columns is not None:
        return [set(spec.columns) | (wanted if spec.kind == "filter" else set())]
    if isinstance(spec, AsyncFunctionSpec) and spec.columns is not None:
        return [set(spec.columns)]
    if isinstance(spec, UnionSpec):
        return [wanted or everything[0] for _ in inputs]
    if isinstance(spec, SplitSpec):
        outputs = [required.get((node.id, output), set()) for output, _ in spec.outputs]
        return [wanted.union(*outputs, _columns(predicate for _, predicate in spec.outputs))]
    if isinstance(spec, AggregateSpec):
        if (node.id, LATE) in required or _counts_rows(spec):
            return everything
        return [_aggregate_needs(spec, inputs[0])]
    if isinstance(spec, JoinSpec | IntervalJoinSpec | AsOfJoinSpec):
        return _join_needs(node, spec, inputs, required)
    if isinstance(spec, LookupSpec):
        return [_columns(spec.left_keys) | _of_side(spec.output, 0, wanted)]
    if isinstance(spec, TimeSpec) and (node.id, LATE) not in required:
        return [wanted | {spec.column} | _time_column(inputs[0])]
    # Ties are decided by all columns of a row, and user functions may look at any.
    return everything


def _counts_rows(spec: AggregateSpec) -> bool:
    """Whether its windows are of a number of rows, which are put in order by all of their columns."""
    return spec.windowing is not None and isinstance(spec.windowing.window, Count)


def _aggregate_needs(spec: AggregateSpec, schema: StreamSchema) -> set[str]:
    names = _columns(expression for _, expression in spec.keys)
    for _, call in spec.aggregates:
        names |= _columns(call.inputs)
        if call.where is not None:
            names |= columns_of(call.where)
    return names | _time_column(schema)


def _join_needs(
    node: OperatorNode,
    spec: JoinSpec | IntervalJoinSpec | AsOfJoinSpec,
    inputs: Sequence[StreamSchema],
    required: Required,
) -> list[set[str]]:
    wanted = required.get((node.id, MAIN), set())
    timed = not isinstance(spec, JoinSpec) or spec.windowing is not None
    needs = []
    for side, (keys, late) in enumerate(((spec.left_keys, LATE), (spec.right_keys, LATE_RIGHT))):
        if (node.id, late) in required:
            needs.append(set(inputs[side].fields.names))
            continue
        names = _columns(keys) | _of_side(spec.output, side, wanted)
        needs.append(names | (_time_column(inputs[side]) if timed else set()))
    if isinstance(spec, JoinSpec) and spec.one_side is not None and spec.where is not None:
        needs[spec.one_side] |= columns_of(spec.where)
    if isinstance(spec, IntervalJoinSpec) and isinstance(spec.upper, Expr):
        needs[0] |= columns_of(spec.upper)
    if isinstance(spec, AsOfJoinSpec):
        # Ties between rows of one time are decided by all their columns.
        needs[1] = set(inputs[1].fields.names)
    return needs


def _of_side(output: Sequence[tuple[str, int, str]], side: int, wanted: set[str]) -> set[str]:
    return {column for name, origin, column in output if origin == side and name in wanted}


def _rebuild(graph: JobGraph, node: OperatorNode, required: Required, keep_time: bool) -> None:
    """Add the pruned version of a node to ``graph``, whose earlier operators are pruned already."""
    wanted = required.get((node.id, MAIN), set())
    if (node.id, DEAD_LETTER) in required:
        wanted = set(node.outputs[MAIN].fields.names)
    spec: OperatorSpec = node.spec
    source_time: TimeColumn | None = None
    if isinstance(spec, SourceSpec):
        schema = node.outputs[MAIN]
        source_time = schema.time
        names = set(wanted) | (_time_column(schema) if keep_time else set())
        ordered = [name for name in schema.fields.names if name in names]
        # A source read only for its row count still brings one column.
        ordered = ordered or list(schema.fields.names[:1])
        spec = replace(spec, source=spec.source.restrict(ordered, None))
        if source_time is not None and source_time.name not in spec.source.schema.names:
            source_time = None
    elif isinstance(spec, ProjectSpec):
        kept = _kept(spec, wanted)
        columns = tuple((name, expression) for name, expression in spec.columns if name in kept)
        spec = replace(spec, columns=columns)
    elif isinstance(spec, JoinSpec | IntervalJoinSpec | AsOfJoinSpec | LookupSpec):
        output = tuple(item for item in spec.output if item[0] in wanted) or spec.output[:1]
        spec = replace(spec, output=output)
    inputs = node.inputs
    if isinstance(spec, UnionSpec):
        inputs = tuple(_same_columns(graph, node, port, wanted) for port in range(len(node.inputs)))
    schemas = [graph[edge.operator].outputs[edge.output] for edge in inputs]
    outputs = dict(output_schemas(spec, schemas, node.name, source_time))
    graph.add(replace(node, spec=spec, inputs=inputs, outputs=outputs))


def _same_columns(graph: JobGraph, node: OperatorNode, port: int, wanted: set[str]) -> Input:
    """Give every input of a union the same columns by a projection where a filter left more."""
    edge = node.inputs[port]
    schema = graph[edge.operator].outputs[edge.output]
    names = [name for name in node.outputs[MAIN].fields.names if name in wanted]
    if not names or schema.fields.names == names:
        return edge
    key = OperatorId(f"{node.id}.{port}")
    spec = ProjectSpec(tuple((name, col(name)) for name in names))
    name = f"{node.name}.{port}"
    outputs = dict(output_schemas(spec, [schema], name))
    graph.add(OperatorNode(key, name, spec, (edge,), outputs, parallelism=node.parallelism, where=node.where))
    return Input(key)


def _kept(spec: ProjectSpec, wanted: set[str]) -> set[str]:
    """The columns a projection must still compute: what is wanted, or one when only the row count is."""
    return wanted or {spec.columns[0][0]}


def _columns(expressions: Iterable[Expr]) -> set[str]:
    names: set[str] = set()
    for expression in expressions:
        names |= columns_of(expression)
    return names


def _time_column(schema: StreamSchema) -> set[str]:
    return {schema.time.name} if schema.time is not None else set()
