"""Arrow's several layouts of one logical type, made plain. Called wherever columns enter or are shown."""

import pyarrow as pa

from penstock.model.schema import normal_type


def plain_layout(column: pa.Array) -> pa.Array:
    """Return the column in `normal_type` of its own type: no large or view types, no dictionaries, no extensions.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: the column has more text than a plain one can hold, or nests
            layouts that pyarrow does not convert.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        return plain_layout(column.dictionary).take(column.indices)
    kind = normal_type(column.type)
    return column if column.type == kind else column.cast(kind)
