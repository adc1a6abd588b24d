"""JSON messages: one object each. Those that are alike are read by `ShapedJson`, others in general.

In general pyarrow reads them by the block, msgspec those that it refuses. A message enters a block only if it is sure
to be one line of it: the count of rows then stays that of messages, and offsets and keys stay on their rows
(docs/design/kafka.md 6). Called by the source and, for its encoder, by the sink.
"""

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.formats.contract import (
    Decoded,
    HeadersOf,
    ValueDecoder,
    ValueEncoder,
    no_headers,
    one_each,
)
from penstock.engine.connectors.kafka.formats.json_shape import wanted_of
from penstock.engine.connectors.kafka.formats.json_shapes import ShapedJson
from penstock.engine.connectors.kafka.formats.unmatched import Unmatched
from penstock.engine.connectors.text.json_decode import JsonDecoder
from penstock.engine.connectors.text.required_fields import RequiredFields, missing_sentence
from penstock.engine.connectors.text.row_text import json_texts
from penstock.model.errors import SchemaError
from penstock.model.schema import FieldPath

BLOCK_BYTES = 4 << 20
"""Messages are joined to blocks of about this size: larger ones leave the cache, and pyarrow copies them."""

_SMALLEST = 64
"""Blocks of at most so many messages are decoded one by one when pyarrow refuses them; larger ones are divided."""

_PARTS = 16
_OPEN, _CLOSE = b"{}"
_LINE_ENDS = (b"\n", b"\r")

Ints = NDArray[np.int64]


class JsonValues(ValueDecoder):
    """Objects, decoded into the fields of a schema: `JsonDecoder` says how. Layout over several lines is allowed."""

    def __init__(self, schema: pa.Schema, required: Collection[FieldPath] = (), *, strict: bool = False) -> None:
        """Refuse messages without a ``required`` field, with ``strict`` also those with a field not in the schema.

        Raises:
            SchemaError: JSON cannot hold a type, or there is no field.
        """
        if not len(schema):
            raise SchemaError("a schema for JSON messages needs at least one field")
        self.declared = schema
        """The declared fields, or of a restricted decoder those that it looks at."""
        self.schema = schema
        self.strict = strict
        self._names: Sequence[str] = schema.names
        self._unmatched = Unmatched(self._names)
        self._required = RequiredFields(required)
        self._decoder = JsonDecoder(schema, strict=strict)
        fields = wanted_of(schema)
        self._shaped = None if fields is None else ShapedJson(schema, fields, self._row, strict=strict)

    @property
    def required(self) -> frozenset[FieldPath]:
        """The fields that must have a value, of those that it looks at."""
        return self._required.paths

    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        """Decode by blocks of about `BLOCK_BYTES`."""
        ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
        decoded = [
            self._block(values[first:end], ends[first:end] - (ends[first - 1] if first else 0), first)
            for first, end in _blocks(ends)
        ]
        if not decoded:
            return one_each(pa.RecordBatch.from_pylist([], schema=self.schema))
        rows = pa.concat_batches([block.rows for block in decoded]) if len(decoded) > 1 else decoded[0].rows
        row_of = np.concatenate([block.row_of for block in decoded])
        errors = [error for block in decoded for error in block.errors]
        self._unmatched.look(rows, values)
        missing = self._required.missing(rows)
        if missing:
            places = {int(row_of[row]): name for row, name in missing.items()}
            errors += [(place, missing_sentence(name, values[place])) for place, name in places.items()]
            kept = np.delete(np.arange(rows.num_rows), list(missing))
            rows, row_of = rows.take(pa.array(kept)), row_of[kept]
        return Decoded(rows.select(self.schema.names), row_of, sorted(errors) if missing else errors)

    def restrict(self, columns: Sequence[str]) -> "JsonValues":
        """Decode only these, but look at all fields if it is strict.

        One field is read in any case, to tell which messages are objects.
        """
        wanted = pa.schema([self.declared.field(name) for name in columns])
        read = self.declared if self.strict else wanted if len(wanted) else pa.schema([self.declared.field(0)])
        required = self._required if self.strict else self._required.of(columns)
        return _remake(read, wanted.names, required.paths, self.strict, self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        # What it has compiled and learned is made where it is used.
        return _remake, (self.declared, self.schema.names, self.required, self.strict, self._names)

    def fresh(self) -> "JsonValues":
        """Return a decoder that has yet to learn in which form times come."""
        return self.restrict(self.schema.names)

    def remark(self, *, last: bool) -> str | None:
        """Say it if messages have nothing of what is declared."""
        return self._unmatched.remark(last=last)

    def _block(self, values: Sequence[bytes], ends: Ints, first: int) -> Decoded:
        """Decode messages that end at ``ends`` of all their bytes: those that are alike, then the others in general.

        The first has index ``first``.
        """
        shaped = None if self._shaped is None else self._shaped.decode(values, ends)
        if shaped is None:
            return self._general(values, first)
        rows, good = shaped
        if good.all():
            return Decoded(rows, np.arange(first, first + len(values), dtype=np.int64))
        places = np.flatnonzero(~good)
        others = self._general([values[place] for place in places.tolist()], 0)
        row_of = np.flatnonzero(good)
        source = np.concatenate([row_of, len(values) + np.arange(others.rows.num_rows)])
        row_of = np.concatenate([row_of, places[others.row_of]])
        order = np.argsort(row_of)
        return Decoded(
            pa.concat_batches([rows, others.rows]).take(pa.array(source[order])),
            first + row_of[order],
            [(first + int(places[index]), reason) for index, reason in others.errors],
        )

    def _row(self, value: bytes) -> pa.RecordBatch | None:
        """Decode one message in general; None if it is no row."""
        decoded = self._general([value], 0)
        return decoded.rows if decoded.rows.num_rows == 1 else None

    def _general(self, values: Sequence[bytes], first: int) -> Decoded:
        """Decode messages of which the first has index ``first``, whatever they are."""
        block = _joined(values)
        rows = None if block is None else self._decoder.decode_framed(block, len(values))
        if rows is not None:
            return Decoded(rows, np.arange(first, first + len(values), dtype=np.int64))
        if len(values) <= _SMALLEST:
            return self._each(values, first)
        size = -(-len(values) // _PARTS)
        parts = [self._general(values[start : start + size], first + start) for start in range(0, len(values), size)]
        return Decoded(
            pa.concat_batches([part.rows for part in parts]),
            np.concatenate([part.row_of for part in parts]),
            [error for part in parts for error in part.errors],
        )

    def _each(self, values: Sequence[bytes], first: int) -> Decoded:
        lines: list[bytes] = []
        places: list[int] = []
        errors: list[tuple[int, str]] = []
        for index, value in enumerate(values, first):
            line = _as_line(value)
            if isinstance(line, str):
                errors.append((index, line))
            else:
                lines.append(line)
                places.append(index)
        rows, refused = self._decoder.decode_each(lines)
        errors += [(places[index], reason) for index, reason in refused]
        good = np.delete(np.array(places, np.int64), [index for index, _ in refused])
        return Decoded(rows, good, sorted(errors))


class JsonEncoder(ValueEncoder):
    """Writes each row as one object, as `penstock.engine.connectors.text.row_text` does."""

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one object per row."""
        return json_texts(rows.to_struct_array()).cast(pa.binary())


def _remake(
    schema: pa.Schema, columns: Sequence[str], required: Collection[FieldPath], strict: bool, names: Sequence[str]
) -> JsonValues:
    """Return a decoder of ``columns`` that looks at the fields of ``schema``, of all ``names`` that were declared."""
    decoder = JsonValues(schema, required, strict=strict)
    decoder.schema = pa.schema([schema.field(name) for name in columns])
    decoder._names, decoder._unmatched = names, Unmatched(names)
    return decoder


def _blocks(ends: Ints) -> list[tuple[int, int]]:
    """Cut messages that end at ``ends`` of all their bytes into runs of about `BLOCK_BYTES`."""
    if not len(ends):
        return []
    places: Ints = np.searchsorted(ends, np.arange(BLOCK_BYTES, ends[-1], BLOCK_BYTES))
    cuts = [0, *sorted({int(place) + 1 for place in places if place + 1 < len(ends)}), len(ends)]
    return list(pairwise(cuts))


def _joined(values: Sequence[bytes]) -> bytes | None:
    """Return the messages as lines; None if one of them may not be exactly one line that holds an object."""
    block = b"\n".join([*values, b""])
    if block.count(b"\n") != len(values) or b"\r" in block:
        return None
    ends = np.fromiter(accumulate(map(len, values)), np.int64, len(values))
    # Each message before has its line end behind it.
    ends += np.arange(-1, len(values) - 1)
    text = np.frombuffer(block, np.uint8)
    if (text[ends] != _CLOSE).any() or block[0] != _OPEN or (text[ends[:-1] + 2] != _OPEN).any():
        return None
    return block


def _as_line(value: bytes) -> bytes | str:
    """Return the message on one line, or why it is none."""
    if not value.strip():
        return "the message is empty"
    if not any(end in value for end in _LINE_ENDS):
        return value
    try:
        return msgspec.json.format(value, indent=-1)
    except RecursionError:
        return "JSON is nested too deeply"
    except ValueError as error:
        return str(error)
