"""The descriptor of aggregates over the rows before a row; two operators carry them out."""

from collections.abc import Mapping, Sequence

from penstock.engine.core.contract import LATE, MAIN, Operator
from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.descriptions import Words, aggregate_text, columns_text, count_text, order_text
from penstock.engine.operators.descriptor import KeyedDescriptor, PlanContext, StateLayout
from penstock.engine.operators.over.input import seen_expressions
from penstock.engine.operators.over.over import Over
from penstock.engine.operators.over.schema import plan_over
from penstock.engine.operators.over.updates import UpdatingOver
from penstock.engine.operators.state_descriptions import (
    aggregate_meanings,
    aggregate_words,
    expression_words,
    order_words,
)
from penstock.model.job_graph import OperatorNode
from penstock.model.keyed_specs import OverSpec
from penstock.model.schema import StreamSchema
from penstock.state.checkpoints.operator_meaning import AggregateMeaning, OperatorMeaning


class OverDescriptor(KeyedDescriptor[OverSpec]):
    """Every row gets aggregates over the rows of its key before it; what is kept are totals, frames or whole rows."""

    spec = OverSpec
    verb = "over"

    def outputs(self, spec: OverSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the input's columns and the aggregates; see `plan_over`."""
        return {MAIN: plan_over(spec, inputs[0], name).output, LATE: inputs[0]}

    def make(self, spec: OverSpec, inputs: Sequence[StreamSchema], name: str) -> Operator:
        """Return a fresh operator."""
        return UpdatingOver(spec, inputs[0], name) if _corrected(spec, inputs[0]) else Over(spec, inputs[0], name)

    def meaning(self, spec: OverSpec, context: PlanContext) -> OperatorMeaning:
        """Return frame and order, and what is kept of each row."""
        aggregates = _aggregates(spec, context.inputs[0], context.name)
        values = _frame_values(spec, context.inputs[0])
        return self.keyed_meaning(spec, context, aggregates=aggregates, values=values)

    def traits(self, spec: OverSpec, context: PlanContext) -> dict[str, str]:
        """Return frame and order."""
        frame = "all rows so far" if spec.rows is None else f"the last {spec.rows}"
        return {"frame": frame, "order": order_words(spec.order) or "event time"}

    def state_layout(self, spec: OverSpec, meaning: OperatorMeaning, schema: StreamSchema, name: str) -> StateLayout:
        """Return the running totals, if there are any, and what frames keep of a row."""
        plan = plan_over(spec, schema, name)
        has_totals = any(item.table is not None for item in meaning.aggregates)
        both = {"totals": plan.small, "multisets": plan.large} if has_totals else {}
        return StateLayout(both, tuple(infer_type(item, schema.fields, name) for item in seen_expressions(spec)))

    def words(self, spec: OverSpec, node: OperatorNode) -> Words:
        """Say over which rows, of which keys, in which order, and what is computed."""
        frame = "all rows so far" if spec.rows is None else f"the last {count_text(spec.rows, 'row')}"
        order = (("order", order_text(spec.order)),) if spec.order else ()
        calls = tuple((name, aggregate_text(call)) for name, call in spec.aggregates)
        return Words(f"over {frame} of {columns_text(spec.keys) or 'all rows'}", (*order, *calls))


OVER = OverDescriptor()


def _corrected(spec: OverSpec, schema: StreamSchema) -> bool:
    """Return whether rows may come between others, so that whole rows are kept."""
    return schema.changelog or bool(spec.order)


def _aggregates(spec: OverSpec, schema: StreamSchema, name: str) -> tuple[AggregateMeaning, ...]:
    """Return the aggregates and where running totals are kept; the others are computed from the rows of the frame."""
    if spec.rows is not None or _corrected(spec, schema):
        return tuple(AggregateMeaning(name=column, means=aggregate_words(call)) for column, call in spec.aggregates)
    plan = plan_over(spec, schema, name)
    small = aggregate_meanings(plan.small, [spec.aggregates[place] for place in plan.small_calls], "totals")
    return small + aggregate_meanings(plan.large, [spec.aggregates[place] for place in plan.large_calls], "multisets")


def _frame_values(spec: OverSpec, schema: StreamSchema) -> tuple[str, ...]:
    """Return what frames keep of each row, in order; nothing if they keep whole rows, or totals."""
    if spec.rows is None or _corrected(spec, schema):
        return ()
    return tuple(map(expression_words, seen_expressions(spec)))
