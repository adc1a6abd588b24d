"""The output schema of a lookup, checked when the pipeline is built."""

import pyarrow as pa

from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.joins.join_schema import common_key_type, joined_fields
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.join_specs import LookupSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.batch_keys import KeyCodec


def lookup_output(spec: LookupSpec, schema: StreamSchema, name: str) -> StreamSchema:
    """Return the schema of the output; event time is the input's, if it is among the columns.

    Raises:
        PlanError: the input is a changelog, or keys do not fit.
    """
    if schema.changelog:
        raise PlanError(
            f"{name!r} looks up rows of an updating stream, whose retractions might find another table; "
            "look up before the aggregate, or use a final window"
        )
    lookup_key_types(spec, schema, name)
    fields = joined_fields("lookup", spec, (schema.fields, spec.table.schema), name)
    kept = schema.time is not None and (schema.time.name, 0, schema.time.name) in spec.output
    return StreamSchema(fields, schema.time if kept else None)


def lookup_key_types(spec: LookupSpec, schema: StreamSchema, name: str) -> tuple[pa.DataType, ...]:
    """Return the type in which each pair of keys is compared.

    Raises:
        PlanError: two keys cannot be equal.
    """
    types = tuple(
        common_key_type(
            infer_type(key, schema.fields, name), spec.table.schema.field(column).type, key, col(column), name
        )
        for key, column in zip(spec.left_keys, spec.right_keys, strict=True)
    )
    KeyCodec(types)
    return types
