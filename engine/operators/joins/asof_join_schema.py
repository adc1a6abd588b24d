"""The plan and output schema of an as-of join, checked when the pipeline is built."""

from penstock.engine.operators.joins.join_schema import key_types
from penstock.engine.operators.joins.timed_join_schema import check_inputs, joined_fields, time_of_side
from penstock.model.join_specs import AsOfJoinSpec
from penstock.model.schema import StreamSchema

_VERB = "as-of join"


def asof_join_output(spec: AsOfJoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> StreamSchema:
    """Return the schema of the output, append-only; its event time is the left's, if that column is put out.

    Raises:
        PlanError: an input is a changelog or has no event time, keys do not fit, or an output column does not exist.
    """
    check_inputs(_VERB, left, right, name)
    key_types(spec, left, right, name)
    nullable = () if spec.how == "inner" else (1,)
    fields = joined_fields(_VERB, spec.output, left, right, nullable, name)
    return StreamSchema(fields, time_of_side(spec.output, 0, left))
