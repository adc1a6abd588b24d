"""Rows as Kafka messages, column by column: key, value, timestamp and headers. Called by the sink's writers.

Keys are bytes that any client would write: text as UTF-8, bytes as they are, any other column as its JSON text (``42``,
``true``), several columns as one JSON object.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.kafka.formats.contract import BatchEncoder, Headers, ValueEncoder
from penstock.engine.connectors.kafka.messages import HEADERS
from penstock.engine.connectors.text.layouts import entry_lists, plain_layout
from penstock.engine.connectors.text.row_text import json_texts
from penstock.model.errors import BadRecordError, SchemaError

MESSAGES = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp_ms", pa.int64()),
        ("headers", HEADERS),
    ]
)
"""Messages as they are kept. No key: null; a tombstone has no value; without a time they get that of being sent."""

MakeEncoder = Callable[[pa.Schema], ValueEncoder | BatchEncoder]
"""Makes the encoder of values with these fields; raises `SchemaError` if the format cannot hold them."""


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """The roles of columns in a message. ``value`` are those of the message's value.

    ``upsert``: rows with a true last column ``deleted`` become tombstones.
    """

    key: tuple[str, ...] = ()
    headers: str | None = None
    timestamp: str | None = None
    upsert: bool = False

    def value(self, schema: pa.Schema, *, alone: bool) -> list[str]:
        """Return the columns of the value: all but headers and ``deleted``.

        A format of one column only is ``alone``: then what becomes key or timestamp is no part of the value either.
        """
        elsewhere = {self.headers, *((*self.key, self.timestamp) if alone else ())}
        names = schema.names[:-1] if self.upsert else schema.names
        return [name for name in names if name not in elsewhere]


class MessageEncoder:
    """Turns the rows of one sink instance into messages."""

    def __init__(
        self,
        schema: pa.Schema,
        layout: MessageLayout,
        make: MakeEncoder,
        *,
        alone: bool,
        limit_bytes: int,
        where: str,
    ) -> None:
        """``limit_bytes`` is the most that a message may have; ``where`` names the topic in errors.

        Raises:
            SchemaError: the columns cannot be written so.
        """
        if layout.headers is not None:
            _check_headers(schema.field(layout.headers))
        self._layout = layout
        self._names = layout.value(schema, alone=alone)
        if not self._names:
            raise SchemaError(f"no column is left for the values of messages to {where}")
        self._values = make(pa.schema([schema.field(name) for name in self._names]))
        if isinstance(self._values, BatchEncoder) and (layout.key or layout.headers or layout.upsert):
            raise SchemaError(
                f"messages to {where} have many rows each, so they have no key and no headers, and cannot be upserts: "
                "leave these out, or use another format"
            )
        self._limit = limit_bytes
        self._where = where

    def encode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return a message for each row, in `MESSAGES`; fewer in formats that have many rows in one.

        Raises:
            BadRecordError: a message is larger than may be, or an upsert has no key.
            RetryableError: the format needs something that cannot be had now.
        """
        layout = self._layout
        if isinstance(self._values, BatchEncoder):
            return self._batches(self._values, rows)
        values = self._values.encode(rows.select(self._names))
        if layout.upsert:
            values = pc.if_else(rows.column(rows.num_columns - 1), pa.scalar(None, pa.binary()), values)
        columns = [
            self._keys(rows),
            values,
            _nulls(rows, pa.int64()) if layout.timestamp is None else _times_ms(rows.column(layout.timestamp)),
            self._headers(rows, self._values.headers),
        ]
        messages = pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
        self._check_sizes(messages)
        return messages

    def _headers(self, rows: pa.RecordBatch, fixed: Headers) -> pa.Array:
        name = self._layout.headers
        if not fixed:
            return _nulls(rows, HEADERS) if name is None else _headers(rows.column(name))
        every = [{"key": key, "value": value} for key, value in fixed]
        own = [()] * rows.num_rows if name is None else _headers(rows.column(name)).to_pylist()
        return pa.array([[*(given or ()), *every] for given in own], HEADERS)

    def _batches(self, encoder: BatchEncoder, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return messages of many rows; each has the latest time among its rows."""
        messages = encoder.encode_batches(rows.select(self._names), self._limit)
        times: list[int | None] = [None] * len(messages)
        if self._layout.timestamp is not None:
            column, start = _times_ms(rows.column(self._layout.timestamp)), 0
            for index, (count, _) in enumerate(messages):
                times[index] = pc.max(column.slice(start, count)).as_py()
                start += count
        columns = [
            pa.nulls(len(messages), pa.binary()),
            pa.array([message for _, message in messages], pa.binary()),
            pa.array(times, pa.int64()),
            pa.nulls(len(messages), HEADERS),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)

    def _keys(self, rows: pa.RecordBatch) -> pa.Array:
        names = self._layout.key
        if not names:
            return _nulls(rows, pa.binary())
        if len(names) > 1:
            return json_texts(rows.select(list(names)).to_struct_array()).cast(pa.binary())
        column = rows.column(names[0])
        if self._layout.upsert and column.null_count:
            raise BadRecordError(
                f"a row for {self._where} has no {names[0]!r}, which is its key: an upsert cannot be written without; "
                "filter such rows, or give key=[...] several columns"
            )
        return key_bytes(column)

    def _check_sizes(self, messages: pa.RecordBatch) -> None:
        if not messages.num_rows:
            return
        sizes = pc.add(_lengths(messages.column("key")), _lengths(messages.column("value")))
        largest = pc.max(sizes).as_py()
        if largest > self._limit:
            at = pc.index(sizes, largest).as_py()
            key = messages.column("key")[at].as_py()
            raise BadRecordError(
                f"a message of {largest:,} bytes (key {key!r}) is too large for {self._where}: message.max.bytes of "
                f"the producer is {self._limit:,}; raise it in kafka={{...}} and max.message.bytes of the topic, or "
                "make the rows smaller"
            )


def key_bytes(column: pa.Array) -> pa.Array:
    """Return one column as the bytes of keys; null stays null."""
    column = plain_layout(column)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column.cast(pa.binary())
    return pc.if_else(column.is_valid(), json_texts(column), None).cast(pa.binary())


def byte_lists(column: pa.Array) -> list[bytes | None]:
    """Return the values of a binary column as Python's, several times as fast as `to_pylist` does."""
    if column.null_count == len(column):
        return [None] * len(column)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column) + 1].tolist()
    first = offsets[0]
    data = column.buffers()[2][first : offsets[-1]].to_pybytes()
    values: list[bytes | None] = [data[begin - first : end - first] for begin, end in pairwise(offsets)]
    if column.null_count:
        for index in np.flatnonzero(np.asarray(column.is_null())):
            values[index] = None
    return values


def header_lists(column: pa.Array) -> Sequence[list[tuple[str, str | bytes | None]] | None]:
    """Return the headers of messages as librdkafka's client takes them."""
    if column.null_count == len(column):
        return [None] * len(column)
    return [
        None if item is None else [(header["key"], header["value"]) for header in item] for item in column.to_pylist()
    ]


def _headers(column: pa.Array) -> pa.Array:
    column = entry_lists(column)
    values = column.flatten()
    names, contents = values.flatten()
    entries = pa.StructArray.from_arrays(
        [names.cast(pa.string()), contents.cast(pa.binary())], fields=list(HEADERS.value_type)
    )
    lengths = pc.list_value_length(column).fill_null(0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, entries, type=HEADERS)


def _check_headers(field: pa.Field) -> None:
    kind = field.type
    entry = kind.value_type if pa.types.is_list(kind) else None
    if pa.types.is_map(kind):
        types = [kind.key_type, kind.item_type]
    elif entry is not None and pa.types.is_struct(entry) and entry.num_fields == 2:
        types = [entry.field(0).type, entry.field(1).type]
    else:
        types = []
    fits = bool(types) and pa.types.is_string(types[0])
    if not fits or not (pa.types.is_string(types[1]) or pa.types.is_binary(types[1])):
        raise SchemaError(
            f"headers={field.name!r} must hold maps of text to bytes (or text), or lists of such pairs, not {kind}"
        )


def _times_ms(column: pa.Array) -> pa.Array:
    """Return milliseconds; null where Kafka has no such time: its timestamps begin after 1970."""
    times = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return pc.if_else(pc.greater(times, 0), times, None)


def _lengths(column: pa.Array) -> pa.Array:
    return pc.binary_length(column).fill_null(0).cast(pa.int64())


def _nulls(rows: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
    return pa.nulls(rows.num_rows, kind)
