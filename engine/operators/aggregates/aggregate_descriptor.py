"""The descriptor of aggregates by key and window; several operators carry them out."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from penstock.engine.core.contract import LATE, MAIN, Operator
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.engine.operators.aggregates.count_window import CountWindowAggregate
from penstock.engine.operators.aggregates.estimate_schema import has_interval, samples_keys
from penstock.engine.operators.aggregates.group_aggregate import GroupAggregate
from penstock.engine.operators.aggregates.sampled_sessions import SampledSessions
from penstock.engine.operators.aggregates.session_aggregate import SessionAggregate
from penstock.engine.operators.aggregates.window_aggregate import WindowAggregate
from penstock.engine.operators.descriptions import Words, aggregate_text, group_text, window_details
from penstock.engine.operators.descriptor import (
    Columns,
    KeyedDescriptor,
    KeyExpressions,
    Partitioning,
    PlanContext,
    Sampling,
    StateLayout,
    Wanted,
    columns_used,
    key_places,
    time_column,
)
from penstock.engine.operators.state_descriptions import aggregate_meanings, key_words, window_traits
from penstock.model.expressions import columns_of
from penstock.model.job_graph import AggregateSpec, OperatorNode
from penstock.model.result_columns import QUALITY, SAMPLE
from penstock.model.schema import StreamSchema
from penstock.model.windows import Count, Session
from penstock.state.checkpoints.operator_meaning import OperatorMeaning


class AggregateDescriptor(KeyedDescriptor[AggregateSpec]):
    """Rows of a key and window become one row; what is kept are accumulators."""

    spec = AggregateSpec
    verb = "agg"
    partitioning = Partitioning.BY_SOME_KEYS
    estimates = True

    def outputs(self, spec: AggregateSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the schema of the results; see `plan_aggregate`."""
        return {MAIN: plan_aggregate(spec, inputs[0], name).output, LATE: inputs[0]}

    def make(self, spec: AggregateSpec, inputs: Sequence[StreamSchema], name: str) -> Operator:
        """Return a fresh operator; `_table` says where it keeps its accumulators."""
        schema = inputs[0]
        if spec.windowing is None:
            return GroupAggregate(spec, schema, name)
        if isinstance(spec.windowing.window, Session):
            kind = SessionAggregate if spec.sampler is None else SampledSessions
            return kind(spec, schema, name)
        if isinstance(spec.windowing.window, Count):
            return CountWindowAggregate(spec, schema, name)
        if spec.windowing.emission.mode == "updates":
            return GroupAggregate(spec, schema, name)
        return WindowAggregate(spec, schema, name)

    def needed(self, spec: AggregateSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return keys, inputs, filters and event time.

        Late rows are whole rows, and windows of a number of rows put these in order by all of their columns.
        """
        counts_rows = spec.windowing is not None and isinstance(spec.windowing.window, Count)
        if LATE in wanted or counts_rows:
            return super().needed(spec, inputs, wanted)
        names = columns_used(expression for _, expression in spec.keys) | time_column(inputs[0])
        for _, call in spec.aggregates:
            names |= columns_used(call.inputs)
            if call.where is not None:
                names |= columns_of(call.where)
        if spec.estimates:
            names |= frozenset((*QUALITY, *SAMPLE)) & frozenset(inputs[0].fields.names)
        return [names]

    def partitioned_by(self, spec: AggregateSpec, placed: Sequence[KeyExpressions]) -> Columns | None:
        """Return the columns of the keys by which rows lie: the result has them by their names."""
        return tuple(spec.keys[at][0] for at in key_places(self.keys(spec, 0), placed[0])) or None

    def meaning(self, spec: AggregateSpec, context: PlanContext) -> OperatorMeaning:
        """Return by which keys and windows rows are grouped, and what accumulators hold."""
        aggregation = plan_aggregate(spec, context.inputs[0], context.name).aggregation
        aggregates = aggregate_meanings(aggregation, spec.aggregates, _table(spec))
        return self.keyed_meaning(spec, context, aggregates=aggregates, estimates=spec.estimates)

    def traits(self, spec: AggregateSpec, context: PlanContext) -> dict[str, str]:
        """Return by which windows rows are grouped, and by which keys they lie."""
        return window_traits(spec.windowing) | {"rows lie by": key_words(context.placed[0])}

    def state_layout(
        self, spec: AggregateSpec, meaning: OperatorMeaning, schema: StreamSchema, name: str
    ) -> StateLayout:
        """Return the accumulators, which are in every table alike."""
        return StateLayout({_table(spec): plan_aggregate(spec, schema, name).aggregation})

    def with_hidden(self, spec: AggregateSpec, names: Columns) -> AggregateSpec:
        """Return the spec whose results say themselves how good they are."""
        return replace(spec, estimates=True)

    def with_confidence(self, spec: AggregateSpec, confidence: float) -> AggregateSpec:
        """Return the spec with intervals at this confidence."""
        return replace(spec, confidence=confidence)

    def without_interval(self, spec: AggregateSpec) -> Sequence[tuple[str, str]]:
        """Return the aggregates that have none, with what they are."""
        window = f" over {spec.windowing.window}" if spec.windowing is not None else ""
        return [(name, f"{call.function}{window}") for name, call in spec.aggregates if not has_interval(spec, call)]

    def has_interval(self, spec: AggregateSpec) -> bool:
        """Return whether one of its aggregates has an interval."""
        return any(has_interval(spec, call) for _, call in spec.aggregates)

    def sampling(self, spec: AggregateSpec) -> Sampling:
        """Return that results of a sample are estimates, or biased and say so.

        Not where a dropped row tears a window apart, nor where only the user knows what the result means.
        """
        torn = spec.windowing is not None and isinstance(spec.windowing.window, Session | Count)
        by_user = any(call.user is not None for _, call in spec.aggregates)
        return Sampling.ALL_ROWS if torn or by_user else Sampling.ESTIMATED

    def samples_keys(self, spec: AggregateSpec, port: int) -> bool:
        """Return whether there are sessions by key, whose results leave once and are dated by their rows."""
        return samples_keys(spec)

    def with_sampler(self, spec: AggregateSpec, port: int, number: int) -> AggregateSpec:
        """Return the spec with the number."""
        return replace(spec, sampler=number)

    def sampler(self, spec: AggregateSpec, port: int) -> int | None:
        """Return the number."""
        return spec.sampler

    def words(self, spec: AggregateSpec, node: OperatorNode) -> Words:
        """Say by which keys and windows, and what is computed."""
        calls = tuple((name, aggregate_text(call)) for name, call in spec.aggregates)
        return Words(group_text(spec.keys), (*window_details(spec.windowing, spec.emission), *calls))


AGGREGATE = AggregateDescriptor()


def _table(spec: AggregateSpec) -> str:
    """Return the table that holds the accumulators."""
    windowing = spec.windowing
    if windowing is None:
        return "groups"
    if isinstance(windowing.window, Session):
        return "sessions"
    return "groups" if windowing.emission.mode == "updates" and not isinstance(windowing.window, Count) else "windows"
