"""From an operator's spec to its implementation."""

from collections.abc import Sequence

from penstock.engine.operators.batch_function import BatchFunction
from penstock.engine.operators.contract import Operator
from penstock.engine.operators.count_window import CountWindowAggregate
from penstock.engine.operators.group_aggregate import GroupAggregate
from penstock.engine.operators.join import InnerJoin
from penstock.engine.operators.reduce import Reduce
from penstock.engine.operators.row_function import RowFunction
from penstock.engine.operators.select import Filter, Pass, Project, Split
from penstock.engine.operators.session_aggregate import SessionAggregate
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.operators.window_aggregate import WindowAggregate
from penstock.engine.operators.window_join import WindowJoin
from penstock.model.job_graph import (
    AggregateSpec,
    BatchFunctionSpec,
    FilterSpec,
    JoinSpec,
    OperatorSpec,
    ProjectSpec,
    ReduceSpec,
    RowFunctionSpec,
    SinkSpec,
    SourceSpec,
    SplitSpec,
    UnionSpec,
)
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
            join = InnerJoin if spec.windowing is None else WindowJoin
            return join(spec, inputs[0], inputs[1], name)
        case SinkSpec():
            return SinkOperator(spec, inputs[0], name)
        case UnionSpec() | SourceSpec():
            return Pass()


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
