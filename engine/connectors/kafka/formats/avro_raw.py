"""Avro schemas for fastavro: of the same bytes, but without names that could repeat, recursion or logical types."""

from typing import Any

from penstock.engine.connectors.kafka.formats.avro_schema import Array, Enum, Fixed, Map, Node, Primitive, Union


def raw_avro(node: Node) -> Any:
    """Return a schema for fastavro: the same bytes, names of its own, and no logical types."""
    return _Raw().schema(node)


class _Raw:
    """Writes schemas with a name for every record, enum and fixed that is its alone."""

    def __init__(self) -> None:
        self._names = 0

    def schema(self, node: Node) -> Any:
        if isinstance(node, Primitive):
            return node.kind
        if isinstance(node, Array):
            return {"type": "array", "items": self.schema(node.items)}
        if isinstance(node, Map):
            return {"type": "map", "values": self.schema(node.values)}
        if isinstance(node, Union):
            return [self.schema(branch) for branch in node.branches]
        self._names += 1
        name = f"T{self._names}"
        if isinstance(node, Fixed):
            return {"type": "fixed", "name": name, "size": node.size}
        if isinstance(node, Enum):
            return {"type": "enum", "name": name, "symbols": list(node.symbols)}
        fields = [{"name": item.name, "type": self.schema(item.node)} for item in node.fields]
        return {"type": "record", "name": name, "fields": fields}
