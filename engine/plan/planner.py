"""Cuts a job graph into tasks: which edges are calls inside a chain and which are channels."""

from dataclasses import dataclass, replace

from penstock.engine.operators.descriptor import Columns, KeyExpressions, Partitioning, key_places, plain_columns
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.branch_shedders import with_branch_shedders
from penstock.engine.plan.estimates import with_estimates
from penstock.engine.plan.key_samplers import with_key_samplers
from penstock.engine.plan.optimiser import optimise
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.errors import PlanError
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.expressions import column_name
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import MAIN, Input, JobGraph, OperatorNode, SinkSpec, SourceSpec


@dataclass(frozen=True, slots=True)
class _Placed:
    """The placement of an operator: its parallelism and the columns its outputs are partitioned by (None: nothing)."""

    parallelism: int
    partitioned_by: Columns | None
    alike: bool

    def by(self, output: str) -> Columns | None:
        """Return the columns by which an output is partitioned; late rows are input rows, whose columns are others."""
        return self.partitioned_by if output == MAIN or (self.alike and output != DEAD_LETTER) else None


def plan(graph: JobGraph, parallelism: int, *, apart: bool = False) -> ExecutionGraph:
    """Optimise a job graph whose queries under contract say how good they are, and `cut` it into tasks.

    Where such queries part, branches have shedders, and what needs all rows of a key samplers of keys.

    Raises:
        PlanError: there is no sink, a query cannot say how good it is, two operators share a name, or an exchange would
            part what belongs together.
    """
    if not any(isinstance(node.spec, SinkSpec) for node in graph.operators.values()):
        raise PlanError("the pipeline has no sink; end a stream with write_..., print() or collect()")
    return cut(with_branch_shedders(with_key_samplers(optimise(with_estimates(graph)))), parallelism, apart=apart)


def cut(graph: JobGraph, parallelism: int, *, apart: bool = False) -> ExecutionGraph:
    """Cut a job graph into tasks as it is.

    Operators without parallelism of their own get ``parallelism``; aggregates without key get 1. With ``apart``, each
    source and sink of the caller's process is a task of its own, so that the others may run elsewhere; and what needs
    rows by keys, or all of them, has an exchange before it even where it and its producer are single, so that others
    may come beside these.

    Raises:
        PlanError: two operators share a name, or an exchange would part what belongs together.
    """
    check_names(graph)
    placed: dict[OperatorId, _Placed] = {}
    edges: list[Edge] = []
    alone = {node.id for node in graph.operators.values() if apart and in_caller(node)}
    for node in graph.operators.values():
        own = _parallelism(node, parallelism, placed)
        _check_exchanges(node)
        incoming = [_edge(node, port, edge, own, placed, apart=apart) for port, edge in enumerate(node.inputs)]
        edges.extend(incoming)
        placed[node.id] = _Placed(own, _partitioning(node, incoming, placed), descriptor_of(node.spec).like_outputs)
    if alone:
        edges = [replace(edge, chained=False) if {edge.producer, edge.consumer} & alone else edge for edge in edges]
    return ExecutionGraph(graph, _tasks(graph, edges, placed), tuple(edges), apart)


def in_caller(node: OperatorNode) -> bool:
    """Return whether an operator's instances run in the process that started the job."""
    match node.spec:
        case SourceSpec(source=source):
            return source.in_caller
        case SinkSpec(sink=sink):
            return sink.in_caller
    return False


def check_names(graph: JobGraph) -> None:
    """Refuse two operators of one name: names are what a restart finds state by.

    Raises:
        PlanError: naming both places.
    """
    seen: dict[str, OperatorNode] = {}
    for node in graph.operators.values():
        if node.name in seen:
            raise PlanError(
                f"two operators are named {node.name!r} (at {seen[node.name].where} and {node.where}); "
                "give one of them another .name()"
            )
        seen[node.name] = node


def _check_exchanges(node: OperatorNode) -> None:
    """Refuse an exchange of the user's that would send rows of one key to several instances, or a row to two."""
    chosen = [edge.exchange for edge in node.inputs if edge.exchange is not None]
    if not chosen or not _keys(node, 0):
        return
    two_sided = descriptor_of(node.spec).partitioning is Partitioning.BY_SIDES
    if two_sided and chosen.count("broadcast") == 1:
        _check_broadcast(node)
        return
    remedy = "broadcast() one side only" if two_sided else "leave it out, rows go by their key"
    raise PlanError(
        f"{node.name!r} at {node.where} needs rows of one key together, so {chosen[0]}() cannot feed it; {remedy}"
    )


def _check_broadcast(node: OperatorNode) -> None:
    """Refuse a join in which each instance would put out the same rows for want of a partner."""
    unmatched = descriptor_of(node.spec).unmatched(node.spec)
    for port, (side, edge) in enumerate(zip(("left", "right"), node.inputs, strict=True)):
        if edge.exchange == "broadcast" and port in unmatched:
            raise PlanError(
                f"{node.name!r} at {node.where} puts out rows of its {side} side that have no partner, and every "
                f"instance would, for all of them have these rows: broadcast() the other side, or leave it out"
            )


def _parallelism(node: OperatorNode, default: int, placed: dict[OperatorId, _Placed]) -> int:
    if node.inputs and _keys(node, 0) == ():
        if node.parallelism not in (None, 1):
            raise PlanError(
                f"{node.name!r} at {node.where} has no key, so it runs in one instance, not {node.parallelism}; "
                "add key_by(...) or leave out parallelism()"
            )
        return 1
    if node.parallelism is not None:
        return node.parallelism
    if descriptor_of(node.spec).keyed or len(node.inputs) != 1:
        return default
    # Stateless operators stay with what feeds them: an exchange only to be wider would cost more than it gains.
    return placed[node.inputs[0].operator].parallelism


def _edge(
    node: OperatorNode, port: int, edge: Input, own: int, placed: dict[OperatorId, _Placed], *, apart: bool
) -> Edge:
    producer = placed[edge.operator]
    keys = _placing(node, port, producer.by(edge.output) if producer.parallelism == own else None)
    if edge.exchange is not None:
        exchange = edge.exchange
    elif keys is None or has_broadcast_input(node):
        exchange = "forward" if own == producer.parallelism else "rebalance"
    elif own == producer.parallelism and keys and _is_partitioned(node, keys, producer.by(edge.output)):
        exchange = "forward"
    elif own == 1 and not (apart and keys):
        exchange = "rebalance" if apart or producer.parallelism > 1 else "forward"
    else:
        exchange = "hash"
    chained = len(node.inputs) == 1 and exchange == "forward" and edge.exchange is None
    return Edge(edge.operator, edge.output, node.id, port, exchange, chained, keys or ())


def has_broadcast_input(node: OperatorNode) -> bool:
    """Return whether one side of a join is broadcast, so that rows of the other meet their partners anywhere."""
    two_sided = descriptor_of(node.spec).partitioning is Partitioning.BY_SIDES
    return two_sided and any(edge.exchange == "broadcast" for edge in node.inputs)


def lies_by_key(graph: ExecutionGraph, node: OperatorNode) -> bool:
    """Return whether an operator has state that lies by the keys of its rows, from every input."""
    if not descriptor_of(node.spec).keyed or has_broadcast_input(node):
        return False
    return all(edge.keys for edge in graph.incoming(node.id))


def placed_by(graph: ExecutionGraph, node: OperatorNode) -> tuple[int, ...] | None:
    """Return by which of its keys, by their places, an operator's rows and state lie; None: by all, or it has none."""
    if not _lies_by_some(node):
        return None
    keys, placing = _keys(node, 0) or (), graph.incoming(node.id)[0].keys
    return key_places(keys, placing) if len(placing) < len(keys) else None


def _lies_by_some(node: OperatorNode) -> bool:
    return descriptor_of(node.spec).partitioning is Partitioning.BY_SOME_KEYS


def _keys(node: OperatorNode, port: int) -> KeyExpressions | None:
    """The key expressions an operator wants its input partitioned by; None when it has no key."""
    return descriptor_of(node.spec).keys(node.spec, port)


def _placing(node: OperatorNode, port: int, by: Columns | None) -> KeyExpressions | None:
    """The key expressions by which an operator's input is to be partitioned; ``by``: the columns by which it is.

    The state of an aggregate whose input is partitioned by some of its keys lies by these alone, at any parallelism.
    """
    keys = _keys(node, port)
    if not by or not keys or not _lies_by_some(node) or node.inputs[port].exchange is not None:
        return keys
    of_column = {column_name(key): key for key in keys}
    placing = tuple(of_column[name] for name in by if name in of_column)
    return placing if len(placing) == len(by) else keys


def _is_partitioned(node: OperatorNode, keys: KeyExpressions, by: Columns | None) -> bool:
    names = plain_columns(keys)
    if names is None or by is None:
        return False
    # Equal keys lie together if the rows are partitioned by some of them, but state has to be where its hash says.
    return names == by if descriptor_of(node.spec).keyed else set(by) <= set(names)


def _partitioning(node: OperatorNode, incoming: list[Edge], placed: dict[OperatorId, _Placed]) -> Columns | None:
    """Return the columns by which an operator's output is partitioned."""
    descriptor = descriptor_of(node.spec)
    if descriptor.keyed:
        # Rows that meet a broadcast side do not lie where their keys say.
        spread = any(edge.exchange == "broadcast" for edge in incoming)
        return None if spread else descriptor.partitioned_by(node.spec, [edge.keys for edge in incoming])
    if len(incoming) != 1 or incoming[0].exchange != "forward":
        return None
    before = placed[incoming[0].producer].by(incoming[0].output)
    return None if before is None else descriptor.carried(node.spec, before)


def _tasks(graph: JobGraph, edges: list[Edge], placed: dict[OperatorId, _Placed]) -> tuple[Task, ...]:
    chained_to = {edge.consumer: edge.producer for edge in edges if edge.chained}
    members: dict[OperatorId, list[OperatorId]] = {}
    head_of: dict[OperatorId, OperatorId] = {}
    for operator in graph.operators:
        head = head_of[chained_to[operator]] if operator in chained_to else operator
        head_of[operator] = head
        members.setdefault(head, []).append(operator)
    return tuple(
        Task(TaskId(index), tuple(operators), placed[head].parallelism)
        for index, (head, operators) in enumerate(members.items())
    )
