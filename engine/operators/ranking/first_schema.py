"""The plan and output schema of a deduplication, checked when the pipeline is built."""

from penstock.engine.core.event_time import time_type
from penstock.engine.expressions.compiler import infer_type
from penstock.model.errors import PlanError
from penstock.model.keyed_specs import FirstSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.batch_keys import KeyCodec


def first_output(spec: FirstSpec, schema: StreamSchema, name: str) -> StreamSchema:
    """Return the schema of the output: the input's, event time included.

    Raises:
        PlanError: the input is updating, a key cannot be one, the order is event time's and there is none, or the ttl
            is negative.
    """
    if schema.changelog:
        raise PlanError(
            f"{name!r} passes first rows on for good, but its input is updating and may take them back; "
            'use top(1, ...) or deduplicate(keep="last")'
        )
    KeyCodec([infer_type(key, schema.fields, name) for _, key in spec.keys])
    if not spec.by_arrival:
        time_type(schema, name)
    if spec.ttl_us is not None and spec.ttl_us < 0:
        raise PlanError(f"{name!r} has a negative ttl; a key can only be forgotten after its row")
    return schema
