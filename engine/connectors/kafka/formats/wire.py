"""A message's reference to its schema in a registry: magic byte 0 and an id before it, or 1 and a GUID in a header.

As Confluent's clients write and read it (docs/design/kafka.md 6). Called by the formats that use a registry.
"""

from collections.abc import Sequence
from uuid import UUID

from penstock.engine.connectors.kafka.formats.contract import Headers

SchemaName = int | UUID
"""What a registry knows a schema by."""

VALUE_HEADER = "__value_schema_id"
"""The header of values; that of keys is ``__key_schema_id``."""

_PREFIX_BYTES = 5
_BY_ID, _BY_GUID = b"\x00", b"\x01"
_GUID_BYTES = 17
_MOST_INDEXES = 64


class WireError(ValueError):
    """The message names no schema."""


def schema_name(value: bytes, headers: Headers) -> tuple[SchemaName, bytes | None, bytes]:
    """Return the name of a message's schema, and the message without it; a header counts before the prefix.

    Between them stands what follows the name in the header, None if the name stands in the prefix.

    Raises:
        WireError: neither names a schema.
    """
    for header_name, content in headers:
        if header_name == VALUE_HEADER and content is not None:
            return *_name_in_header(content), value
    return _name_in_prefix(value), None, value[_PREFIX_BYTES:]


def _name_in_prefix(value: bytes) -> int:
    if len(value) < _PREFIX_BYTES or value[:1] != _BY_ID:
        raise WireError(
            f"the message names no schema: it begins with {value[:_PREFIX_BYTES].hex(' ') or 'nothing'}, not with "
            f"0 and the four bytes of an id, and has no header {VALUE_HEADER}"
        )
    return int.from_bytes(value[1:_PREFIX_BYTES], "big")


def _name_in_header(content: bytes) -> tuple[SchemaName, bytes]:
    if len(content) >= _GUID_BYTES and content[:1] == _BY_GUID:
        return UUID(bytes=content[1:_GUID_BYTES]), content[_GUID_BYTES:]
    if len(content) >= _PREFIX_BYTES and content[:1] == _BY_ID:
        return _name_in_prefix(content), content[_PREFIX_BYTES:]
    raise WireError(f"the header {VALUE_HEADER} names no schema: it holds {content[:20].hex(' ') or 'nothing'}")


def message_indexes(content: bytes) -> tuple[tuple[int, ...], int]:
    """Return which message of a Protobuf file it is, outermost first, and where they end.

    Raises:
        WireError: they are cut off, negative or very many.
    """
    count, place = _varint(content, 0)
    if count == 0:
        return (0,), place
    if not 0 < count <= _MOST_INDEXES:
        raise WireError(f"the message names {count} indexes of Protobuf messages inside each other, which cannot be")
    indexes = []
    for _ in range(count):
        index, place = _varint(content, place)
        if index < 0:
            raise WireError(f"the message names the Protobuf message with index {index}, which cannot be")
        indexes.append(index)
    return tuple(indexes), place


def prefix(schema_id: int) -> bytes:
    """Return what stands before a message."""
    return _BY_ID + schema_id.to_bytes(4, "big")


def header(guid: UUID) -> bytes:
    """Return what stands in a header."""
    return _BY_GUID + guid.bytes


def indexes_bytes(indexes: Sequence[int]) -> bytes:
    """Return what tells which message of a Protobuf file it is; the first is told by one byte 0."""
    if tuple(indexes) == (0,):
        return b"\x00"
    return b"".join(map(_zigzag, (len(indexes), *indexes)))


def _varint(content: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if place >= len(content):
            break
        byte = content[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place
    raise WireError("the message breaks off before it has said which Protobuf message it is")


def _zigzag(number: int) -> bytes:
    number <<= 1
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
