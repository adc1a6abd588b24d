"""The output schemas of an operator, given its inputs: its descriptor's answer, and its dead letters.

The DSL calls it when the user adds an operator, the optimiser after it has pruned columns.
"""

from collections.abc import Mapping, Sequence

from penstock.engine.operators.registry import descriptor_of
from penstock.model.dead_letters import DEAD_LETTER, LETTER_FIELDS
from penstock.model.errors import PlanError
from penstock.model.job_graph import OperatorSpec, SourceSpec
from penstock.model.schema import StreamSchema, TimeColumn


def output_schemas(
    spec: OperatorSpec, inputs: Sequence[StreamSchema], name: str, source_time: TimeColumn | None = None
) -> Mapping[str, StreamSchema]:
    """Return the schema of every output of an operator.

    Raises:
        PlanError: the spec does not fit its inputs; the message names the operator ``name``.
    """
    descriptor = descriptor_of(spec)
    if isinstance(spec, SourceSpec):
        inputs = [StreamSchema(spec.source.schema, source_time)]
    outputs = descriptor.outputs(spec, inputs, name)
    if not descriptor.has_dead_letters:
        return outputs
    if DEAD_LETTER in outputs:
        raise PlanError(
            f"{name!r} has an output of the name {DEAD_LETTER!r}, which is where the records go that it cannot "
            "process; name yours otherwise"
        )
    return {**outputs, DEAD_LETTER: StreamSchema(LETTER_FIELDS)}
