"""Resolution of one Avro schema to another: fields added, dropped, renamed, numbers promoted.

Made once for each writer's schema. What can never be read is said here in a sentence, for all its messages.
"""

from collections.abc import Mapping
from typing import Any

from penstock.engine.connectors.kafka.formats.avro_schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    base_name,
)

_PROMOTED: Mapping[str, frozenset[str]] = {
    "int": frozenset({"int", "long", "float", "double"}),
    "long": frozenset({"long", "float", "double"}),
    "float": frozenset({"float", "double"}),
    "string": frozenset({"string", "bytes"}),
    "bytes": frozenset({"bytes", "string"}),
}


class UnreadableError(ValueError):
    """The reader's schema cannot read what the writer's wrote."""


def reading_schema(writer: Record, raw: Any, reader: Record) -> Any:
    """Return the schema for fastavro to read with: as ``reader`` wants it, with the names in ``raw``.

    ``raw`` is `raw_avro` of the writer's. Records go together whatever they are called.

    Raises:
        UnreadableError: no message of this schema can be read.
    """
    return _resolve(writer, raw, reader, "")


def ready_default(node: Node, default: Any) -> Any:
    """Return a default as fastavro would have read it: JSON has bytes as text, and leaves out defaults inside."""
    if isinstance(node, Union):
        branches = [branch for branch in node.branches if branch != Primitive("null")]
        return default if default is None or not branches else ready_default(branches[0], default)
    if isinstance(default, str) and (isinstance(node, Fixed) or (isinstance(node, Primitive) and node.kind == "bytes")):
        return default.encode("latin-1", "replace")
    if isinstance(node, Array) and isinstance(default, list):
        return [ready_default(node.items, item) for item in default]
    if isinstance(node, Map) and isinstance(default, dict):
        return {key: ready_default(node.values, value) for key, value in default.items()}
    if isinstance(node, Record) and isinstance(default, dict):
        given = {item.name: item.default for item in node.fields if item.has_default} | default
        return {item.name: ready_default(item.node, given.get(item.name)) for item in node.fields}
    return default


def _resolve(writer: Node, raw: Any, reader: Node, where: str) -> Any:
    if isinstance(writer, Union):
        return _from_union(writer, raw, reader, where)
    if isinstance(reader, Union):
        return _to_union(writer, raw, reader, where)
    if isinstance(writer, Primitive) and isinstance(reader, Primitive):
        if reader.kind in _PROMOTED.get(writer.kind, {writer.kind}):
            _check_meaning(writer, reader, where)
            return reader.kind
    elif isinstance(writer, Array) and isinstance(reader, Array):
        return {"type": "array", "items": _resolve(writer.items, raw["items"], reader.items, where)}
    elif isinstance(writer, Map) and isinstance(reader, Map):
        return {"type": "map", "values": _resolve(writer.values, raw["values"], reader.values, where)}
    elif isinstance(writer, Record) and isinstance(reader, Record):
        return _record(writer, raw, reader, where)
    elif isinstance(writer, Fixed) and isinstance(reader, Fixed) and writer.size == reader.size:
        _check_meaning(writer, reader, where)
        return raw
    elif isinstance(writer, Enum) and isinstance(reader, Enum):
        symbols = {"type": "enum", "name": raw["name"], "symbols": list(reader.symbols)}
        return symbols if reader.default is None else {**symbols, "default": reader.default}
    raise UnreadableError(f"{_field(where)} was written as {_kind(writer)} and cannot be read as {_kind(reader)}")


def _record(writer: Record, raw: Any, reader: Record, where: str) -> Any:
    written = {item.name: (item, part["type"]) for item, part in zip(writer.fields, raw["fields"], strict=True)}
    fields = []
    for item in reader.fields:
        path = f"{where}.{item.name}" if where else item.name
        source = next((name for name in (item.name, *item.aliases) if name in written), None)
        if source is not None:
            match, part = written[source]
            field = {"name": item.name, "type": _resolve(match.node, part, item.node, path)}
            fields.append(field if source == item.name else {**field, "aliases": [source]})
        elif item.has_default:
            # fastavro puts a default in as it stands, so the type does not matter.
            fields.append({"name": item.name, "type": "null", "default": ready_default(item.node, item.default)})
        else:
            raise UnreadableError(f"{_field(path)} was not written and has no default")
    return {"type": "record", "name": raw["name"], "fields": fields}


def _to_union(writer: Node, raw: Any, reader: Union, where: str) -> Any:
    reasons = []
    for branch in reader.branches:
        try:
            return _resolve(writer, raw, branch, where)
        except UnreadableError as error:
            reasons.append(error)
    raise reasons[-1]


def _from_union(writer: Union, raw: Any, reader: Node, where: str) -> Any:
    """Keep every branch that can be read; a value of another one is an error when it comes."""
    readable: list[Any] = []
    reasons: list[UnreadableError] = []
    for branch, part in zip(writer.branches, raw, strict=True):
        for wanted in reader.branches if isinstance(reader, Union) else (reader,):
            if isinstance(branch, Record) and isinstance(wanted, Record) and _is_another(branch, writer, wanted):
                continue
            try:
                resolved = _resolve(branch, part, wanted, where)
            except UnreadableError as error:
                reasons.append(error)
                continue
            if resolved not in readable:
                readable.append(resolved)
            break
    if not readable:
        raise reasons[-1] if reasons else UnreadableError(f"{_field(where)} has no type in common")
    return readable


def _is_another(branch: Record, writer: Union, wanted: Record) -> bool:
    """Tell whether a record is not the one that is meant, among several in a union."""
    names = [base_name(other.name) for other in writer.branches if isinstance(other, Record)]
    return len(names) > 1 and base_name(wanted.name) in names and base_name(wanted.name) != base_name(branch.name)


def _check_meaning(writer: Primitive | Fixed, reader: Primitive | Fixed, where: str) -> None:
    """Refuse numbers that mean something else now, such as milliseconds that were microseconds."""
    if reader.logical is None or writer.logical is None:
        return
    same_scale = (writer.logical, writer.scale) == (reader.logical, reader.scale)
    if not same_scale:
        raise UnreadableError(
            f"{_field(where)} was written as {_kind(writer)} and cannot be read as {_kind(reader)}: the same number "
            "means something else"
        )


def _field(where: str) -> str:
    return f"field {where!r}" if where else "the message"


def _kind(node: Node) -> str:
    if isinstance(node, Primitive | Fixed) and node.logical:
        return f"decimal({node.precision}, {node.scale})" if node.logical == "decimal" else node.logical
    if isinstance(node, Primitive):
        return node.kind
    return f"fixed({node.size})" if isinstance(node, Fixed) else type(node).__name__.lower()
