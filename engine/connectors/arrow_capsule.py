"""Anything with the Arrow PyCapsule interface as record batches in normal types.

Called by the memory and iterable sources.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.normalise import to_schema
from penstock.model.schema import normal_field


def is_arrow(value: object) -> bool:
    """Return whether a value is rows in Arrow's C interface: a batch, a table, a stream or what can become one."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")


def batches_of(value: Any, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a value for which `is_arrow` holds, in ``schema`` or in the normal types of its own.

    Raises:
        SchemaError: the rows do not fit ``schema``.
    """
    for batch in _raw_batches(value):
        yield to_schema(batch, schema if schema is not None else normal_schema(batch.schema))


def arrow_schema(value: Any) -> pa.Schema:
    """Return the schema of a value for which `is_arrow` holds, in normal types; streams are not consumed."""
    if isinstance(value, pa.RecordBatch | pa.Table | pa.RecordBatchReader):
        return normal_schema(value.schema)
    if hasattr(value, "__arrow_c_schema__"):
        return normal_schema(pa.schema(value))
    return normal_schema(pa.table(value).schema)


def normal_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in normal types."""
    return pa.schema([normal_field(field) for field in schema])


def _raw_batches(value: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(value, pa.RecordBatch):
        yield value
    elif isinstance(value, pa.Table | pa.RecordBatchReader):
        yield from value.to_batches() if isinstance(value, pa.Table) else value
    elif hasattr(value, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(value)
    else:
        yield pa.record_batch(value)
