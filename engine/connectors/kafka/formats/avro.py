"""Avro messages: one record each, by a schema that is given, or by that which each names in a registry.

fastavro reads them one by one; whatever is wrong with a message is its own. Called by the source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from fastavro import parse_schema, schemaless_reader
from fastavro.read import SchemaResolutionError

from penstock.engine.connectors.kafka.formats.avro_resolution import UnreadableError, reading_schema
from penstock.engine.connectors.kafka.formats.avro_schema import Record, parse_avro
from penstock.engine.connectors.kafka.formats.avro_types import arrow_schema, avro_json, raw_avro, to_arrow_value
from penstock.engine.connectors.kafka.formats.contract import Decoded, Headers, HeadersOf, ValueDecoder, no_headers
from penstock.engine.connectors.kafka.formats.one_by_one import decode_blocks
from penstock.engine.connectors.kafka.formats.schema_registry import SchemaRegistry
from penstock.engine.connectors.kafka.formats.wire import SchemaName, schema_name
from penstock.model.errors import PenstockError, SchemaError

MOST_MESSAGE_BYTES = 64 << 20

_CHUNK = 2_048
"""So many records are made before they become columns: more of them outlive Python's first garbage collections."""

_END = b"\x00"
"""Stands behind every message: fastavro skips what is not wanted without a look whether it is there, and reads this."""

AvroSchema = str | Path | dict[str, Any]
"""The JSON of a schema, parsed or not, or the path of a file with it."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan for reading messages of one writer's schema; ``refusal`` says why they cannot be read."""

    writer: Any = None
    reader: Any = None
    refusal: str | None = None


class AvroValues(ValueDecoder):
    """Records, read into the fields of a reader's schema.

    With a registry each message names the schema that it was written with; without, all were written with the
    reader's. Fields may have been added with a default, dropped, renamed by an alias, and numbers promoted.
    """

    def __init__(
        self, reader: Record, registry: SchemaRegistry | None = None, wanted: Sequence[str] | None = None
    ) -> None:
        """Raise `SchemaError` if a field has no columnar counterpart. ``wanted`` are the columns to read, or all."""
        self._full, self._registry = reader, registry
        fields = {item.name: item for item in reader.fields}
        names = [item.name for item in reader.fields] if wanted is None else wanted
        self._reader = Record(reader.name, tuple(fields[name] for name in names))
        self.schema = arrow_schema(self._reader)
        self._struct = pa.struct(list(self.schema))
        self._change = to_arrow_value(self._reader)
        self._plans: dict[SchemaName, _Plan] = {}
        self._own = None if registry else self._plan(reader)

    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        """Decode one by one, into columns by the block."""
        return decode_blocks(values, headers, _CHUNK, self._records, self._rows, self.schema)

    def __reduce__(self) -> tuple[Any, ...]:
        # What it has learned of writers' schemas is learned anew.
        return AvroValues, (self._full, self._registry, self.schema.names)

    def restrict(self, columns: Sequence[str]) -> "AvroValues":
        """Decode only these; the others are passed over."""
        return AvroValues(self._full, self._registry, columns)

    def fresh(self) -> "AvroValues":
        """Return a decoder that shares the registry only."""
        return self.restrict(self.schema.names)

    def _records(
        self, values: Sequence[bytes], first: int, headers: HeadersOf, errors: list[tuple[int, str]]
    ) -> tuple[list[Any], list[int]]:
        """Return the records of messages, of which the first has index ``first``, and the indices of those."""
        records: list[Any] = []
        places: list[int] = []
        for index, value in enumerate(values, first):
            try:
                if len(value) > MOST_MESSAGE_BYTES:
                    raise UnreadableError(f"it has {len(value):,} bytes; {MOST_MESSAGE_BYTES:,} are allowed")
                plan, body = (self._own, value) if self._own else self._plan_of(value, headers(index))
                if plan.refusal is not None:
                    raise UnreadableError(plan.refusal)
                stream = BytesIO(body + _END)
                record = schemaless_reader(stream, plan.writer, plan.reader)
                left = len(body) + len(_END) - stream.tell()
                if left:
                    raise UnreadableError(f"{left} bytes are left behind the record")
            except PenstockError:
                raise
            except Exception as error:  # Whatever these bytes made fastavro raise, it is their own.
                errors.append((index, _reason(error)))
            else:
                records.append(record)
                places.append(index)
        return records, places

    def _plan_of(self, value: bytes, headers: Headers) -> tuple[_Plan, bytes]:
        """Return how to read a message that names its schema, and the record without the name."""
        name, _, body = schema_name(value, headers)
        plan = self._plans.get(name)
        if plan is None:
            plan = self._plans[name] = self._plan_by(name)
        return plan, body

    def _plan_by(self, name: SchemaName) -> _Plan:
        assert self._registry is not None
        try:
            schema = self._registry.schema(name)
            if schema.kind != "AVRO":
                return _Plan(refusal=f"schema {name} in the registry is {schema.kind}, not AVRO")
            return self._plan(parse_avro(schema.text, schema.references))
        except SchemaError as error:
            return _Plan(refusal=f"schema {name} in the registry cannot be used: {error}")

    def _plan(self, writer: Record) -> _Plan:
        raw = raw_avro(writer)
        try:
            reader = reading_schema(writer, raw, self._reader)
        except UnreadableError as error:
            return _Plan(refusal=str(error))
        same = reader == raw
        names = {item["name"] for item in (*raw["fields"], *reader["fields"])}
        kind = {"type": "fixed", "name": "End", "size": len(_END)}
        end = {"name": "end" + "_" * (1 + max(map(len, names), default=0)), "type": kind}
        for schema in (raw, reader):
            schema["fields"].append(end)
        # Defaults stand there as they will be put in, which need not be what Avro's JSON says.
        return _Plan(parse_schema(raw), None if same else parse_schema(reader, _ignore_default_error=True))

    def _rows(self, records: Sequence[Any]) -> pa.RecordBatch:
        if self._change is not None:
            records = [self._change(record) for record in records]
        return pa.RecordBatch.from_struct_array(pa.array(records, self._struct))


def load_avro(given: object) -> tuple[Record, str]:
    """Return a schema that a user gave as `AvroSchema`, and its JSON.

    Raises:
        SchemaError: it is none, or the file cannot be read.
    """
    if isinstance(given, dict):
        text = msgspec.json.encode(given).decode()
    elif isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        text = given
    elif isinstance(given, str | Path):
        try:
            text = Path(given).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"the Avro schema {str(given)!r} cannot be read: {error}") from None
    else:
        raise SchemaError(f"an Avro schema is its JSON, as text or a dict, or the path of a file, not {given!r}")
    return parse_avro(text), text


def avro_text(record: Record) -> str:
    """Return the JSON of a schema that was made here."""
    return msgspec.json.encode(avro_json(record)).decode()


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the Avro message breaks off, or a length in it is wrong"
    if isinstance(error, IndexError):
        return "the Avro message names a symbol or a branch that its schema does not have"
    if isinstance(error, SchemaResolutionError):
        return f"the Avro message does not fit the reading schema: {str(error)[:200]}"
    return f"the Avro message cannot be read: {error}"
