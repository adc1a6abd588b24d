"""Arrow's several layouts of one logical type, made plain. Called wherever columns enter or are shown."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.kernels.gather_text import gather_text
from penstock.model.schema import normal_type
from penstock.state.keys.arrays import read_only
from penstock.state.keys.text_arrays import read_text, write_text


def plain_layout(column: pa.Array) -> pa.Array:
    """Return the column in `normal_type` of its own type: no large or view types, no dictionaries, no extensions.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: the column has more text than a plain one can hold, or nests
            layouts that pyarrow does not convert.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        return _decoded(plain_layout(column.dictionary), column.indices)
    kind = normal_type(column.type)
    return column if column.type == kind else column.cast(kind)


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return batches of a schema, of which there may be none, as one."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def entry_lists(column: pa.Array) -> pa.Array:
    """Return maps as lists of their entries, structs of key and value; other columns as they are."""
    kind = column.type
    if not pa.types.is_map(kind):
        return column
    entries = pa.struct([kind.key_field, kind.item_field])
    return column.cast(pa.list_(pa.field("entries", entries, nullable=False)))


def _decoded(values: pa.Array, indices: pa.Array) -> pa.Array:
    """Return the values at these indices; text without nulls by a kernel, four times as fast as Arrow's take."""
    if not pa.types.is_string(values.type) or values.null_count or indices.null_count or not len(values):
        return values.take(indices)
    data, offsets = read_text(values)
    codes = indices.to_numpy().astype(np.int64, copy=False)
    starts, gathered = gather_text(read_only(codes), read_only(offsets), read_only(data))
    return write_text(values.type, gathered, starts, None)
