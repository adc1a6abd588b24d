"""The file formats of the simulated page store: segments of pages, and the list of valid segments.

Pure functions from pages to bytes and back; every record and the list carry a checksum, which is verified before
use. `simulated_page_store` calls them.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_RECORD = struct.Struct("<IIiI")  # checksum of the rest, length of the key, of the value (-1: deleted), segment number
_DELETED = -1


class DamagedBytesError(ValueError):
    """Bytes are not those that were encoded."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The location of a record: the number of its segment, and a byte range of that file."""

    segment: int
    offset: int
    length: int


def encode_segment(number: int, pages: Mapping[bytes, bytes | None]) -> tuple[bytes, dict[bytes, Extent | None]]:
    """Return the bytes of a segment with these pages (None: deleted), and the extent of each."""
    data = bytearray()
    extents: dict[bytes, Extent | None] = {}
    for key, value in sorted(pages.items(), key=lambda page: page[0]):
        body = key + (value or b"")
        lengths = _RECORD.pack(0, len(key), _DELETED if value is None else len(value), number)[4:]
        record = zlib.crc32(body, zlib.crc32(lengths)).to_bytes(4, "little") + lengths + body
        extents[key] = None if value is None else Extent(number, len(data), len(record))
        data += record
    return bytes(data), extents


def decode_segment(number: int, data: bytes) -> Iterator[tuple[bytes, Extent | None]]:
    """Yield the key and the extent (None: deleted) of every record.

    Raises:
        DamagedBytesError: a record is cut or does not fit its checksum.
    """
    offset = 0
    while offset < len(data):
        key, value, length = _decode_record(number, data, offset)
        yield key, None if value is None else Extent(number, offset, length)
        offset += length


def read_page(data: bytes, extent: Extent, key: bytes) -> bytes:
    """Return the page at an extent.

    Raises:
        DamagedBytesError: it is cut, does not fit its checksum, or is another key's.
    """
    stored_key, value, length = _decode_record(extent.segment, data, extent.offset)
    if stored_key != key or value is None or length != extent.length:
        raise DamagedBytesError(f"the record at byte {extent.offset:,} is another one")
    return value


def encode_list(lengths: Mapping[int, int]) -> bytes:
    """Return the bytes of the list of segments: number and length of each."""
    body = b"".join(struct.pack("<IQ", number, length) for number, length in sorted(lengths.items()))
    return zlib.crc32(body).to_bytes(4, "little") + body


def decode_list(data: bytes) -> dict[int, int]:
    """Return number and length of each segment, ascending by number.

    Raises:
        DamagedBytesError: the list is cut or does not fit its checksum.
    """
    body = data[4:]
    if len(data) < 4 or len(body) % 12 or zlib.crc32(body) != int.from_bytes(data[:4], "little"):
        raise DamagedBytesError("the list does not fit its checksum")
    return dict(struct.iter_unpack("<IQ", body))


def _decode_record(number: int, data: bytes, offset: int) -> tuple[bytes, bytes | None, int]:
    """Return key, value (None: deleted) and length of the record at this offset."""
    body = offset + _RECORD.size
    if body > len(data):
        raise DamagedBytesError(f"the record at byte {offset:,} is cut")
    checksum, key_length, value_length, of_segment = _RECORD.unpack_from(data, offset)
    middle = body + key_length
    end = middle + max(value_length, 0)
    if end > len(data) or zlib.crc32(memoryview(data)[offset + 4 : end]) != checksum or of_segment != number:
        raise DamagedBytesError(f"the record at byte {offset:,} does not fit its checksum")
    return data[body:middle], None if value_length == _DELETED else data[middle:end], end - offset
