"""JSON lines as a source: one object per line, in files of any size. Built by the DSL's readers."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json

from penstock.engine.connectors.files.chunks import first_block
from penstock.engine.connectors.text.json_decode import JsonDecoder
from penstock.engine.connectors.text.line_reader import BYTE_ORDER_MARK
from penstock.engine.connectors.text.line_source import LineSource
from penstock.engine.connectors.text.required_fields import RequiredFields
from penstock.engine.connectors.text.text_values import infer_type
from penstock.model.errors import SchemaError
from penstock.model.schema import FieldPath


class JsonLinesSource(LineSource):
    """Objects of a file, a directory or a glob, one per line.

    Fields that are missing are null unless they are required, fields that are not in the schema are passed over unless
    it is strict. Times are ISO 8601 text or
    epoch milliseconds. Lines that are no such object become raw records; blank lines count for nothing.
    Every file is a partition with a watermark of its own, so files may overlap in time; each should be in order. Of
    more than 256, neighbours by name are read one after another in one partition and should follow each other in time.
    """

    format = "JSON lines"
    suffixes = (".json", ".jsonl", ".ndjson")

    def __init__(
        self,
        path: str | Path,
        schema: pa.Schema | None = None,
        required: Collection[FieldPath] = (),
        *,
        strict: bool = False,
    ) -> None:
        """Look up the files; without a schema, infer it from the first megabyte.

        Lines without a value for one of the ``required`` fields are bad, with ``strict`` also those with a field that
        the schema does not have; otherwise only the columns that are read are looked at.

        Raises:
            UserError: there is no such file.
            SchemaError: a type cannot be read from JSON, or nothing can be inferred.
        """
        super().__init__(path)
        self._schema = schema if schema is not None else _infer(self._listing.files, str(path))
        self._declared, self._required, self._strict = self._schema, RequiredFields(required), strict
        self.decoder()

    def decoder(self) -> JsonDecoder:
        """Make a decoder."""
        names = self._schema.names
        if self._strict:
            return JsonDecoder(self._declared, self._required.paths, strict=True, columns=names)
        return JsonDecoder(self._schema, self._required.of(names).paths)


def _infer(files: Sequence[Path], path: str) -> pa.Schema:
    first = first_block(files)
    if first is None:
        raise SchemaError(f"every file of {path!r} is empty, so its fields cannot be inferred; give schema=...")
    file, block = first
    objects = list(_objects(block))
    try:
        table = _read(objects, None)
        names = table.schema.names
        times = [pa.field(field.name, pa.string()) for field in table.schema if pa.types.is_timestamp(field.type)]
        if times:
            table = _read(objects, pa.schema(times))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"the fields of {str(file)!r} cannot be inferred: {error}; give schema=...") from None
    return pa.schema([pa.field(name, infer_type(table[name], name)) for name in names])


def _objects(block: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects among the lines; other lines are reported when they are read."""
    for line in block.removeprefix(BYTE_ORDER_MARK).split(b"\n"):
        try:
            value = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _read(objects: Sequence[dict[str, Any]], schema: pa.Schema | None) -> pa.Table:
    if not objects:
        raise pa.ArrowInvalid("no line of its beginning is a JSON object")
    block = b"\n".join(msgspec.json.encode(item) for item in objects) + b"\n"
    return pa.json.read_json(
        pa.BufferReader(block),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer"),
    )
