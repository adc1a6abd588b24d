"""Rows as bytes in shared memory: columns one after another, each value copied once on its way in.

Columns of values of 1, 2, 4 or 8 bytes lie as they do in Arrow, ``picks`` applied by a kernel that writes to where they
go. All other columns follow as one Arrow message. Everything begins at multiples of `ALIGNMENT`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.engine.transport.picked_rows import Picks, pick
from penstock.engine.transport.ring import ALIGNMENT, Bytes
from penstock.state.keys.arrays import read_only

_WORDS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of one width, of which only those of the picks are meant, if given; both are read-only."""

    values: NDArray[np.signedinteger]
    picks: Picks | None = None

    @property
    def size(self) -> int:
        return (self.values.size if self.picks is None else self.picks.size) * self.values.itemsize

    def copy(self, at: int, target: Bytes) -> None:
        """Write the bytes from ``at`` on; both are multiples of `ALIGNMENT`, but the target may reach the end."""
        width = self.values.itemsize
        first, last = at // width, (at + target.size) // width
        words = target.view(self.values.dtype)
        if self.picks is None:
            words[:] = self.values[first:last]
        else:
            pick(self.values, self.picks[first:last], words)


class Body:
    """The bytes of a batch that is being sent, to be written in one piece or several."""

    def __init__(self, rows: int, nulls: bytes, columns: Sequence[_Values]) -> None:
        """``nulls`` has a byte per column of `BatchCodec.plain`, 1 if its validity lies before it; or is empty."""
        self.rows = rows
        self.nulls = nulls
        self.size = sum(_aligned(column.size) for column in columns)
        self.left = self.size
        """The bytes that are not written yet."""
        self._columns = columns
        self._column = self._at = 0

    def write(self, target: Bytes) -> int:
        """Write what comes next into the target, whose size is a multiple of `ALIGNMENT`; return how much."""
        written = 0
        while written < target.size and self._column < len(self._columns):
            column = self._columns[self._column]
            size = min(column.size - self._at, target.size - written)
            column.copy(self._at, target[written : written + size])
            self._at += size
            written += _aligned(size)
            if self._at == column.size:
                self._column, self._at = self._column + 1, 0
        self.left -= written
        return written


class BatchCodec:
    """Makes bytes of the batches of one schema, and batches of the bytes."""

    def __init__(self, schema: pa.Schema) -> None:
        """Sort the columns."""
        self.schema = schema
        self.plain = [place for place, field in enumerate(schema) if _is_plain(field.type)]
        """The columns that lie as they do in Arrow."""
        self._types = [(place, schema.field(place).type, schema.field(place).type.bit_width) for place in self.plain]
        self._others = [place for place in range(len(schema)) if place not in self.plain]
        self._other_fields = pa.schema([schema.field(place) for place in self._others])
        # A message alone would come without its dictionaries.
        self._streamed = any(_has_dictionary(field.type) for field in self._other_fields)

    def encode(self, rows: pa.RecordBatch, picks: Picks | None) -> Body:
        """Return the bytes to be of a batch of the schema, of the rows numbered in ``picks`` if given.

        Columns that lie plainly are read when the body is written: the batch must not change.
        """
        count = rows.num_rows if picks is None else int(picks.size)
        if not count:
            return Body(0, b"", ())
        nulls = bytearray(len(self.plain))
        columns: list[_Values] = []
        own = None if picks is None else read_only(picks)
        for number, (place, _, width) in enumerate(self._types):
            column, picked = rows.column(place), own
            if column.null_count:
                nulls[number] = 1
                if picks is not None:
                    column, picked = pc.take(column, pa.array(picks), boundscheck=False), None
                columns.append(_Values(_bits(column)))
            columns.append(_Values(_words(column, width), picked))
        if self._others:
            others = rows.select(self._others)
            if picks is not None:
                others = pc.take(others, pa.array(picks), boundscheck=False)
            columns.append(_Values(np.frombuffer(self._message(others), np.int8)))
        return Body(count, bytes(nulls) if any(nulls) else b"", columns)

    def decode(self, rows: int, nulls: bytes, body: Bytes) -> pa.RecordBatch:
        """Return the batch of these bytes, which it goes on using."""
        if not rows:
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        memory, at = pa.py_buffer(body), 0
        columns: list[pa.Array | None] = [None] * len(self.schema)
        for number, (place, kind, width) in enumerate(self._types):
            validity = None
            if nulls and nulls[number]:
                validity = memory.slice(at, (rows + 7) // 8)
                at += _aligned(validity.size)
            values = memory.slice(at, rows * width // 8)
            at += _aligned(values.size)
            columns[place] = pa.Array.from_buffers(kind, rows, [validity, values], -1 if validity else 0)
        if self._others:
            others = self._batch(memory.slice(at))
            for number, place in enumerate(self._others):
                columns[place] = others.column(number)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _message(self, rows: pa.RecordBatch) -> pa.Buffer:
        if not self._streamed:
            return rows.serialize()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._other_fields) as stream:
            stream.write_batch(rows)
        return sink.getvalue()

    def _batch(self, message: pa.Buffer) -> pa.RecordBatch:
        if not self._streamed:
            return pa.ipc.read_record_batch(message, self._other_fields)
        with pa.ipc.open_stream(message) as stream:
            return stream.read_next_batch()


def plain_body(content: pa.Buffer) -> Body:
    """Return the body of anything that is bytes already."""
    return Body(0, b"", [_Values(np.frombuffer(content, np.int8))])


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pt.is_primitive(kind) and kind.bit_width in _WORDS)


def _has_dictionary(kind: pa.DataType) -> bool:
    return bool(pt.is_dictionary(kind)) or any(
        _has_dictionary(kind.field(place).type) for place in range(kind.num_fields)
    )


def _words(column: pa.Array, width: int) -> NDArray[np.signedinteger]:
    words: NDArray[np.signedinteger] = np.frombuffer(column.buffers()[1], _WORDS[width])
    return read_only(words[column.offset : column.offset + len(column)])


def _bits(column: pa.Array) -> NDArray[np.int8]:
    """Return the validity of a column, a bit a row from its first row on."""
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return np.packbits(valid, bitorder="little").view(np.int8)
