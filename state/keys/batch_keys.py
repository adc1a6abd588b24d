"""Keys of a batch in canonical form, with their hash: what tables compare and exchanges route by.

Equal values give equal keys whatever their Arrow layout; operators encode once and hand the `KeyBatch` on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.model.errors import PlanError
from penstock.state.kernels import byte_strings as kernels
from penstock.state.keys.arrays import NO_BYTES, NO_INTEGERS, NO_NULLS, read_only
from penstock.state.keys.key_columns import (
    ByteColumn,
    KeyColumn,
    WordColumn,
    is_bytes,
    read_column,
    word_count,
    write_column,
)

MAX_KEY_COLUMNS = 32

_LENGTH_PREFIX_BYTES = 4


class KeyArrays(NamedTuple):
    """A `KeyBatch` as kernels take it: every array read-only, an absent part has size 0."""

    words: NDArray[np.int64]
    nulls: NDArray[np.uint32]
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class KeyBatch:
    """The keys of n rows.

    ``words`` is int64[n, k], C-contiguous: the fixed-width key columns in order (k may be 0), 0 where null.
    ``nulls`` is uint32[n], bit i set where key column i is null (None: no nulls).
    ``data`` and ``offsets`` (int64[n + 1], not necessarily from 0) hold the byte strings: a single string column's own
    bytes, or of several columns each one's length (4 bytes, little endian) and bytes in turn; None without strings.
    ``hashes`` is uint64[n]. Nothing here may be written to: it can be Arrow's memory.
    """

    words: NDArray[np.int64]
    nulls: NDArray[np.uint32] | None
    data: NDArray[np.uint8] | None
    offsets: NDArray[np.int64] | None
    hashes: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, indices: NDArray[np.int64]) -> "KeyBatch":
        """Return the keys of these rows."""
        nulls = None if self.nulls is None else self.nulls[indices]
        data, offsets = None, None
        if self.data is not None and self.offsets is not None:
            lengths = np.diff(self.offsets)[indices]
            data, offsets = gather_bytes(self.data, self.offsets[indices], lengths)
        return KeyBatch(self.words[indices], nulls, data, offsets, self.hashes[indices])

    def arrays(self) -> KeyArrays:
        """Return the arrays as kernels take them."""
        return KeyArrays(
            read_only(self.words),
            NO_NULLS if self.nulls is None else read_only(self.nulls),
            NO_BYTES if self.data is None else read_only(self.data),
            NO_INTEGERS if self.offsets is None else read_only(self.offsets),
            read_only(self.hashes),
        )


class KeyCodec:
    """Encodes key columns of fixed types as `KeyBatch`, and decodes them.

    Raises:
        PlanError: a type cannot be a key, or there are more than 32 key columns.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        if len(types) > MAX_KEY_COLUMNS:
            raise PlanError(f"{len(types)} key columns are too many: at most {MAX_KEY_COLUMNS}.")
        self.types = tuple(types)
        self._widths = [word_count(type_) for type_ in types]
        self._strings = sum(is_bytes(type_) for type_ in types)

    @property
    def words(self) -> int:
        """The number of words of a key (k of `KeyBatch.words`)."""
        return sum(self._widths)

    @property
    def has_bytes(self) -> bool:
        """Whether a key has a byte string."""
        return self._strings > 0

    def encode(self, columns: Sequence[pa.Array], rows: int | None = None) -> KeyBatch:
        """Bring the key columns of a batch into canonical form and hash them.

        One int64 column or one string column without nulls is not copied. `rows` is needed only without key columns.

        Raises:
            SchemaError: a column does not hold values of its declared type.
        """
        parts = [read_column(*pair) for pair in zip(columns, self.types, strict=True)]
        length = len(columns[0]) if columns else rows or 0
        hashes = self._fold([_hashes(*item) for item in zip(columns, self.types, parts, strict=True)], length)
        data, offsets = self._join_bytes(parts)
        return KeyBatch(self._join_words(parts, length), _join_nulls(parts), data, offsets, hashes)

    def hash(self, columns: Sequence[pa.Array], rows: int | None = None) -> NDArray[np.uint64]:
        """Hash the key columns of a batch, equal to ``encode(columns).hashes``."""
        pairs = zip(columns, self.types, strict=True)
        length = len(columns[0]) if columns else rows or 0
        return self._fold([_hashes(column, type_, None) for column, type_ in pairs], length)

    def decode(
        self,
        words: NDArray[np.int64],
        nulls: NDArray[np.uint32] | None = None,
        data: NDArray[np.uint8] | None = None,
        offsets: NDArray[np.int64] | None = None,
    ) -> list[pa.Array]:
        """Undo `encode`: the key columns in their declared types."""
        columns = []
        first = 0
        strings = self._split_bytes(data, offsets)
        for index, (type_, width) in enumerate(zip(self.types, self._widths, strict=True)):
            null = None if nulls is None else (nulls >> np.uint32(index)) & np.uint32(1) != 0
            if width:
                parts = tuple(words[:, first + word] for word in range(width))
                column: KeyColumn = WordColumn(parts, null)
            else:
                column = ByteColumn(*strings.pop(0), null)
            columns.append(write_column(column, type_))
            first += width
        return columns

    def _fold(self, hashes: list[NDArray[np.uint64]], length: int) -> NDArray[np.uint64]:
        """Combine the columns' hashes: one stays as it is, several mix their number and each one's place."""
        if len(hashes) == 1:
            return hashes[0]
        folded = np.full(length, kernels.mix(np.uint64(len(hashes))), np.uint64)
        for part in hashes:
            kernels.fold_hashes(folded, read_only(part))
        return folded

    def _join_words(self, parts: list[KeyColumn], length: int) -> NDArray[np.int64]:
        columns = [word for part in parts if isinstance(part, WordColumn) for word in part.words]
        if len(columns) == 1:
            return columns[0].reshape(-1, 1)
        words = np.empty((length, len(columns)), np.int64)
        for index, column in enumerate(columns):
            words[:, index] = column
        return words

    def _join_bytes(self, parts: list[KeyColumn]) -> tuple[NDArray[np.uint8] | None, NDArray[np.int64] | None]:
        texts = [part for part in parts if isinstance(part, ByteColumn)]
        if len(texts) < 2:
            return (texts[0].data, texts[0].offsets) if texts else (None, None)
        lengths = np.full(len(texts[0].offsets) - 1, _LENGTH_PREFIX_BYTES * len(texts), np.int64)
        for text in texts:
            lengths += np.diff(text.offsets)
        offsets = _offsets(lengths)
        data = np.empty(offsets[-1], np.uint8)
        cursor = offsets[:-1].copy()
        for text in texts:
            kernels.append_parts(read_only(text.data), read_only(text.offsets), data, cursor)
        return data, offsets

    def _split_bytes(
        self, data: NDArray[np.uint8] | None, offsets: NDArray[np.int64] | None
    ) -> list[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        if data is None or offsets is None:
            return []
        if self._strings == 1:
            return [gather_bytes(data, offsets[:-1], np.diff(offsets))]
        strings = []
        cursor = offsets[:-1].copy()
        for _ in range(self._strings):
            length = np.zeros(len(cursor), np.int64)
            for byte in range(_LENGTH_PREFIX_BYTES):
                length |= data[cursor + byte].astype(np.int64) << (8 * byte)
            cursor += _LENGTH_PREFIX_BYTES
            strings.append(gather_bytes(data, cursor, length))
            cursor += length
        return strings


def gather_bytes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy byte strings behind each other: (data, offsets), offsets from 0."""
    offsets = _offsets(lengths)
    gathered = np.empty(offsets[-1], np.uint8)
    kernels.copy_segments(read_only(data), read_only(starts), read_only(lengths), gathered, read_only(offsets[:-1]))
    return gathered, offsets


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _hashes(column: pa.Array, type_: pa.DataType, part: KeyColumn | None) -> NDArray[np.uint64]:
    if not pt.is_dictionary(column.type) or len(column.dictionary) > len(column):
        return (part or read_column(column, type_)).hashes()
    entries = np.append(_hashes(column.dictionary, type_, None), kernels.NULL_HASH)
    hashes: NDArray[np.uint64] = entries[column.indices.fill_null(0).to_numpy()]
    if column.indices.null_count:
        hashes[pc.is_null(column.indices).to_numpy(zero_copy_only=False)] = kernels.NULL_HASH
    return hashes


def _join_nulls(parts: list[KeyColumn]) -> NDArray[np.uint32] | None:
    nulls = None
    for index, part in enumerate(parts):
        if part.nulls is not None:
            bit = part.nulls.astype(np.uint32) << np.uint32(index)
            nulls = bit if nulls is None else nulls | bit
    return nulls
