"""The pages of a Parquet column chunk, one after the other, without compression. Called by `parquet_chunk`."""

from dataclasses import dataclass
from io import BytesIO, FileIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.engine.kernels.parquet import (
    HEADER_FIELDS,
    KIND,
    LEVEL_BYTES,
    PACKED,
    PACKED_SIZE,
    SIZE,
    VALUES,
    all_defined,
    read_header,
)
from penstock.engine.kernels.snappy import SLACK, unpack_snappy

_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
_HEADER_BYTES = 512
_MOST_HEADER_BYTES = 4 << 20
_LIMIT = 1 << 31
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3


class DamagedError(Exception):
    """The bytes of a file do not decode."""


@dataclass(slots=True)
class Unpacked:
    """The bytes of a page: ``data[begin:end]``, read-only. ``memory`` is what they stand in, if that can be reused."""

    data: NDArray[np.uint8]
    begin: int
    end: int
    memory: NDArray[np.uint8] | None = None


class Scratch:
    """Memory for pages, used again and again, so that it stays in the processor's cache."""

    def __init__(self) -> None:
        """Start without memory."""
        self._free: list[NDArray[np.uint8]] = []

    def get(self, size: int) -> NDArray[np.uint8]:
        """Return an array of at least ``size`` bytes, with anything in them."""
        for place in range(len(self._free) - 1, -1, -1):
            if self._free[place].size >= size:
                return self._free.pop(place)
        if self._free:
            self._free.pop(0)
        return np.empty(max(1 << 16, 1 << (size - 1).bit_length()), np.uint8)

    def give(self, unpacked: Unpacked) -> None:
        """Take the memory of a page back; the page is not read any more."""
        if unpacked.memory is not None:
            self._free.append(unpacked.memory)
            unpacked.memory = None


class PageReader:
    """The pages of one column chunk."""

    def __init__(
        self, file: FileIO | BytesIO, chunk: pq.ColumnChunkMetaData, has_levels: bool, scratch: Scratch
    ) -> None:
        """Read nothing yet; ``has_levels`` says whether values may be null.

        Raises:
            DamagedError: the column cannot be in the file.
        """
        self._file = file
        self._has_levels = has_levels
        self._scratch = scratch
        self._codec_name = _CODECS[chunk.compression]
        self._at = chunk.data_page_offset
        if chunk.dictionary_page_offset is not None:
            self._at = min(self._at, chunk.dictionary_page_offset)
        if self._at < 0:
            raise DamagedError("a column begins before the file")
        self._end = self._at + chunk.total_compressed_size
        # The bytes from the next header on that were read along with the page before it.
        self._ahead = _read_only(np.empty(0, np.uint8))
        self._header = np.empty(HEADER_FIELDS, np.int64)

    @staticmethod
    def unpacks(compression: str) -> bool:
        """Return whether pages with this compression can be read."""
        return compression in _CODECS

    @staticmethod
    def is_dictionary(header: list[int]) -> bool:
        """Return whether a page holds the dictionary."""
        return header[KIND] == _DICTIONARY

    def next_header(self) -> list[int]:
        """Read on to the next page with values and return its header, see `penstock.engine.kernels.parquet`.

        Raises:
            DamagedError: there is none, or it is not understood.
        """
        while True:
            if self._at >= self._end:
                raise DamagedError("a column has too few values")
            size = read_header(self._ahead, self._ahead.size, self._header)
            wanted = _HEADER_BYTES
            while size < 0:
                if len(self._ahead) == self._end - self._at or wanted > _MOST_HEADER_BYTES:
                    raise DamagedError("a page header is not understood")
                self._ahead = self._read(self._at, min(wanted, self._end - self._at), None)
                size = read_header(self._ahead, self._ahead.size, self._header)
                wanted *= 16
            header: list[int] = self._header.tolist()
            self._at += size
            if header[PACKED_SIZE] > self._end - self._at or max(header[SIZE], header[VALUES]) >= _LIMIT:
                raise DamagedError("a page is larger than its column")
            if header[KIND] in (_DATA, _DATA_V2, _DICTIONARY) and header[VALUES]:
                return header
            self._at += header[PACKED_SIZE]
            self._ahead = self._ahead[:0]

    def unpack_values(self, header: list[int]) -> tuple[Unpacked, int]:
        """Return the data page of the header read last, and where its values begin, behind the levels.

        Raises:
            DamagedError: the page does not decode, or has nulls.
        """
        unpacked, levels = self._unpack(header)
        at = unpacked.begin
        if self._has_levels and header[KIND] == _DATA:
            size = int.from_bytes(unpacked.data[at : at + 4].tobytes(), "little")
            at += 4 + size
            if at > unpacked.end or not all_defined(unpacked.data, at - size, at, header[VALUES]):
                raise DamagedError("levels and statistics disagree about nulls")
        elif self._has_levels and not all_defined(levels, 0, levels.size, header[VALUES]):
            raise DamagedError("levels and statistics disagree about nulls")
        return unpacked, at

    def unpack(self, header: list[int]) -> Unpacked:
        """Return the dictionary page of the header read last.

        Raises:
            DamagedError: it does not decode.
        """
        return self._unpack(header)[0]

    def _unpack(self, header: list[int]) -> tuple[Unpacked, NDArray[np.uint8]]:
        """Return a page as it is before compression, and what stands before it uncompressed (levels of version 2)."""
        packed_size, level_bytes = header[PACKED_SIZE], header[LEVEL_BYTES]
        memory = self._scratch.get(packed_size + _HEADER_BYTES)
        ahead = min(_HEADER_BYTES, self._end - self._at - packed_size)
        data = self._read(self._at, packed_size + ahead, memory)
        self._at += packed_size
        self._ahead = _read_only(data[packed_size:].copy())
        levels = _read_only(data[:level_bytes].copy()) if level_bytes else data[:0]
        packed = Unpacked(data, level_bytes, packed_size, memory)
        if self._codec_name is None or not header[PACKED]:
            return packed, levels
        unpacked = self._decompress(packed, header[SIZE] - level_bytes)
        self._scratch.give(packed)
        return unpacked, levels

    def _decompress(self, packed: Unpacked, size: int) -> Unpacked:
        if self._codec_name == "snappy":
            memory = self._scratch.get(size + SLACK)
            if unpack_snappy(packed.data, packed.begin, packed.end, memory, size) < 0:
                raise DamagedError("a page does not decompress")
            return Unpacked(_read_only(memory), 0, size, memory)
        if size == 0:
            return Unpacked(packed.data[:0], 0, 0)
        try:
            compressed = pa.py_buffer(packed.data[packed.begin : packed.end])
            buffer = pa.Codec(self._codec_name).decompress(compressed, size, asbytes=False)
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(str(error)) from None
        return Unpacked(_read_only(np.frombuffer(buffer, np.uint8)), 0, size)

    def _read(self, at: int, size: int, memory: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
        """Read bytes of the file into ``memory``, or into new memory."""
        data = (np.empty(size, np.uint8) if memory is None else memory)[:size]
        self._file.seek(at)
        rest = memoryview(data)
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise DamagedError("the file is shorter than its footer says")
            rest = rest[count:]
        return _read_only(data)


def _read_only(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a view of the type that kernels are compiled for, so that they are compiled once."""
    view = array[:]
    view.flags.writeable = False
    return view
