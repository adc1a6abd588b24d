"""The columns that a sink writes of its rows: those of the user's, and behind them how good they are. From the plan."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.operators.registry import descriptor_of
from penstock.engine.operators.sink_columns import SinkColumns
from penstock.engine.plan.estimates import with_estimates
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec
from penstock.model.result_columns import low_of
from penstock.model.schema import StreamSchema

ACCURACY, BIASED = "accuracy", "biased"


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """``schema`` has all columns, ``users`` are the names of the user's own, ``intervals`` of those with an interval.

    ``quality``: it has `ACCURACY` and `BIASED`, and low, high and certified of each interval. ``chosen``: operators on
    the way decide by estimates which rows there are.
    """

    schema: StreamSchema
    users: tuple[str, ...]
    intervals: tuple[str, ...] = ()
    quality: bool = False
    chosen: bool = False


def written_columns(graph: JobGraph, sink: OperatorNode) -> WrittenColumns:
    """Return what a sink of a user's graph writes, before its mode adds fields."""
    edge = sink.inputs[0]
    schema = graph[edge.operator].outputs[edge.output]
    users = tuple(schema.fields.names)
    spec = sink.spec
    assert isinstance(spec, SinkSpec)
    if not spec.shows_quality:
        return WrittenColumns(schema, users)
    planned = with_estimates(graph)
    edge = planned[sink.id].inputs[0]
    columns = SinkColumns(planned[edge.operator].outputs[edge.output], nullable=spec.leaves_out_wide)
    chosen = any(_decides_by_estimates(planned, node) for node in planned.upstream([sink.id]).values())
    return WrittenColumns(columns.schema, users, columns.intervals, quality=True, chosen=chosen)


def _decides_by_estimates(planned: JobGraph, node: OperatorNode) -> bool:
    """Return whether an operator decides by a column with an interval which rows go on."""
    for edge in node.inputs:
        names = planned[edge.operator].outputs[edge.output].fields.names
        if any(low_of(name) in names for name in descriptor_of(node.spec).decides_by(node.spec, tuple(names))):
            return True
    return False
