"""Nexmark events as the reference's messages: objects of ``event_type``, ``person``, ``auction`` and ``bid``.

Of the last three one is there, the others are null. `event_messages` writes them, `NexmarkValues` reads them.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.kafka.formats.contract import Decoded, HeadersOf, ValueDecoder, no_headers
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.nexmark.generator import (
    KINDS,
    SCHEMAS,
    NexmarkConfig,
    generate,
    kinds_between,
    rows_before,
)
from penstock.engine.connectors.text.row_text import json_texts
from penstock.engine.connectors.text.text_values import epoch_times
from penstock.model.errors import OptionError

EVENT_TYPE, TIME = "event_type", "dateTime"
TIMES = ("reference", "iso", "epoch")
"""How times are written: ``yyyy-MM-dd HH:mm:ss.SSS``, ISO 8601 in UTC, or milliseconds since the epoch."""

_NUMBERED_TIME = re.compile(rb'"dateTime"\s*:\s*-?\d')


def column_of(kind: str, field: str) -> str:
    """Return the column that a field of a kind has in the rows of `NexmarkValues`; all kinds share their time."""
    return TIME if field == TIME else f"{kind}_{field}"


def _fields() -> Mapping[str, tuple[str, str, pa.DataType]]:
    fields = ((kind, field) for kind in KINDS for field in SCHEMAS[kind] if field.name != TIME)
    return {column_of(kind, field.name): (kind, field.name, field.type) for kind, field in fields}


_FIELDS = _fields()
_SCHEMA = pa.schema(
    [
        (EVENT_TYPE, pa.int64()),
        (TIME, pa.timestamp("ms")),
        *((name, kind) for name, (_, _, kind) in _FIELDS.items()),
    ]
)


class NexmarkValues(ValueDecoder):
    """Reads messages into flat rows: the event's type and time, and the fields of all kinds, of which one has values.

    Only what the columns need is decoded. Times may be written in any of `TIMES`.
    """

    def __init__(self, columns: Sequence[str] = tuple(_SCHEMA.names)) -> None:
        """Read these columns."""
        self._schema = pa.schema([_SCHEMA.field(name) for name in columns])
        self._texts, self._numbers = (JsonValues(self._wire(kind)) for kind in (pa.timestamp("ms"), pa.int64()))

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        return self._schema

    def restrict(self, columns: Sequence[str]) -> "NexmarkValues":
        """Decode only what these columns need."""
        return NexmarkValues(columns)

    def fresh(self) -> "NexmarkValues":
        """Return a decoder for another partition."""
        return NexmarkValues(self._schema.names)

    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        """Decode with times as the first message has them; messages that are no good so may have them otherwise."""
        likely, other = self._texts, self._numbers
        if values and _NUMBERED_TIME.search(values[0]):
            likely, other = other, likely
        decoded = self._checked(likely.decode(values))
        if not decoded.errors:
            return decoded
        places = [index for index, _ in decoded.errors]
        again = self._checked(other.decode([values[index] for index in places]))
        refused = {places[index] for index, _ in again.errors}
        row_of = np.concatenate([decoded.row_of, np.array(places, np.int64)[again.row_of]])
        order = np.argsort(row_of, kind="stable")
        rows = pa.concat_batches([decoded.rows, again.rows]).take(pa.array(order))
        return Decoded(rows, row_of[order], [error for error in decoded.errors if error[0] in refused])

    def _wire(self, time: pa.DataType) -> pa.Schema:
        """Return the fields of the messages that are read, with times of a type."""
        fields_by_kind: dict[str, list[pa.Field]] = {kind: [] for kind in KINDS}
        for name in self._schema.names:
            if name == TIME:
                for kind in KINDS:
                    fields_by_kind[kind].append(pa.field(TIME, time))
            elif name != EVENT_TYPE:
                kind, field, type_ = _FIELDS[name]
                fields_by_kind[kind].append(pa.field(field, time if pa.types.is_timestamp(type_) else type_))
        objects = [pa.field(kind, pa.struct(fields)) for kind, fields in fields_by_kind.items() if fields]
        return pa.schema([pa.field(EVENT_TYPE, pa.int64()), *objects])

    def _checked(self, decoded: Decoded) -> Decoded:
        """Make rows of what was read, without the messages that are no events."""
        types = decoded.rows.column(0)
        valid = np.asarray(pc.is_in(types, pa.array(range(len(KINDS)))))
        if not valid.all():
            kinds_text = ", ".join(f"{number} {kind}" for number, kind in enumerate(KINDS))
            wrong = [
                (int(decoded.row_of[row]), f"event_type is {types[row].as_py()}, which is none of {kinds_text}")
                for row in np.flatnonzero(~valid)
            ]
            errors = sorted([*decoded.errors, *wrong])
            decoded = Decoded(decoded.rows.filter(pa.array(valid)), decoded.row_of[valid], errors)
        return Decoded(self._flat(decoded.rows), decoded.row_of, decoded.errors)

    def _flat(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        parts = {EVENT_TYPE: rows.column(0)}
        times = []
        for kind, column in zip(rows.schema.names[1:], rows.columns[1:], strict=True):
            for field, part in zip(column.type, column.flatten(), strict=True):
                if field.name == TIME:
                    times.append(part)
                else:
                    parts[column_of(kind, field.name)] = part
        if times:
            parts[TIME] = pc.coalesce(*times)
        columns = [_typed(parts[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def event_messages(config: NexmarkConfig, first: int, end: int, times: str = TIMES[0]) -> pa.Array:
    """Return the messages of the events from place ``first`` to before ``end`` of the stream, in order.

    Raises:
        OptionError: ``times`` is none of `TIMES`.
    """
    if times not in TIMES:
        raise OptionError(f"times must be one of {', '.join(TIMES)}, not {times!r}")
    kinds = kinds_between(config, first, end)
    texts = []
    for number, kind in enumerate(KINDS):
        begin = rows_before(config, kind, first)
        rows = generate(config, kind, begin, int(np.count_nonzero(kinds == number)))
        columns = [_timed(column, times) if pa.types.is_timestamp(column.type) else column for column in rows.columns]
        events = pa.StructArray.from_arrays(columns, names=rows.schema.names)
        objects = [json_texts(events) if other == kind else "null" for other in KINDS]
        pieces = [piece for other, text in zip(KINDS, objects, strict=True) for piece in (f',"{other}":', text)]
        texts.append(pc.binary_join_element_wise(f'{{"{EVENT_TYPE}":{number}', *pieces, "}", ""))
    # Of each kind the texts are in order, so sorting places by kind tells where each of them belongs.
    places = np.empty(len(kinds), np.int64)
    places[np.argsort(kinds, kind="stable")] = np.arange(len(kinds))
    return pa.concat_arrays(texts).take(pa.array(places)).cast(pa.binary())


def _timed(column: pa.Array, times: str) -> pa.Array:
    if times == "epoch":
        return column.cast(pa.int64())
    return column.cast(pa.timestamp("ms", "UTC")) if times == "iso" else column.cast(pa.string())


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return epoch_times(column, kind) if pa.types.is_timestamp(kind) and pa.types.is_int64(column.type) else column
