"""Arrow IPC messages: record batches, a stream or a file each. All rows of a message have its offset.

What a message claims is checked before it is read (`arrow_limits`), and what was read before it is used. Called by the
source and, for its encoder, by the sink.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.formats.arrow_limits import MOST_BYTES, MOST_ROWS, LimitError, check_stream
from penstock.engine.connectors.kafka.formats.contract import BatchEncoder, Decoded, HeadersOf, ValueDecoder, no_headers
from penstock.engine.connectors.text.layouts import one_batch
from penstock.model.errors import BadRecordError
from penstock.model.schema import normal_type

MOST_MESSAGE_BYTES = 256 << 20

_FILE = b"ARROW1\x00\x00"
_OPTIONS = pa.ipc.IpcReadOptions(ensure_native_endian=True, use_threads=False)


class ArrowValues(ValueDecoder):
    """Rows by the names of their columns: one that a message does not have is null, others are passed over.

    A column of another type is cast, if no value loses anything by it.
    """

    def __init__(self, schema: pa.Schema) -> None:
        """Take the columns to read."""
        self.schema = schema

    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        """Decode one by one; a message has the rows of all its batches, or none of them and an error."""
        batches: list[pa.RecordBatch] = []
        counts = np.zeros(len(values), np.int64)
        errors: list[tuple[int, str]] = []
        for index, value in enumerate(values):
            try:
                read = self._read(value)
            except (pa.ArrowException, ValueError, TypeError, KeyError, OSError, OverflowError, MemoryError) as error:
                errors.append((index, f"the Arrow message cannot be read: {error}"))
                continue
            batches += read
            counts[index] = sum(batch.num_rows for batch in read)
        rows = one_batch(batches, self.schema) if len(self.schema) else _no_columns(int(counts.sum()))
        return Decoded(rows, np.repeat(np.arange(len(values), dtype=np.int64), counts), errors)

    def restrict(self, columns: Sequence[str]) -> "ArrowValues":
        """Read only these."""
        return ArrowValues(pa.schema([self.schema.field(name) for name in columns]))

    def _read(self, value: bytes) -> list[pa.RecordBatch]:
        if len(value) > MOST_MESSAGE_BYTES:
            raise LimitError(f"it has {len(value):,} bytes; {MOST_MESSAGE_BYTES:,} are allowed")
        # A file is a stream between a magic word and a footer, which may tell anything.
        start = len(_FILE) if value[: len(_FILE)] == _FILE else 0
        if not value:
            raise LimitError("it is empty")
        check_stream(memoryview(value)[start:])
        with pa.ipc.open_stream(pa.py_buffer(value).slice(start), options=_OPTIONS) as reader:
            _check_names(reader.schema.names)
            return [self._fitted(batch) for batch in reader]

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows > MOST_ROWS:
            raise LimitError(f"it has {batch.num_rows:,} rows; {MOST_ROWS:,} are allowed")
        present = set(batch.schema.names)
        columns = [
            _column(batch.column(item.name), item) if item.name in present else pa.nulls(batch.num_rows, item.type)
            for item in self.schema
        ]
        if not columns:
            return _no_columns(batch.num_rows)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class ArrowEncoder(BatchEncoder):
    """Writes batches as streams, each as large as a message may be and not larger."""

    def encode_batches(self, rows: pa.RecordBatch, limit_bytes: int) -> Sequence[tuple[int, bytes]]:
        """Return messages, and how many rows each has.

        Raises:
            BadRecordError: one row is larger than a message may be.
        """
        messages: list[tuple[int, bytes]] = []
        pending = [rows] if rows.num_rows else []
        while pending:
            part = pending.pop()
            message = _stream(part)
            if len(message) <= limit_bytes:
                messages.append((part.num_rows, message))
            elif part.num_rows == 1:
                raise BadRecordError(f"one row makes an Arrow message of {len(message):,} bytes")
            else:
                middle = part.num_rows // 2
                pending += [part.slice(middle), part.slice(0, middle)]
        return messages


def _stream(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    message: bytes = sink.getvalue().to_pybytes()
    return message


def _column(column: pa.Array, wanted: pa.Field) -> pa.Array:
    """Return a column in the wanted type, checked: readers trust what columns say about themselves."""
    column.validate(full=True)
    if column.type == wanted.type:
        return column
    kind = column.type
    _check_layout(kind, wanted.name)
    if pa.types.is_dictionary(kind):
        _check_expanded(column.dictionary, column.indices, wanted.name)
        column = column.dictionary_decode()
    elif _is_view(kind):
        _check_length(int(_view_lengths(column).sum()), wanted.name)
    try:
        return column.cast(normal_type(column.type)).cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise LimitError(f"column {wanted.name!r} is {kind} and cannot be read as {wanted.type}: {error}") from None


def _check_layout(kind: pa.DataType, name: str, inside: bool = False) -> None:
    """Refuse layouts in which few bytes stand for many, except those that are measured first."""
    measured = not inside and (pa.types.is_dictionary(kind) or _is_view(kind))
    if pa.types.is_dictionary(kind):
        content = kind.value_type
        if not measured or pa.types.is_nested(content) or pa.types.is_dictionary(content):
            raise LimitError(f"column {name!r} has {kind}, which is not read: write plain values")
    elif not measured and (_is_view(kind) or pa.types.is_run_end_encoded(kind) or _is_loose(kind)):
        raise LimitError(f"column {name!r} has {kind}, which is not read: write plain values")
    for index in range(kind.num_fields):
        _check_layout(kind.field(index).type, name, inside=True)


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _is_loose(kind: pa.DataType) -> bool:
    """Tell whether values of a column may lie on top of each other."""
    return bool(pa.types.is_union(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _view_lengths(column: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of each value of a column of views."""
    views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)
    return views[column.offset : column.offset + len(column), 0].astype(np.int64)


def _check_expanded(dictionary: pa.Array, indices: pa.Array, name: str) -> None:
    """Measure what a dictionary's values take when each stands where it is used."""
    kind = dictionary.type
    if pa.types.is_fixed_size_binary(kind):
        _check_length(kind.byte_width * len(indices), name)
    elif not pa.types.is_primitive(kind) and not pa.types.is_null(kind):
        plain = not _is_view(kind)
        lengths = pc.binary_length(dictionary).cast(pa.int64()) if plain else pa.array(_view_lengths(dictionary))
        _check_length(pc.sum(lengths.take(indices)).as_py(), name)


def _check_length(length: int | None, name: str) -> None:
    if (length or 0) > MOST_BYTES:
        raise LimitError(f"column {name!r} takes {length:,} bytes; {MOST_BYTES:,} are allowed")


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise LimitError("it has two columns of one name")


def _no_columns(count: int) -> pa.RecordBatch:
    """Return so many rows without a column."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
