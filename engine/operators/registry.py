"""From an operator's spec to its implementation."""

from collections.abc import Sequence

from penstock.engine.core.contract import Operator
from penstock.engine.operators.aggregates.count_window import CountWindowAggregate
from penstock.engine.operators.aggregates.group_aggregate import GroupAggregate
from penstock.engine.operators.aggregates.reduce import Reduce
from penstock.engine.operators.aggregates.session_aggregate import SessionAggregate
from penstock.engine.operators.aggregates.window_aggregate import WindowAggregate
from penstock.engine.operators.event_time_column import EventTimeColumn
from penstock.engine.operators.functions.async_function import AsyncFunction
from penstock.engine.operators.functions.batch_function import BatchFunction
from penstock.engine.operators.functions.row_function import RowFunction
from penstock.engine.operators.joins.asof_join import AsOfJoin
from penstock.engine.operators.joins.incremental_join import IncrementalJoin
from penstock.engine.operators.joins.inner_join import InnerJoin
from penstock.engine.operators.joins.interval_join import IntervalJoin
from penstock.engine.operators.joins.lookup import Lookup
from penstock.engine.operators.joins.one_join import OneJoin
from penstock.engine.operators.joins.window_join import WindowJoin
from penstock.engine.operators.over.over import Over
from penstock.engine.operators.over.updates import UpdatingOver
from penstock.engine.operators.process.process import Process
from penstock.engine.operators.ranking.first import First
from penstock.engine.operators.ranking.top import Top
from penstock.engine.operators.select import Filter, Pass, Project, Split
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.operators.union import Union
from penstock.model.job_graph import (
    AggregateSpec,
    AsyncFunctionSpec,
    BatchFunctionSpec,
    FilterSpec,
    OperatorSpec,
    ProjectSpec,
    ReduceSpec,
    RowFunctionSpec,
    SinkSpec,
    SourceSpec,
    SplitSpec,
    TimeSpec,
    UnionSpec,
)
from penstock.model.join_specs import AsOfJoinSpec, IntervalJoinSpec, JoinSpec, LookupSpec
from penstock.model.keyed_specs import FirstSpec, OverSpec, ProcessSpec, TopSpec
from penstock.model.schema import StreamSchema
from penstock.model.windows import Count, Session


def make_operator(spec: OperatorSpec, inputs: Sequence[StreamSchema], name: str) -> Operator:
    """Return a fresh operator; what can be checked before rows flow is checked here.

    Raises:
        PlanError: the spec does not fit its inputs.
    """
    match spec:
        case FilterSpec():
            return Filter(spec, inputs[0], name)
        case ProjectSpec():
            return Project(spec, inputs[0], name)
        case SplitSpec():
            return Split(spec, inputs[0], name)
        case RowFunctionSpec():
            return RowFunction(spec, inputs[0], name)
        case BatchFunctionSpec():
            return BatchFunction(spec, inputs[0], name)
        case AggregateSpec():
            return _aggregate(spec, inputs[0], name)
        case ReduceSpec():
            return Reduce(spec, inputs[0], name)
        case JoinSpec():
            return _join(spec, inputs[0], inputs[1], name)
        case IntervalJoinSpec():
            return IntervalJoin(spec, inputs[0], inputs[1], name)
        case AsOfJoinSpec():
            return AsOfJoin(spec, inputs[0], inputs[1], name)
        case LookupSpec():
            return Lookup(spec, inputs[0], name)
        case TopSpec():
            return Top(spec, inputs[0], name)
        case FirstSpec():
            return First(spec, inputs[0], name)
        case OverSpec():
            corrected = inputs[0].changelog or spec.order
            return UpdatingOver(spec, inputs[0], name) if corrected else Over(spec, inputs[0], name)
        case ProcessSpec():
            return Process(spec, inputs[0], name)
        case AsyncFunctionSpec():
            return AsyncFunction(spec, inputs[0], name)
        case TimeSpec():
            return EventTimeColumn(spec, inputs[0], name)
        case SinkSpec():
            return SinkOperator(spec, inputs[0], name)
        case UnionSpec():
            return Union(inputs, name)
        case SourceSpec():
            return Pass()


def _join(spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> Operator:
    if spec.windowing is not None:
        return WindowJoin(spec, left, right, name)
    if spec.one_side is not None:
        return OneJoin(spec, left, right, name)
    if spec.how == "inner" and not left.changelog and not right.changelog:
        return InnerJoin(spec, left, right, name)
    return IncrementalJoin(spec, left, right, name)


def _aggregate(spec: AggregateSpec, schema: StreamSchema, name: str) -> Operator:
    if spec.windowing is None:
        return GroupAggregate(spec, schema, name)
    if isinstance(spec.windowing.window, Session):
        return SessionAggregate(spec, schema, name)
    if isinstance(spec.windowing.window, Count):
        return CountWindowAggregate(spec, schema, name)
    if spec.windowing.emission.mode == "updates":
        return GroupAggregate(spec, schema, name)
    return WindowAggregate(spec, schema, name)
