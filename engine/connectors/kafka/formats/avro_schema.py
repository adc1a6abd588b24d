"""Avro schemas as trees of nodes, read from their JSON. Limits come first: it may be anybody's.

What fastavro gets is made from these trees (`avro_types.raw_avro`), never what somebody wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from penstock.model.errors import SchemaError

MOST_BYTES = 4 << 20
DEEPEST = 64
MOST_NODES = 20_000

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

LOGICAL_TYPES: Mapping[str, tuple[str, pa.DataType]] = {
    "date": ("int", pa.date32()),
    "time-millis": ("int", pa.time32("ms")),
    "time-micros": ("long", pa.time64("us")),
    "timestamp-millis": ("long", pa.timestamp("ms", "UTC")),
    "timestamp-micros": ("long", pa.timestamp("us", "UTC")),
    "timestamp-nanos": ("long", pa.timestamp("ns", "UTC")),
    "local-timestamp-millis": ("long", pa.timestamp("ms")),
    "local-timestamp-micros": ("long", pa.timestamp("us")),
    "local-timestamp-nanos": ("long", pa.timestamp("ns")),
    "uuid": ("string", pa.string()),
}
"""What the bytes of a logical type are, and its column; beside these there are decimals."""

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Primitive:
    """A value without parts; ``logical`` is what it stands for, such as ``timestamp-micros``."""

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of a fixed number of bytes."""

    name: str
    size: int
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """A symbol out of a list; ``default`` stands for those of a writer that are not among them."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """Any number of items."""

    items: "Node"


@dataclass(frozen=True, slots=True)
class Map:
    """Values by text."""

    values: "Node"


@dataclass(frozen=True, slots=True)
class Union:
    """A value of one of several branches."""

    branches: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a record; ``aliases`` are its names in other schemas."""

    name: str
    node: "Node"
    aliases: tuple[str, ...] = ()
    default: Any = field(default=_MISSING, compare=False)

    @property
    def has_default(self) -> bool:
        """True if readers may fill it in."""
        return self.default is not _MISSING


@dataclass(frozen=True, slots=True)
class Record:
    """Fields by name."""

    name: str
    fields: tuple[Field, ...]


Node = Primitive | Fixed | Enum | Array | Map | Union | Record


def parse_avro(text: str | bytes | Mapping[str, Any], references: Sequence[tuple[str, str]] = ()) -> Record:
    """Read the schema of messages, a record; ``references`` are schemas that it uses by name, inner ones first.

    Raises:
        SchemaError: it is no such schema, contains itself, or passes the limits.
    """
    parser = _Parser()
    for _, other in references:
        parser.parse(_json(other))
    node = parser.parse(_json(text) if isinstance(text, str | bytes) else text)
    if not isinstance(node, Record):
        raise SchemaError("the Avro schema of messages must be a record")
    return node


def takes_no_bytes(node: Node) -> bool:
    """Tell whether values may take no bytes: an array may claim any number of those."""
    if isinstance(node, Record):
        return all(takes_no_bytes(item.node) for item in node.fields)
    return node == Primitive("null") or (isinstance(node, Fixed) and node.size == 0)


def base_name(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition(".")[2]


def _json(text: str | bytes) -> Any:
    if len(text) > MOST_BYTES:
        raise SchemaError(f"the Avro schema has {len(text):,} bytes; {MOST_BYTES:,} are allowed")
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise SchemaError("the Avro schema is nested too deeply") from None
    except ValueError as error:
        stripped = text.strip()
        if isinstance(stripped, str) and stripped in PRIMITIVES:
            return stripped
        raise SchemaError(f"the Avro schema is not JSON: {error}") from None


class _Parser:
    """Reads schemas that know the names of those before."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        self._open: set[str] = set()
        self._nodes = 0

    def parse(self, given: Any, space: str = "", depth: int = 0) -> Node:
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MOST_NODES:
            raise SchemaError("the Avro schema is nested too deeply or too large")
        if isinstance(given, str):
            return self._reference(given, space)
        if isinstance(given, Sequence):
            return self._union(given, space, depth)
        if not isinstance(given, Mapping) or "type" not in given:
            raise SchemaError(f"the Avro schema has {str(given)[:80]!r} where a type should be")
        kind = given["type"]
        if not isinstance(kind, str):
            return self.parse(kind, space, depth + 1)
        if kind in PRIMITIVES:
            return Primitive(kind, *_logical(given, kind))
        if kind == "array":
            items = self.parse(given.get("items"), space, depth + 1)
            if takes_no_bytes(items):
                raise SchemaError("the Avro schema has an array of values that take no bytes, which is refused")
            return Array(items)
        if kind == "map":
            return Map(self.parse(given.get("values"), space, depth + 1))
        if kind in ("record", "error", "enum", "fixed"):
            return self._name(given, kind, space, depth)
        return self._reference(kind, space)

    def _reference(self, name: str, space: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not space else f"{space}.{name}"
        for candidate in (full, name):
            if candidate in self._open:
                raise SchemaError(f"the Avro record {candidate!r} contains itself, which has no columnar counterpart")
            if candidate in self._named:
                node = self._named[candidate]
                self._nodes += _size(node)
                return node
        raise SchemaError(f"the Avro schema uses the unknown type {name!r}")

    def _union(self, given: Sequence[Any], space: str, depth: int) -> Union:
        branches = tuple(self.parse(branch, space, depth + 1) for branch in given)
        if not branches or any(isinstance(branch, Union) for branch in branches):
            raise SchemaError("the Avro schema has a union that is empty, or a union right inside another")
        return Union(branches)

    def _name(self, given: Mapping[str, Any], kind: str, space: str, depth: int) -> Node:
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"the Avro schema has a {kind} without a name")
        space = given.get("namespace", space) if "." not in name else name.rpartition(".")[0]
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self._named or full in self._open:
            raise SchemaError(f"the Avro schema defines {full!r} twice")
        node: Node
        if kind == "enum":
            node = _enum(given, full)
        elif kind == "fixed":
            size = given.get("size")
            if not isinstance(size, int) or not 0 <= size <= MOST_BYTES:
                raise SchemaError(f"the Avro type {full!r} has an impossible size: {size!r}")
            node = Fixed(full, size, *_logical(given, kind))
        else:
            self._open.add(full)
            node = self._record(given, full, space, depth)
            self._open.discard(full)
        self._named[full] = node
        return node

    def _record(self, given: Mapping[str, Any], full: str, space: str, depth: int) -> Record:
        listed = given.get("fields")
        if not isinstance(listed, Sequence) or not all(isinstance(item, Mapping) for item in listed):
            raise SchemaError(f"the Avro record {full!r} has no list of fields")
        fields: list[Field] = []
        for item in listed:
            name = item.get("name")
            if not isinstance(name, str) or not name or any(name == field.name for field in fields):
                raise SchemaError(f"the Avro record {full!r} has a field without a name of its own: {name!r}")
            node = self.parse(item if _is_flat(item) else item.get("type"), space, depth + 1)
            aliases = tuple(alias for alias in item.get("aliases", ()) if isinstance(alias, str))
            fields.append(Field(name, node, aliases, item.get("default", _MISSING)))
        return Record(full, tuple(fields))


def _is_flat(item: Mapping[str, Any]) -> bool:
    """Tell whether a field has its logical type beside its type instead of in it, as many write it."""
    return "logicalType" in item and isinstance(item.get("type"), str) and item["type"] in PRIMITIVES


def _enum(given: Mapping[str, Any], full: str) -> Enum:
    symbols = given.get("symbols")
    if not isinstance(symbols, Sequence) or not symbols or not all(isinstance(one, str) for one in symbols):
        raise SchemaError(f"the Avro enum {full!r} has no symbols")
    default = given.get("default")
    return Enum(full, tuple(symbols), default if default in symbols else None)


_MOST_DIGITS = 76


def _logical(given: Mapping[str, Any], kind: str) -> tuple[str | None, int, int]:
    """Return the logical type, its precision and scale. Impossible ones do not count, as Avro says."""
    name = given.get("logicalType")
    if isinstance(name, str) and LOGICAL_TYPES.get(name, ("", None))[0] == kind:
        return name, 0, 0
    if name != "decimal" or kind not in ("bytes", "fixed"):
        return None, 0, 0
    precision, scale = given.get("precision"), given.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= _MOST_DIGITS:
        return None, 0, 0
    return (name, precision, scale) if precision else (None, 0, 0)


def _size(node: Node) -> int:
    """Count the nodes of a tree."""
    if isinstance(node, Record):
        return 1 + sum(_size(item.node) for item in node.fields)
    if isinstance(node, Union):
        return 1 + sum(map(_size, node.branches))
    if isinstance(node, Array):
        return 1 + _size(node.items)
    return 1 + _size(node.values) if isinstance(node, Map) else 1
