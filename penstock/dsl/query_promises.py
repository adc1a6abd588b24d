"""What a file promises of queries (``[queries.NAME]`` of ``config=``), laid below what the program says of them.

The program wins: of what it has said by ``with_...``, nothing changes.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from penstock.dsl.arguments import check_accuracy, check_max_lag, check_priority
from penstock.model.errors import OptionError
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, SinkSpec
from penstock.model.max_error import LEAST_KEEP, MaxError
from penstock.runs.control_file import ControlFile

SaidOfQueries = Mapping[OperatorId, Collection[str]]
"""What a program says of the query behind each sink: names of ``[queries.NAME]``."""


def with_promises(graph: JobGraph, said: SaidOfQueries, file: ControlFile) -> JobGraph:
    """Return a graph in which queries are promised what a file says, where the program says nothing of that.

    Raises:
        OptionError: there is no such query, or it cannot be promised that; the message names the file and the query.
    """
    sinks = {node.name: node for node in graph.operators.values() if isinstance(node.spec, SinkSpec)}
    operators = dict(graph.operators)
    for query, promises in file.queries.items():
        if query not in sinks:
            known = f"choose from {', '.join(map(repr, sorted(sinks)))}" if sinks else "the program has no sink"
            raise OptionError(f"{file.path}: there is no query {query!r} for [queries.{query}]; {known}")
        node = sinks[query]
        left = {name: value for name, value in promises.items() if name not in said.get(node.id, ())}
        assert isinstance(node.spec, SinkSpec)
        try:
            operators[node.id] = replace(node, spec=_promised(node.spec, left, said.get(node.id, ())))
        except OptionError as error:
            raise OptionError(f"{file.path}: [queries.{query}]: {error}") from error
    return JobGraph(operators)


def _promised(spec: SinkSpec, promises: Mapping[str, Any], said: Collection[str]) -> SinkSpec:
    if "min_accuracy" in promises:
        spec = replace(spec, min_accuracy=check_accuracy(promises["min_accuracy"]))
    if "max_error" in promises:
        spec = replace(spec, max_error=MaxError(promises["max_error"]))
    if spec.max_error is not None and spec.min_accuracy == 1.0:
        if "min_accuracy" in promises or "min_accuracy" in said:
            raise OptionError("min_accuracy 1 forbids what max_error allows: leave out one of them")
        spec = replace(spec, min_accuracy=LEAST_KEEP)
    if "max_lag" in promises:
        spec = replace(spec, max_lag_us=check_max_lag(promises["max_lag"]))
    return replace(spec, priority=check_priority(promises.get("priority", spec.priority)))
