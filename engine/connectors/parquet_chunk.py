"""Decodes one column of one Parquet row group, as many values at a time as are asked for. Called by `parquet_file`.

For the plain and dictionary encodings of numbers, times and text without nulls, this takes half the time of
pyarrow's decoder; `supported` says when, and `parquet_file` leaves everything else to pyarrow.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.engine.kernels.parquet import (
    ENCODING,
    KIND,
    LEVEL_BYTES,
    PACKED,
    PACKED_SIZE,
    SIZE,
    START,
    VALUES,
    all_defined,
    gather_numbers,
    gather_text,
    plain_text,
    scan_pages,
    text_bytes,
    unpack_indices,
)
from penstock.model.schema import normal_type

MOST_BYTES = 1 << 30
"""A column of a row group with more bytes is left to pyarrow, because the text of a batch could pass 2 GiB."""

MOST_PAGES = 4096

_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLAIN, _INDICES = 0, (2, 8)
_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


class DamagedError(Exception):
    """The bytes of a page do not decode."""


@dataclass(slots=True)
class _Text:
    """Texts one after the other; number ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: NDArray[np.int32]
    data: NDArray[np.uint8]


@dataclass(slots=True)
class _Page:
    """A page being decoded: either ``indices`` into the dictionary, or plain values in ``data`` from byte ``at``."""

    left: int
    data: NDArray[np.uint8]
    at: int
    indices: NDArray[np.int32] | None = None
    taken: int = 0


def supported(
    chunk: pq.ColumnChunkMetaData, column: pq.ColumnSchema, present: pa.DataType, wanted: pa.DataType
) -> bool:
    """Return whether `ColumnChunk` decodes a column chunk to ``wanted``; ``present`` is its type as pyarrow reads it."""
    statistics = chunk.statistics if chunk.is_stats_set else None
    no_nulls = column.max_definition_level == 0 or (
        statistics is not None and statistics.has_null_count and statistics.null_count == 0
    )
    return (
        no_nulls
        and column.max_repetition_level == 0
        and column.max_definition_level <= 1
        and chunk.compression in _CODECS
        and set(chunk.encodings) <= _ENCODINGS
        and 0 < chunk.total_uncompressed_size < MOST_BYTES
        and normal_type(present) == wanted
        and _is_stored_as_it_is(column, wanted)
    )


def _is_stored_as_it_is(column: pq.ColumnSchema, kind: pa.DataType) -> bool:
    """Return whether the bytes of a value in the file are those of a value of the Arrow type."""
    if column.physical_type == "BYTE_ARRAY":
        return kind in (pa.string(), pa.binary())
    if column.physical_type == "INT64":
        if pa.types.is_timestamp(kind):
            return kind.unit in _UNITS and _UNITS[kind.unit] in str(column.logical_type)
        return kind in (pa.int64(), pa.uint64())
    plain = {"INT32": (pa.int32(), pa.uint32(), pa.date32()), "DOUBLE": (pa.float64(),), "FLOAT": (pa.float32(),)}
    return kind in plain.get(column.physical_type, ())


class ColumnChunk:
    """A column of a row group for which `supported` holds; values come in order, each once."""

    def __init__(
        self, file: pa.Buffer, chunk: pq.ColumnChunkMetaData, column: pq.ColumnSchema, kind: pa.DataType
    ) -> None:
        """Read the page headers.

        Raises:
            DamagedError: they do not add up.
        """
        self._file = file
        self._bytes = np.frombuffer(file, np.uint8)
        self._kind = kind
        self._is_text = column.physical_type == "BYTE_ARRAY"
        self._is_optional = column.max_definition_level == 1
        self._number = np.dtype(np.int32 if kind.bit_width == 32 else np.int64) if not self._is_text else None
        codec = _CODECS[chunk.compression]
        self._codec = None if codec is None else pa.Codec(codec)
        first = chunk.data_page_offset
        if chunk.dictionary_page_offset is not None:
            first = min(first, chunk.dictionary_page_offset)
        end = first + chunk.total_compressed_size
        pages = np.empty((MOST_PAGES, START + 1), np.int64)
        count = scan_pages(self._bytes, first, end, pages) if 0 <= first and end <= self._bytes.size else -1
        self._pages = pages[: max(count, 0)].tolist()
        data = [page[VALUES] for page in self._pages if page[KIND] in (_DATA, _DATA_V2)]
        if count < 0 or sum(data) != chunk.num_values:
            raise DamagedError("the page headers of a column do not add up")
        self._next = 0
        self._page: _Page | None = None
        self._numbers: NDArray[np.int64] | NDArray[np.int32] | None = None
        self._texts: _Text | None = None

    def take(self, count: int) -> pa.Array:
        """Return the next ``count`` values; there must be so many.

        Raises:
            DamagedError: a page does not decode.
        """
        return self._take_text(count) if self._is_text else self._take_numbers(count)

    def _take_numbers(self, count: int) -> pa.Array:
        assert self._number is not None
        buffer = pa.allocate_buffer(count * self._number.itemsize)
        out = np.frombuffer(buffer, self._number)
        done = 0
        while done < count:
            page = self._current()
            size = min(count - done, page.left)
            if page.indices is None:
                end = page.at + size * out.itemsize
                if end > page.data.size:
                    raise DamagedError("a page is too short")
                out[done : done + size] = page.data[page.at : end].view(self._number)
                page.at = end
            elif self._numbers is None or gather_numbers(page.indices, page.taken, size, self._numbers, out, done):
                raise DamagedError("an index is beyond its dictionary")
            page.taken += size
            page.left -= size
            done += size
        return pa.Array.from_buffers(self._kind, count, [None, buffer])

    def _take_text(self, count: int) -> pa.Array:
        parts: list[tuple[_Page, int]] = []
        room = 0
        done = 0
        while done < count:
            page = self._current()
            size = min(count - done, page.left)
            parts.append((page, size))
            room += self._text_room(page, size)
            page.left -= size
            done += size
        offset_buffer = pa.allocate_buffer(4 * (count + 1))
        offsets = np.frombuffer(offset_buffer, np.int32)
        offsets[0] = 0
        buffer = pa.allocate_buffer(room)
        data = np.frombuffer(buffer, np.uint8)
        done = 0
        for page, size in parts:
            if page.indices is None:
                page.at = plain_text(page.data, page.at, size, offsets, done, data)
                if page.at < 0:
                    raise DamagedError("a text reaches beyond its page")
            else:
                assert self._texts is not None
                texts = self._texts
                gather_text(page.indices, page.taken, size, texts.offsets, texts.data, offsets, done, data)
            page.taken += size
            done += size
        return pa.Array.from_buffers(self._kind, count, [None, offset_buffer, buffer])

    def _text_room(self, page: _Page, count: int) -> int:
        """Return how many bytes ``count`` texts of a page take at most."""
        if page.indices is None:
            return max(0, page.data.size - page.at - 4 * count)
        room = -1 if self._texts is None else text_bytes(page.indices, page.taken, count, self._texts.offsets)
        if room < 0:
            raise DamagedError("an index is beyond its dictionary")
        return room

    def _current(self) -> _Page:
        """Return the page with the next value."""
        while self._page is None or self._page.left == 0:
            if self._next == len(self._pages):
                raise DamagedError("a column has too few values")
            header = self._pages[self._next]
            self._next += 1
            if header[KIND] == _DICTIONARY:
                self._read_dictionary(header)
            elif header[KIND] in (_DATA, _DATA_V2) and header[VALUES]:
                self._page = self._read_page(header)
        return self._page

    def _read_dictionary(self, header: list[int]) -> None:
        data = self._unpacked(header)
        count = header[VALUES]
        if not self._is_text:
            assert self._number is not None
            if count * self._number.itemsize > data.size:
                raise DamagedError("a dictionary is too short")
            numbers = data[: count * self._number.itemsize].view(self._number)
            self._numbers = numbers if numbers.flags.aligned else _read_only(numbers.copy())
            return
        if 4 * count > data.size:
            raise DamagedError("a dictionary is too short")
        offsets = np.zeros(count + 1, np.int32)
        texts = np.empty(data.size - 4 * count, np.uint8)
        if plain_text(data, 0, count, offsets, 0, texts) < 0:
            raise DamagedError("a text reaches beyond its dictionary")
        self._texts = _Text(offsets, _read_only(texts))

    def _read_page(self, header: list[int]) -> _Page:
        count = header[VALUES]
        data = self._unpacked(header)
        at = 0
        if self._is_optional and header[KIND] == _DATA:
            size = int.from_bytes(data[:4].tobytes(), "little")
            at = 4 + size
            if data.size < 4 or at > data.size or not all_defined(data, 4, at, count):
                raise DamagedError("levels and statistics disagree about nulls")
        elif self._is_optional:
            start = header[START]
            if not all_defined(self._bytes, start, start + header[LEVEL_BYTES], count):
                raise DamagedError("levels and statistics disagree about nulls")
        if header[ENCODING] == _PLAIN:
            return _Page(count, data, at)
        if header[ENCODING] not in _INDICES or at >= data.size:
            raise DamagedError("a page has another encoding than its column")
        indices = np.frombuffer(pa.allocate_buffer(4 * count), np.int32)
        if unpack_indices(data, at + 1, data.size, int(data[at]), indices) < 0:
            raise DamagedError("the indices of a page do not decode")
        return _Page(count, data, at, indices)

    def _unpacked(self, header: list[int]) -> NDArray[np.uint8]:
        """Return the values of a page (and the levels before them in version 1) without compression."""
        start = header[START] + header[LEVEL_BYTES]
        packed = self._file.slice(start, header[PACKED_SIZE] - header[LEVEL_BYTES])
        size = header[SIZE] - header[LEVEL_BYTES]
        if self._codec is None or not header[PACKED]:
            return np.frombuffer(packed, np.uint8)
        if size == 0:
            return np.empty(0, np.uint8)
        try:
            return _read_only(np.frombuffer(self._codec.decompress(packed, size, asbytes=False), np.uint8))
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(str(error)) from None


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that kernels take for the same type as one over the file, so that they are compiled once."""
    array.flags.writeable = False
    return array
