"""Lets results of queries under contract say how good they are, from the aggregates that know to the sinks. Pure.

The planner does it before it optimises. Aggregates on the way get ``estimates``, and what stands between them and the
sinks carries their hidden columns (`result_columns`); whatever else reads the same rows has them taken out before it.
What the user sees of a stream stays as it is.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock.engine.operators.registry import descriptor_of
from penstock.engine.operators.sink_columns import SinkColumns
from penstock.engine.plan.bucket_ways import with_buckets
from penstock.engine.plan.max_errors import check_max_errors, confidences
from penstock.engine.plan.schemas import output_schemas
from penstock.engine.plan.strata import wants_strata, with_strata
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.errors import PlanError
from penstock.model.expression_functions import when
from penstock.model.expressions import Expr, col, lit
from penstock.model.ids import OperatorId
from penstock.model.job_graph import (
    MAIN,
    Input,
    JobGraph,
    OperatorNode,
    OperatorSpec,
    ProjectSpec,
    SinkSpec,
)
from penstock.model.result_columns import (
    ACCURACY,
    BIASED,
    QUALITY,
    SAMPLE,
    certified_of,
    hidden_of,
    high_of,
    is_hidden,
    low_of,
)
from penstock.model.schema import StreamSchema

Output = tuple[OperatorId, str]


def with_estimates(graph: JobGraph) -> JobGraph:
    """Return the graph whose queries under contract get estimates, with the columns of `result_columns` if they want.

    It is the same graph if there is no such query.

    Raises:
        PlanError: an operator cannot carry them, or a query has a column of one of the names in which it would show
            them; the message names both and their lines.
    """
    under_contract = [
        node.id for node in graph.operators.values() if isinstance(node.spec, SinkSpec) and node.spec.under_contract
    ]
    if not under_contract and not wants_strata(graph):
        return graph
    check_max_errors(graph)
    graph = _confident(graph)
    upstream = graph.upstream(under_contract)
    carriers = _carriers(graph)
    joins, bearers = with_buckets(graph, carriers)
    graph, of_strata = with_strata(graph, carriers)
    bearers |= of_strata
    rebuilt = JobGraph()
    for node in graph.operators.values():
        if node.id in carriers | bearers:
            _add_carrier(rebuilt, node)
        elif node.id in joins:
            _add_join(rebuilt, node, joins[node.id])
        else:
            _add(rebuilt, node, estimates=node.id in upstream and descriptor_of(node.spec).estimates)
    return rebuilt


def _confident(graph: JobGraph) -> JobGraph:
    """Return the graph whose aggregates have intervals at the confidence that their queries want."""
    wanted = confidences(graph)
    operators = dict(graph.operators)
    for operator, confidence in wanted.items():
        node = operators[operator]
        operators[operator] = replace(node, spec=descriptor_of(node.spec).with_confidence(node.spec, confidence))
    return JobGraph(operators)


def _shows(node: OperatorNode) -> bool:
    return isinstance(node.spec, SinkSpec) and node.spec.shows_quality


def _carriers(graph: JobGraph) -> set[OperatorId]:
    """Return the sinks that show how good results are, and the operators that carry it there."""
    made = _made(graph)
    carriers: set[OperatorId] = set()
    for sink in graph.operators.values():
        pending = [sink] if _shows(sink) else []
        while pending:
            node = pending.pop()
            carriers.add(node.id)
            results = [edge for edge in node.inputs if (edge.operator, edge.output) in made]
            for producer in (graph[edge.operator] for edge in results):
                if not _can_carry(producer):
                    raise _cannot_carry(sink, producer)
                pending += [producer] if producer.id not in carriers else []
    return carriers


def _made(graph: JobGraph) -> set[Output]:
    """Return the outputs whose rows are results of aggregates, or are made of such."""
    made: set[Output] = set()
    for node in graph.operators.values():
        is_made = any((edge.operator, edge.output) in made for edge in node.inputs)
        for output in node.outputs:
            aggregated = output == MAIN and descriptor_of(node.spec).estimates
            if output != DEAD_LETTER and (is_made or aggregated):
                made.add((node.id, output))
    return made


def _can_carry(node: OperatorNode) -> bool:
    return descriptor_of(node.spec).with_hidden(node.spec, ()) is not None


def _add(graph: JobGraph, node: OperatorNode, *, estimates: bool) -> None:
    """Add a node that does not carry columns to ``graph``, which holds what it reads: it reads rows without them.

    With ``estimates`` its values are those of all rows, and nobody reads how good they are.
    """
    inputs = tuple(_without_hidden(graph, node, port) for port in range(len(node.inputs)))
    spec, outputs = node.spec, node.outputs
    if estimates:
        spec = descriptor_of(spec).with_hidden(spec, ()) or spec
        outputs = output_schemas(spec, [graph[edge.operator].outputs[edge.output] for edge in inputs], node.name)
    graph.add(replace(node, spec=spec, inputs=inputs, outputs=dict(outputs)))


def _add_join(graph: JobGraph, node: OperatorNode, spec: OperatorSpec) -> None:
    """Add a join to ``graph``, which holds what it reads, with the spec by which its rows say their buckets."""
    inputs = tuple(_without_hidden(graph, node, port) for port in range(len(node.inputs)))
    schemas = [graph[edge.operator].outputs[edge.output] for edge in inputs]
    outputs = dict(output_schemas(spec, schemas, node.name))
    graph.add(replace(node, spec=spec, inputs=inputs, outputs=outputs))


def _add_carrier(graph: JobGraph, node: OperatorNode) -> None:
    """Add a node to ``graph``, which holds what it reads, and let it carry the columns of its inputs."""
    descriptor = descriptor_of(node.spec)
    inputs = _alike(graph, node) if descriptor.like_inputs else _judged(graph, node)
    schemas = [graph[edge.operator].outputs[edge.output] for edge in inputs]
    spec: OperatorSpec = node.spec
    if isinstance(spec, SinkSpec):
        _check_names(node, spec, schemas[0])
    else:
        carrying = descriptor.with_hidden(spec, tuple(filter(is_hidden, schemas[0].fields.names)))
        assert carrying is not None, f"{node.name!r} was found to carry columns"
        spec = carrying
    graph.add(replace(node, spec=spec, inputs=inputs, outputs=dict(output_schemas(spec, schemas, node.name))))


def _judged(graph: JobGraph, node: OperatorNode) -> tuple[Input, ...]:
    """Return the inputs of a node; if it decides by estimates which rows go on, those that are none are biased.

    Rows that were chosen by an estimate are those whose estimate is likely to be off: their intervals do not hold.
    """
    edge = node.inputs[0]
    names = graph[edge.operator].outputs[edge.output].fields.names
    decisive = descriptor_of(node.spec).decides_by(node.spec, tuple(names))
    if not any(low_of(name) in names for name in decisive):
        return node.inputs
    exact = col(ACCURACY) >= 1.0
    columns: dict[str, Expr] = {name: col(name) for name in names}
    for name in filter(is_hidden, names):
        columns[name] = col(name) if name in (*QUALITY, *SAMPLE) else when(exact).then(col(name)).otherwise(None)
    columns[BIASED] = col(BIASED) | ~exact
    return (_projected(graph, node, 0, list(columns.items())),)


def _without_hidden(graph: JobGraph, node: OperatorNode, port: int) -> Input:
    """Return an input of rows as the user knows them."""
    edge = node.inputs[port]
    names = graph[edge.operator].outputs[edge.output].fields.names
    shown = [name for name in names if not is_hidden(name)]
    return edge if shown == names else _projected(graph, node, port, [(name, col(name)) for name in shown])


def _alike(graph: JobGraph, node: OperatorNode) -> tuple[Input, ...]:
    """Return the inputs of a union with the same hidden columns; rows that no aggregate has made are exact.

    An aggregate has an interval in the union if it has one in each input that aggregates have made.
    """
    schemas = [graph[edge.operator].outputs[edge.output].fields.names for edge in node.inputs]
    made = [names for names in schemas if ACCURACY in names]
    users = node.outputs[MAIN].fields.names
    estimated = [name for name in users if all(low_of(name) in names for names in made)]
    # Rows that are none of the sample have no bucket.
    told = [name for name in made[0] if name not in SAMPLE]
    hidden = [new for new, _ in hidden_of([(name, name) for name in estimated], told)]
    exact: dict[str, Expr] = {ACCURACY: lit(1.0), BIASED: lit(False)}
    exact |= {of(name): col(name) for name in estimated for of in (low_of, high_of)}
    exact |= {certified_of(name): lit(True) for name in estimated}
    inputs = []
    for port, names in enumerate(schemas):
        columns = [(name, col(name) if name in names else exact[name]) for name in (*users, *hidden)]
        is_alike = names == [name for name, _ in columns]
        inputs.append(node.inputs[port] if is_alike else _projected(graph, node, port, columns))
    return tuple(inputs)


def _projected(graph: JobGraph, node: OperatorNode, port: int, columns: Sequence[tuple[str, Expr]]) -> Input:
    """Add a projection before an input of a node, where the rows come from."""
    edge = node.inputs[port]
    key = OperatorId(f"{node.id}.{port}.columns")
    spec = ProjectSpec(tuple(columns))
    name = f"{node.name}.{port}.columns"
    outputs = dict(output_schemas(spec, [graph[edge.operator].outputs[edge.output]], name))
    graph.add(OperatorNode(key, name, spec, (replace(edge, exchange=None),), outputs, where=node.where))
    return Input(key, exchange=edge.exchange)


def _check_names(node: OperatorNode, spec: SinkSpec, schema: StreamSchema) -> None:
    columns = SinkColumns(schema)
    clash = columns.clash
    if spec.max_error is not None and not columns.intervals:
        raise PlanError(
            f"query {node.name!r} at {node.where} wants a maximum error, but none of its columns is a count, sum or "
            "mean as it was aggregated: what is computed from these has no interval"
        )
    left_out = [name for name in spec.key if name in columns.intervals] if spec.leaves_out_wide else []
    if left_out:
        raise PlanError(
            f"query {node.name!r} at {node.where} would have null in its key {left_out[0]!r} where that is not "
            "accurate enough: write with_max_error(..., otherwise='keep')"
        )
    if clash is not None and spec.max_error is not None:
        raise PlanError(
            f"query {node.name!r} at {node.where} wants a maximum error, so it writes a column {clash!r}, but it has "
            "one of this name: rename() yours"
        )
    if clash is not None:
        raise PlanError(
            f"query {node.name!r} at {node.where} is under contract, so it writes a column {clash!r}, but it has one "
            f"of this name: rename() yours, or write with_min_accuracy({spec.min_accuracy:g}, columns=False)"
        )


def _cannot_carry(sink: OperatorNode, operator: OperatorNode) -> PlanError:
    assert isinstance(sink.spec, SinkSpec)
    return PlanError(
        f"query {sink.name!r} at {sink.where} is under contract, but {operator.name!r} at {operator.where} "
        f"({descriptor_of(operator.spec).verb}) makes rows anew, so it cannot be said how good they are: write "
        f"with_min_accuracy({sink.spec.min_accuracy:g}, columns=False)"
    )
