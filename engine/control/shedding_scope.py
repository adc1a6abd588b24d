"""What load shedding may do to a job: its shedders by name, the queries behind each, and limits that were changed.

Pure, of the plan: `engine.plan.shedding_points` says where rows may be shed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.engine.plan.branch_shedders import shed_branches
from penstock.engine.plan.key_samplers import sampled_edges
from penstock.engine.plan.shedding_points import SheddingPoints, shedding_points
from penstock.model.control import Limits
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, SinkSpec, SourceSpec
from penstock.model.keep_rates import Edge
from penstock.model.max_error import LEAST_KEEP, MaxError
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.error_control import ErrorGoal
from penstock.shedding.keep_settings import ShedderQueries


@dataclass(frozen=True, slots=True)
class SheddingScope:
    """The scope of load shedding: where rows may be shed, and the limits of the queries that they are shed for.

    ``declared`` (the minimum of its user), ``minimum`` and ``priority`` by query. A query none of whose rows may be
    shed has the minimum 1, whatever its user allows. ``source_tasks``: the task of each source that may be shed;
    ``max_lag_s`` by such a task. ``goals``: the errors that are wanted, by query, of those of which rows may be shed.
    """

    graph: ExecutionGraph
    points: SheddingPoints
    shedders: ShedderQueries
    declared: Mapping[str, float]
    minimum: Mapping[str, float]
    priority: Mapping[str, float]
    source_tasks: Mapping[str, str]
    max_lag_s: Mapping[str, float]
    goals: Mapping[str, ErrorGoal] = field(default_factory=dict)

    def with_limits(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return a snapshot of the job with the limits that hold now."""
        queries = snapshot.queries
        minimum = np.array([self.minimum[name] for name in queries.name], np.float64)
        priority = np.array([self.priority[name] for name in queries.name], np.float64)
        return replace(snapshot, queries=replace(queries, minimum_accuracy=minimum, priority=priority))


def shedding_scope(graph: ExecutionGraph, limits: Limits) -> SheddingScope:
    """Return the scope of a plan under limits.

    Raises:
        OptionError: they are of a query that there is not, or that has no contract; the message names those that have.
    """
    changed = _with_limits(graph.graph, limits)
    # Branches have shedders where queries parted as the job was planned.
    planned, points = shedding_points(graph.graph), shedding_points(changed)
    shed_at = shed_branches(graph.graph) | sampled_edges(graph.graph)
    points = SheddingPoints(
        {name: minimum for name, minimum in points.sources.items() if name in planned.sources},
        {edge: minimum for edge, minimum in points.branches.items() if edge in shed_at},
        points.reasons,
        points.keyed & shed_at,
    )
    origin = {edge: _source_above(changed, edge, points) for edge in points.branches}
    shed = {name: rate for name, rate in points.sources.items() if rate < 1.0 or name in origin.values()}
    points = replace(points, sources=shed)
    nodes = {node.name: node for node in changed.operators.values()}
    below = {name: _sinks_below(changed, node.id) for name, node in nodes.items()}
    sinks = {node.name: node.spec for node in changed.operators.values() if isinstance(node.spec, SinkSpec)}
    shedders = _shedders(points, origin, below, {name: float(spec.priority) for name, spec in sinks.items()})
    sheddable = {query for source in points.sources if points.sources[source] < 1.0 for query in below[source]}
    sheddable |= {query for queries in shedders.branches.values() for query in queries}
    source_tasks = {name: graph.name(graph.task_of(nodes[name].id)) for name in points.sources}
    max_lag_s: dict[str, float] = {}
    for source, task in source_tasks.items():
        bounds = [bound for query in below[source] if (bound := sinks[query].max_lag_us) is not None]
        if bounds:
            max_lag_s[task] = min(bounds) / 1e6
    return SheddingScope(
        graph,
        points,
        shedders,
        {name: spec.min_accuracy for name, spec in sinks.items()},
        {name: spec.min_accuracy if name in sheddable else 1.0 for name, spec in sinks.items()},
        {name: float(spec.priority) for name, spec in sinks.items()},
        source_tasks,
        max_lag_s,
        {name: _goal(spec, spec.max_error) for name, spec in sinks.items() if name in sheddable and spec.max_error},
    )


def _shedders(
    points: SheddingPoints,
    origin: Mapping[Edge, str],
    below: Mapping[str, tuple[str, ...]],
    priority: Mapping[str, float],
) -> ShedderQueries:
    """Return the shedders at some points; ``below``: the queries behind each operator."""
    rest_priority: dict[str, float] = {}
    for source in points.sources:
        parted = {query for edge, above in origin.items() if above == source for query in below[edge[1]]}
        if rest := set(below[source]) - parted:
            rest_priority[source] = max(priority[query] for query in rest)
    return ShedderQueries(
        {source: below[source] for source in points.sources},
        {edge: below[edge[1]] for edge in points.branches},
        origin,
        points.sources,
        points.branches,
        rest_priority,
        {edge: max(priority[query] for query in below[edge[1]]) for edge in points.branches},
    )


def _goal(spec: SinkSpec, wanted: MaxError) -> ErrorGoal:
    return ErrorGoal(wanted.error, wanted.rows, spec.min_accuracy, spec.min_accuracy > LEAST_KEEP)


def check_limits(graph: ExecutionGraph, limits: Limits) -> None:
    """Refuse limits that a job cannot have.

    Raises:
        OptionError: they are of a query that there is not, or that has no contract; the message names those that have.
    """
    _with_limits(graph.graph, limits)


def _with_limits(graph: JobGraph, limits: Limits) -> JobGraph:
    sinks = {node.name: node for node in graph.operators.values() if isinstance(node.spec, SinkSpec)}
    contracts = sorted(name for name, node in sinks.items() if _spec(node.spec).under_contract)
    operators = dict(graph.operators)
    for name, limit in limits.queries.items():
        if name not in contracts:
            known = f"choose from {', '.join(map(repr, contracts))}" if contracts else "this job has none"
            raise OptionError(
                f"there is no query {name!r} with a minimum accuracy below 1 in its program, so that its results could "
                f"say how accurate they are; {known}"
            )
        node = sinks[name]
        spec = _spec(node.spec)
        wanted = _limited(name, spec.max_error, limit.max_error)
        spec = replace(
            spec,
            max_error=wanted,
            min_accuracy=spec.min_accuracy if limit.min_accuracy is None else limit.min_accuracy,
            priority=spec.priority if limit.priority is None else limit.priority,
        )
        operators[node.id] = replace(node, spec=spec)
    return JobGraph(operators)


def _limited(query: str, wanted: MaxError | None, error: float | None) -> MaxError | None:
    if error is None:
        return wanted
    if wanted is None:
        raise OptionError(f"query {query!r} has no with_max_error() in its program, so there is none to change")
    if wanted.otherwise != "keep":
        does = "leaves values out" if wanted.otherwise == "null" else "has rows corrected"
        raise OptionError(
            f"query {query!r} {does} that miss an error of {wanted.error:g} (otherwise={wanted.otherwise!r}), so that "
            "is changed in its program"
        )
    return replace(wanted, error=error)


def _spec(spec: object) -> SinkSpec:
    assert isinstance(spec, SinkSpec)
    return spec


def _sinks_below(graph: JobGraph, operator: OperatorId) -> tuple[str, ...]:
    """Return the names of the queries behind an operator, itself one or not."""
    reached, pending = {operator}, [operator]
    while pending:
        for consumer, _ in graph.consumers(pending.pop()):
            if consumer.id not in reached:
                reached.add(consumer.id)
                pending.append(consumer.id)
    return tuple(
        node.name for node in graph.operators.values() if node.id in reached and isinstance(node.spec, SinkSpec)
    )


def _source_above(graph: JobGraph, edge: Edge, points: SheddingPoints) -> str:
    """Return the source behind which an edge lies; there is one, as branches lie in trees."""
    pending = [node for node in graph.operators.values() if node.name == edge[0]]
    while pending:
        node = pending.pop()
        if isinstance(node.spec, SourceSpec) and node.name in points.sources:
            return node.name
        pending += [graph[each.operator] for each in node.inputs]
    raise AssertionError(f"no source above {edge}")
