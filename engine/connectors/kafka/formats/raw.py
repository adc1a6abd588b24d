"""Messages as they are: bytes, text, or the numbers of Java's own serialisers. For values and for keys.

Called by the source and, for its encoder, by the sink.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.kafka.formats.contract import (
    Decoded,
    HeadersOf,
    ValueDecoder,
    ValueEncoder,
    no_headers,
    one_each,
)
from penstock.model.errors import SchemaError

_NUMBERS = {
    pa.int8(): ">i1",
    pa.int16(): ">i2",
    pa.int32(): ">i4",
    pa.int64(): ">i8",
    pa.float32(): ">f4",
    pa.float64(): ">f8",
}
"""Numbers are big endian, as Java writes them."""


class RawValues(ValueDecoder):
    """One column with the whole message: ``binary``, ``string`` (UTF-8), or a big-endian number of 1, 2, 4, 8 bytes."""

    def __init__(self, field: pa.Field) -> None:
        """Take the column.

        Raises:
            SchemaError: it has another type.
        """
        kind = field.type
        if kind not in _NUMBERS and not pa.types.is_binary(kind) and not pa.types.is_string(kind):
            raise SchemaError(
                f"raw messages cannot be read as {kind} (column {field.name!r}); they are binary, string, or numbers "
                "of a fixed width"
            )
        self._field = field
        self.schema = pa.schema([field])

    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        """Take every message whole; one that is no UTF-8, or has not the number's width, is an error."""
        column = self._column(values)
        if column is not None:
            return one_each(self._rows(column))
        errors = [(index, reason) for index, value in enumerate(values) if (reason := self._reason(value))]
        good = np.delete(np.arange(len(values), dtype=np.int64), [index for index, _ in errors])
        column = self._column([values[int(index)] for index in good])
        assert column is not None
        return Decoded(self._rows(column), good, errors)

    def restrict(self, columns: Sequence[str]) -> "RawValues":
        """Keep the column or leave it out."""
        restricted = RawValues(self._field)
        restricted.schema = pa.schema([self._field] if columns else [])
        return restricted

    def _rows(self, column: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([column], names=[self._field.name]).select(self.schema.names)

    def _column(self, values: Sequence[bytes]) -> pa.Array | None:
        """Return the messages as a column, None if one of them does not fit."""
        kind = self._field.type
        if kind in _NUMBERS:
            number = np.dtype(_NUMBERS[kind])
            if set(map(len, values)) - {number.itemsize}:
                return None
            numbers = np.frombuffer(b"".join(values), number)
            return pa.array(numbers.astype(number.newbyteorder("=")), kind)
        column = pa.array(values, pa.binary())
        if pa.types.is_binary(kind):
            return column
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            return None

    def _reason(self, value: bytes) -> str | None:
        kind = self._field.type
        if kind in _NUMBERS:
            width = np.dtype(_NUMBERS[kind]).itemsize
            return None if len(value) == width else f"{kind} has {width} bytes, but there are {len(value)}"
        try:
            value.decode()
        except UnicodeDecodeError as error:
            return str(error)
        return None


class RawEncoder(ValueEncoder):
    """Writes rows of one column, of a type that `RawValues` reads; null is a tombstone."""

    def __init__(self, field: pa.Field) -> None:
        """Take the column.

        Raises:
            SchemaError: it has another type.
        """
        RawValues(field)
        self._kind = field.type

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the values as bytes."""
        column = rows.column(0)
        if self._kind not in _NUMBERS:
            return column.cast(pa.binary())
        number = np.dtype(_NUMBERS[self._kind])
        numbers = np.asarray(column.fill_null(0)).astype(number)
        fixed = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(number.itemsize), len(numbers), [None, pa.py_buffer(numbers.tobytes())]
        )
        return pc.if_else(column.is_valid(), fixed.cast(pa.binary()), None)
