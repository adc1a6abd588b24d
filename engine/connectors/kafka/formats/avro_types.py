"""Avro's types and Arrow's, both ways. Called by the Avro decoder and encoder.

Numbers that stand for times cross as numbers; only decimals, maps to write and times of day need a look at each value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.kafka.formats.avro_schema import (
    LOGICAL_TYPES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
)
from penstock.model.errors import SchemaError

Change = Callable[[Any], Any]
"""Makes the value that pyarrow takes from the one that fastavro gives, or the other way round."""

_NULL = Primitive("null")

_PRIMITIVE: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_DAY = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}
_EXACT = Context(prec=100)
_MOST_DECIMAL_BYTES = 40


def value_node(node: Node) -> Node:
    """Return what a value is that may be null; the node itself if it is no union.

    Raises:
        SchemaError: it may be of several types.
    """
    if not isinstance(node, Union):
        return node
    others = [branch for branch in node.branches if branch != _NULL]
    if len(others) > 1:
        kinds = ", ".join(getattr(branch, "kind", None) or type(branch).__name__.lower() for branch in others)
        raise SchemaError(f"is a union of {kinds}, which has no columnar counterpart: only unions with null do")
    return others[0] if others else _NULL


def arrow_type(node: Node, where: str = "") -> pa.DataType:
    """Return the type of a value's column; ``where`` names the field in errors.

    Raises:
        SchemaError: there is none.
    """
    try:
        node = value_node(node)
    except SchemaError as error:
        raise SchemaError(f"the Avro field {where!r} {error}") from None
    if isinstance(node, Primitive | Fixed) and node.logical == "decimal":
        make = pa.decimal128 if node.precision <= 38 else pa.decimal256
        return make(node.precision, node.scale)
    if isinstance(node, Primitive):
        return LOGICAL_TYPES[node.logical][1] if node.logical else _PRIMITIVE[node.kind]
    if isinstance(node, Fixed):
        return pa.binary()
    if isinstance(node, Enum):
        return pa.string()
    if isinstance(node, Array):
        return pa.list_(arrow_type(node.items, where))
    if isinstance(node, Map):
        return pa.map_(pa.string(), arrow_type(node.values, where))
    assert isinstance(node, Record)
    return pa.struct([pa.field(item.name, arrow_type(item.node, _inside(where, item.name))) for item in node.fields])


def arrow_schema(record: Record) -> pa.Schema:
    """Return the columns of messages.

    Raises:
        SchemaError: a field has no columnar counterpart.
    """
    return pa.schema(list(arrow_type(record)))


def avro_of(schema: pa.Schema, name: str = "Value") -> Record:
    """Return the Avro schema for columns; every field may be null unless its column says otherwise.

    Raises:
        SchemaError: a column's type has no counterpart, or its name is none in Avro.
    """
    return Record(name, tuple(_avro_field(item, item.name) for item in schema))


def to_arrow_value(node: Node) -> Change | None:
    """Return what a decoded value must go through, None if nothing."""
    return _change(node, decoding=True)


def to_avro_value(node: Node) -> Change | None:
    """Return what a value must go through to be encoded, None if nothing. Times come as numbers."""
    return _change(node, decoding=False)


def avro_json(node: Node) -> Any:
    """Return the schema as it is registered."""
    return _json(node, None)


def raw_avro(node: Node) -> Any:
    """Return the schema for fastavro: the same bytes, names that cannot repeat, no logical types and no defaults."""
    return _json(node, map("T{}".format, count(1)))


def _json(node: Node, names: Iterator[str] | None) -> Any:
    """Return a schema as JSON; with ``names`` it is raw, and they are what its types are called."""
    if isinstance(node, Union):
        return [_json(branch, names) for branch in node.branches]
    if isinstance(node, Array):
        return {"type": "array", "items": _json(node.items, names)}
    if isinstance(node, Map):
        return {"type": "map", "values": _json(node.values, names)}
    logical: dict[str, Any] = {}
    if isinstance(node, Primitive | Fixed) and node.logical and names is None:
        logical = {"logicalType": node.logical}
        if node.logical == "decimal":
            logical |= {"precision": node.precision, "scale": node.scale}
    if isinstance(node, Primitive):
        return {"type": node.kind, **logical} if logical else node.kind
    name = node.name if names is None else next(names)
    if isinstance(node, Fixed):
        return {"type": "fixed", "name": name, "size": node.size, **logical}
    if isinstance(node, Enum):
        return {"type": "enum", "name": name, "symbols": list(node.symbols)}
    fields = []
    for item in node.fields:
        default = {"default": item.default} if item.has_default and names is None else {}
        fields.append({"name": item.name, "type": _json(item.node, names), **default})
    return {"type": "record", "name": name, "fields": fields}


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _avro_field(item: pa.Field, where: str) -> Field:
    if not (item.name.isascii() and item.name.isidentifier()):
        raise SchemaError(
            f"column {where!r} cannot have this name in Avro, whose names are letters, digits and _: rename it"
        )
    node = _avro_type(item.type, where)
    if not item.nullable or node == _NULL:
        return Field(item.name, node)
    return Field(item.name, Union((_NULL, node)), default=None)


def _avro_type(kind: pa.DataType, where: str) -> Node:
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple
    if pa.types.is_timestamp(kind):
        unit = _UNITS.get(kind.unit, "millis")
        return Primitive("long", f"timestamp-{unit}" if kind.tz else f"local-timestamp-{unit}")
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision:
        return Primitive("bytes", "decimal", kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return Array(_nullable(_avro_type(kind.value_type, where)))
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return Map(_nullable(_avro_type(kind.item_type, where)))
    if pa.types.is_struct(kind):
        name = where.replace(".", "_") + "_record"
        return Record(name, tuple(_avro_field(item, _inside(where, item.name)) for item in kind))
    raise SchemaError(f"column {where!r} is {kind}, which Avro cannot hold; cast it, or leave it out")


def _nullable(node: Node) -> Node:
    return node if node == _NULL else Union((_NULL, node))


_SIMPLE: Mapping[pa.DataType, Node] = {
    **{kind: Primitive(name) for name, kind in _PRIMITIVE.items()},
    **{kind: Primitive("int") for kind in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())},
    pa.uint32(): Primitive("long"),
    pa.date32(): Primitive("int", "date"),
    pa.time32("s"): Primitive("int", "time-millis"),
    pa.time32("ms"): Primitive("int", "time-millis"),
    pa.time64("us"): Primitive("long", "time-micros"),
}


def _change(node: Node, *, decoding: bool) -> Change | None:
    inner = value_node(node)
    change = _change_of(inner, decoding=decoding)
    if change is None or inner is node:
        return change
    return lambda value: None if value is None else change(value)


def _change_of(node: Node, *, decoding: bool) -> Change | None:
    if isinstance(node, Primitive | Fixed) and node.logical == "decimal":
        size = node.size if isinstance(node, Fixed) else None
        return _decimal_from(node.scale) if decoding else _decimal_to(node.scale, size)
    if isinstance(node, Primitive) and node.logical in _DAY and decoding:
        return _time_of_day(_DAY[node.logical])
    if isinstance(node, Array):
        item = _change(node.items, decoding=decoding)
        return None if item is None else lambda values: [item(value) for value in values]
    if isinstance(node, Map):
        return _map_change(_change(node.values, decoding=decoding), decoding=decoding)
    if isinstance(node, Record):
        return _record_change([(item.name, _change(item.node, decoding=decoding)) for item in node.fields])
    return None


def _record_change(changes: Sequence[tuple[str, Change | None]]) -> Change | None:
    needed = [(name, change) for name, change in changes if change is not None]
    if not needed:
        return None

    def changed(record: dict[str, Any]) -> dict[str, Any]:
        # A record that is a default is shared.
        return {**record, **{name: change(record[name]) for name, change in needed if name in record}}

    return changed


def _map_change(change: Change | None, *, decoding: bool) -> Change | None:
    if decoding:
        return None if change is None else lambda items: {key: change(value) for key, value in items.items()}
    if change is None:
        return dict
    return lambda items: {key: change(value) for key, value in items}


def _decimal_from(scale: int) -> Change:
    def decoded(digits: bytes) -> Decimal:
        if len(digits) > _MOST_DECIMAL_BYTES:
            raise ValueError(f"a decimal has {len(digits)} bytes, more than its digits need")
        return Decimal(int.from_bytes(digits, "big", signed=True)).scaleb(-scale, _EXACT)

    return decoded


def _decimal_to(scale: int, size: int | None) -> Change:
    def encoded(value: Decimal) -> bytes:
        number = int(value.scaleb(scale, _EXACT))
        return number.to_bytes(size if size is not None else number.bit_length() // 8 + 1, "big", signed=True)

    return encoded


def _time_of_day(end: int) -> Change:
    def checked(value: int) -> int:
        if not 0 <= value < end:
            raise ValueError(f"{value} is no time of day")
        return value

    return checked
