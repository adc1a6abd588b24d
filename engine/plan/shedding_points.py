"""Where rows may be shed: at which sources, on which branches behind them, by which keys, and why not elsewhere. Pure.

A source is shed before its rows are decoded. Where queries of different contracts part in the stateless operators right
behind it, each branch can be shed further, as long as operators carry which record a row was made of. What needs all
rows of a key can be shed by keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.engine.operators.descriptor import Columns, Sampling, plain_columns
from penstock.engine.operators.joins.join_schema import LATE_RIGHT
from penstock.engine.operators.registry import descriptor_of
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.ids import OperatorId
from penstock.model.job_graph import LATE, MAIN, BranchSpec, Input, JobGraph, OperatorNode, SinkSpec, SourceSpec
from penstock.model.keep_rates import Edge


@dataclass(frozen=True, slots=True)
class SheddingPoints:
    """The places where rows may be shed, by the names of operators.

    ``sources``: those that may be shed, and the least keep rate of each that every query behind it allows; 1.0 where
    one of them needs all rows, so that only branches can be shed. ``branches``: edges (producer, consumer) where a
    query may be shed further than what else stands behind its source, and their least keep rates, by the names that
    they have without shedders between them. An edge that is not named keeps what its source keeps. ``reasons``: by the
    names of the other sources, one sentence why. ``keyed``: those of the branches whose rows are dropped by their keys,
    where they come to what needs all rows of a key.
    """

    sources: Mapping[str, float] = field(default_factory=dict)
    branches: Mapping[Edge, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    keyed: frozenset[Edge] = frozenset()


@dataclass(frozen=True, slots=True)
class _Demand:
    """The demand of one query, or of an operator that needs all rows, on an edge; ``need`` says why it needs them."""

    minimum: float
    priority: int = 0
    max_lag_us: int | None = None
    need: str = ""


_Demands = frozenset[_Demand]


def shedding_points(graph: JobGraph, *, bounded: bool = False) -> SheddingPoints:
    """Return where rows of a job may be shed; ``graph`` is that of its plan, whose names are those of what runs.

    Sources that end by themselves are left whole, unless ``bounded`` says that they may be shed as well.
    """
    sources: dict[str, float] = {}
    branches: dict[Edge, float] = {}
    keyed: set[Edge] = set()
    reasons: dict[str, str] = {}
    for node in graph.operators.values():
        if not isinstance(node.spec, SourceSpec):
            continue
        tree = _Tree(graph, node)
        keys = dict(tree.keyed())
        edges = dict(tree.branches()) | keys
        minimum = _minimum(tree.demands(node.id))
        reason = _excluded(node.spec, bounded) or _whole(tree.demands(node.id), minimum, bool(edges))
        if reason:
            reasons[node.name] = reason
        else:
            sources[node.name] = minimum
            branches |= edges
            keyed |= keys.keys()
    return SheddingPoints(sources, branches, reasons, frozenset(keyed))


class _Tree:
    """What stands behind one source."""

    def __init__(self, graph: JobGraph, source: OperatorNode) -> None:
        self._graph = graph
        self._source = source
        self._known: dict[tuple[OperatorId, str, bool], _Demands] = {}
        self._below = {source.id}
        for node in graph.operators.values():
            if any(edge.operator in self._below for edge in node.inputs):
                self._below.add(node.id)

    def demands(self, operator: OperatorId) -> _Demands:
        """Return what all that reads an operator demands of its rows."""
        return frozenset[_Demand]().union(
            *(self._of_edge(node, port, spread=False) for node, port in self._graph.consumers(operator))
        )

    def branches(self) -> Iterator[tuple[Edge, float]]:
        """Yield the edges where queries of different contracts part, if they may be shed, and their minimums."""
        pending = [self._source]
        while pending:
            node = pending.pop()
            parted: dict[str, _Demands] = {}
            for consumer, port in self._graph.consumers(node.id):
                demands = self._of_edge(consumer, port, spread=False)
                name = consumer.spec.edge[1] if isinstance(consumer.spec, BranchSpec) else consumer.name
                parted[name] = parted.get(name, frozenset()) | demands
                if consumer not in pending and _sampling(consumer) is Sampling.CARRIED:
                    pending.append(consumer)
            if len(set(map(_contract, parted.values()))) > 1:
                for name, demands in parted.items():
                    if _minimum(demands) < 1.0:
                        yield (node.name, name), _minimum(demands)

    def keyed(self) -> Iterator[tuple[Edge, float]]:
        """Yield the edges where rows may be dropped by their keys, and their minimums.

        Rates come with batches, so every operator up to there makes its rows of those of one batch.
        """
        pending = [self._source]
        while pending:
            node = pending.pop()
            for consumer, port in self._graph.consumers(node.id):
                if may_be_sampled(self._graph, consumer, port):
                    minimum = _minimum(self._of_whole_results(consumer))
                    if minimum < 1.0:
                        producer = self._graph[branch_above(self._graph, consumer.inputs[port].operator)].name
                        yield (producer, consumer.name), minimum
                elif brings_rows(consumer.inputs[port]) and len(consumer.inputs) == 1 and _is_by_row(consumer):
                    pending.append(consumer)

    def _of_whole_results(
        self, node: OperatorNode, keys: Sequence[Columns] | None = None, *, told: bool = True
    ) -> _Demands:
        """Return what is demanded of an operator's results, of which some are missing, and the others exact.

        ``keys`` are their columns with the keys by which they are missing, in every way in which all are there (None:
        those of the operator); ``told``: rows say still which of them share a key.
        """
        keys = descriptor_of(node.spec).key_columns(node.spec) if keys is None else keys
        demands = frozenset[_Demand]()
        for consumer, port in self._graph.consumers(node.id):
            edge = consumer.inputs[port]
            if edge.exchange == "broadcast" or edge.output in (LATE, LATE_RIGHT):
                return _all_rows(f"{_place(consumer)} needs all of what {_place(node)} puts out")
            descriptor, place = descriptor_of(consumer.spec), f"{_place(consumer)} ({_verb(consumer)})"
            if isinstance(consumer.spec, SinkSpec):
                demands |= _of_query(consumer.name, consumer.spec)
            elif _is_by_row(consumer):
                carried = [to for way in keys if (to := descriptor.carried(consumer.spec, way)) is not None]
                demands |= self._of_whole_results(consumer, carried, told=told and carries_buckets(consumer))
            elif _sampling(consumer) is not Sampling.ESTIMATED or self._graph.is_read(consumer.id, LATE):
                demands |= _all_rows(f"{place} makes a row of more than one result of a key")
            elif not told:
                demands |= _all_rows(f"{place} cannot tell any more which rows are of one key")
            elif any(set(way) <= set(plain_columns(descriptor.keys(consumer.spec, 0) or ()) or ()) for way in keys):
                demands |= _all_rows(f"{place} groups rows by the very key by which they would be dropped")
            else:
                demands |= self._of_output(consumer, MAIN, spread=False)
        return demands

    def _why_whole(self, node: OperatorNode, port: int) -> str:
        """Return why all rows of an input are needed by an operator in which a sample of rows stands for nothing."""
        place = f"{_place(node)} ({_verb(node)})"
        if 1 - port in descriptor_of(node.spec).unmatched(node.spec):
            return f"{place} puts out rows of the other side that have no partner in it"
        if any(edge.exchange == "broadcast" for edge in node.inputs):
            return f"{place} has rows of its other side broadcast, so those of a key meet at many instances"
        if not may_be_sampled(self._graph, node, port):
            return f"{place} says nothing of all rows when it has a part of them"
        demands = self._of_whole_results(node)
        if _minimum(demands) < 1.0:
            return f"{place} is sampled by keys, whose rates do not come through what is in front of it"
        return next(iter(sorted(demand.need for demand in demands if demand.need)), f"nothing reads {place}")

    def _of_output(self, node: OperatorNode, output: str, *, spread: bool) -> _Demands:
        key = (node.id, output, spread)
        if key not in self._known:
            readers = [
                (consumer, port)
                for consumer, port in self._graph.consumers(node.id)
                if consumer.inputs[port].output == output
            ]
            self._known[key] = frozenset[_Demand]().union(
                *(self._of_edge(consumer, port, spread=spread) for consumer, port in readers)
            )
        return self._known[key]

    def _of_edge(self, node: OperatorNode, port: int, *, spread: bool) -> _Demands:
        """Return what is demanded of an edge; ``spread``: a record may have become several rows by here."""
        if node.inputs[port].exchange == "broadcast":
            return _all_rows(f"{_place(node)} has them broadcast to all instances")
        if isinstance(node.spec, SinkSpec):
            return _of_query(node.name, node.spec)
        sampling = _sampling(node)
        if sampling is Sampling.ALL_ROWS:
            return _all_rows(self._why_whole(node, port))
        if sampling is Sampling.ESTIMATED and spread:
            return _all_rows(f"a record may be several rows of {_place(node)}, which are no independent sample")
        spread = spread or sampling is Sampling.SPREAD or sum(map(self._is_below, node.inputs)) > 1
        results = {MAIN} if sampling is Sampling.ESTIMATED else set()
        return frozenset[_Demand]().union(
            *(self._of_output(node, output, spread=spread and output not in results) for output in node.outputs)
        )

    def _is_below(self, edge: Input) -> bool:
        return edge.operator in self._below


def may_be_sampled(graph: JobGraph, node: OperatorNode, port: int) -> bool:
    """Return whether an operator may drop rows of an input by its keys, if its results may be a sample of keys."""
    if not descriptor_of(node.spec).samples_keys(node.spec, port) or not brings_rows(node.inputs[port]):
        return False
    schemas = [graph[edge.operator].outputs[edge.output] for edge in node.inputs]
    return not any(edge.exchange == "broadcast" for edge in node.inputs) and not any(s.changelog for s in schemas)


def carries_buckets(node: OperatorNode) -> bool:
    """Return whether rows that an operator makes can say on which of them are of one key (`BUCKET`)."""
    return len(node.inputs) == 1 and descriptor_of(node.spec).with_hidden(node.spec, ()) is not None


def brings_rows(edge: Input) -> bool:
    """Return whether what comes in are rows as their producer made them, neither rejected nor late nor copied."""
    return edge.output not in (DEAD_LETTER, LATE, LATE_RIGHT) and edge.exchange != "broadcast"


def _is_by_row(node: OperatorNode) -> bool:
    """Return whether each row of an operator's result is made of one row of its input."""
    return _sampling(node) in (Sampling.CARRIED, Sampling.PASSED, Sampling.SPREAD)


def branch_above(graph: JobGraph, operator: OperatorId) -> OperatorId:
    """Return an operator of a plan, or what stands above it if it is there for branches alone."""
    while isinstance(graph[operator].spec, BranchSpec):
        operator = graph[operator].inputs[0].operator
    return operator


def _of_query(name: str, spec: SinkSpec) -> _Demands:
    if not spec.under_contract:
        return frozenset({_Demand(1.0, need=f"query {name!r} has no minimum accuracy below 1")})
    return frozenset({_Demand(spec.min_accuracy, spec.priority, spec.max_lag_us)})


def _all_rows(need: str) -> _Demands:
    return frozenset({_Demand(1.0, need=need)})


def _minimum(demands: _Demands) -> float:
    return max((demand.minimum for demand in demands), default=1.0)


def _contract(demands: _Demands) -> _Demands:
    """Return what tells two contracts apart: nothing does where all rows are needed, whatever for."""
    return frozenset() if _minimum(demands) >= 1.0 else demands


def _excluded(spec: SourceSpec, bounded: bool) -> str:
    """Return why a source is left whole whatever reads it."""
    if not spec.shed:
        return "it was read with shed=False"
    if spec.source.bounded and not bounded:
        return "it ends by itself, so what comes late is not lost"
    return ""


def _whole(demands: _Demands, minimum: float, parts: bool) -> str:
    """Return why what reads a source needs all of its rows."""
    if minimum < 1.0 or parts:
        return ""
    needs = sorted(demand.need for demand in demands if demand.need)
    if all(demand.minimum >= 1.0 for demand in demands):
        return needs[0] if needs else "nothing reads it"
    return f"{needs[0]}, and the others do not part from it where rows can still be told apart"


def _sampling(node: OperatorNode) -> Sampling:
    return descriptor_of(node.spec).sampling(node.spec)


def _verb(node: OperatorNode) -> str:
    return descriptor_of(node.spec).verb


def _place(node: OperatorNode) -> str:
    return f"{node.name!r} at {node.where}" if node.where else repr(node.name)
