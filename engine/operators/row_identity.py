"""Whole rows as keys: which rows of a changelog are equal, whatever the types and the number of their columns.

The incremental join finds the row that a retraction takes back by it.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.engine.operators.ordered_rows import list_elements
from penstock.state.kernels.byte_strings import copy_segments
from penstock.state.keys.arrays import Bytes, Ints, read_only
from penstock.state.keys.batch_keys import MAX_KEY_COLUMNS, KeyBatch, KeyCodec


class RowCodec:
    """Encodes rows such that equal rows, and only those, have equal keys; NaN equals itself and null equals null.

    Columns that cannot be keys themselves, and those for which a key has no room, are written as bytes into one.

    Raises:
        PlanError: values of a column's type cannot be compared.
    """

    def __init__(self, fields: pa.Schema) -> None:
        kinds = [part for field in fields for part in _part_types(field.type)]
        self._direct = len(kinds) if len(kinds) <= MAX_KEY_COLUMNS else MAX_KEY_COLUMNS - 1
        _codecs(kinds[self._direct :])
        self._packed = kinds[self._direct :]
        self._codec = KeyCodec([*kinds[: self._direct], *([pa.large_binary()] if self._packed else [])])

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the keys that `encode` returns."""
        return self._codec.types

    def encode(self, rows: pa.RecordBatch) -> KeyBatch:
        """Return the key of every row."""
        parts = [part for column in rows.columns for part in _parts(column)]
        if self._packed:
            parts = [*parts[: self._direct], _packed(parts[self._direct :], rows.num_rows)]
        return self._codec.encode(parts, rows.num_rows)


def _part_types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of the columns that `_parts` makes of a column."""
    if pt.is_null(kind):
        return []
    if pt.is_struct(kind):
        return [pa.bool_(), *(part for index in range(kind.num_fields) for part in _part_types(kind.field(index).type))]
    if _is_list(kind):
        _codecs(_part_types(_elements(kind)))
        return [pa.large_binary()]
    return [_raw_type(kind) or kind]


def _parts(column: pa.Array) -> list[pa.Array]:
    """Return columns that can be keys and that are equal where, and only where, this one is."""
    kind = column.type
    if pt.is_null(kind):
        return []
    if pt.is_struct(kind):
        # `flatten` hands the struct's own nulls down to its fields.
        return [column.is_valid(), *(part for child in column.flatten() for part in _parts(child))]
    if _is_list(kind):
        return [_packed_lists(column)]
    raw = _raw_type(kind)
    if raw is not None:
        return [pa.Array.from_buffers(raw, len(column), column.buffers(), column.null_count, column.offset)]
    return [column]


def _raw_type(kind: pa.DataType) -> pa.DataType | None:
    """Return what values are compared as that keys do not know but whose bytes say whether they are equal."""
    return pa.binary(kind.bit_width // 8) if pt.is_interval(kind) or pt.is_decimal256(kind) else None


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind) or pt.is_map(kind))


def _elements(kind: pa.DataType) -> pa.DataType:
    return pa.struct([kind.key_field, kind.item_field]) if pt.is_map(kind) else kind.value_type


def _packed_lists(column: pa.Array) -> pa.Array:
    """Write each list as the bytes of its elements, one behind the other."""
    elements, lengths = list_elements(column)
    packed = _packed(_parts(elements), len(elements))
    bounds = np.append(0, np.cumsum(lengths)).astype(np.int64)
    offsets = np.frombuffer(packed.buffers()[1], np.int64)[bounds]
    whole = pa.Array.from_buffers(pa.large_binary(), len(column), [None, pa.py_buffer(offsets), packed.buffers()[2]])
    return pc.if_else(column.is_valid(), whole, None) if column.null_count else whole


def _packed(parts: Sequence[pa.Array], rows: int) -> pa.Array:
    """Write columns that can be keys as one of bytes, each row's telling where it ends."""
    keys = [
        codec.encode(parts[start : start + MAX_KEY_COLUMNS], rows)
        for start, codec in zip(
            range(0, len(parts), MAX_KEY_COLUMNS), _codecs([part.type for part in parts]), strict=True
        )
    ]
    heads = [_head(key) for key in keys] or [np.zeros((rows, 1), np.int64)]
    lengths = np.zeros(rows, np.int64)
    for head in heads:
        lengths += 8 * head.shape[1] + head[:, 0]
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    data = np.empty(offsets[-1], np.uint8)
    cursor = offsets[:-1].copy()
    for index, head in enumerate(heads):
        width = np.full(rows, 8 * head.shape[1])
        _copy(head.view(np.uint8).reshape(-1), np.arange(rows) * 8 * head.shape[1], width, data, cursor)
        if keys and keys[index].data is not None:
            texts = keys[index].arrays()
            _copy(texts.data, texts.offsets[:-1], head[:, 0], data, cursor)
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _head(keys: KeyBatch) -> Ints:
    """Return what a row's bytes begin with: the length of its text, which columns are null, its words."""
    nulls = np.zeros(len(keys), np.int64) if keys.nulls is None else keys.nulls.astype(np.int64)
    texts = np.zeros(len(keys), np.int64) if keys.offsets is None else np.diff(keys.offsets)
    return np.column_stack([texts, nulls, keys.words])


def _copy(source: Bytes, starts: Ints, lengths: Ints, target: Bytes, cursor: Ints) -> None:
    """Copy a piece for each row to its cursor, and move that behind it."""
    copy_segments(
        read_only(source),
        read_only(starts.astype(np.int64)),
        read_only(lengths.astype(np.int64)),
        target,
        read_only(cursor),
    )
    cursor += lengths


def _codecs(kinds: Sequence[pa.DataType]) -> list[KeyCodec]:
    return [KeyCodec(kinds[start : start + MAX_KEY_COLUMNS]) for start in range(0, len(kinds), MAX_KEY_COLUMNS)]
