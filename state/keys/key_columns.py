"""Conversion of a key column between Arrow and the canonical form that is hashed, compared and stored.

`batch_keys` puts columns together to keys (docs/design/keys-and-hashing.md 1).
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.model.errors import NumericOverflowError, PlanError, SchemaError
from penstock.state.kernels import byte_strings as kernels
from penstock.state.kernels.decimals import restore_zeros, strip_zeros
from penstock.state.keys.arrays import read_only
from penstock.state.keys.text_arrays import is_text, read_text, write_text

Words = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_TO_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
_MILLISECONDS_A_DAY: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class WordColumn:
    """The canonical form of n fixed-width values: one or more words, int64[n] each, 0 where null.

    ``nulls`` is True where the value is null (None: nowhere). ``in_nanoseconds``: the word counts nanoseconds, which
    keeps keys apart that share a microsecond, but it is hashed as microseconds like every other time.
    """

    words: tuple[Words, ...]
    nulls: NDArray[np.bool_] | None = None
    in_nanoseconds: bool = False

    def hashes(self) -> Hashes:
        """Hash every value: uint64[n]."""
        first = self.words[0] // 1_000 if self.in_nanoseconds else self.words[0]
        hashes = np.empty(len(first), np.uint64)
        kernels.hash_words(read_only(first), hashes)
        for word in self.words[1:]:
            kernels.fold_hashes(hashes, read_only(word).view(np.uint64))
        return _with_nulls(hashes, self.nulls)


@dataclass(frozen=True, slots=True)
class ByteColumn:
    """The canonical form of n byte strings, empty where null: data[offsets[i]:offsets[i + 1]]."""

    data: NDArray[np.uint8]
    offsets: Words
    nulls: NDArray[np.bool_] | None = None

    def hashes(self) -> Hashes:
        """Hash every value: uint64[n]."""
        hashes = np.empty(len(self.offsets) - 1, np.uint64)
        kernels.hash_bytes(read_only(self.data), read_only(self.offsets), hashes)
        return _with_nulls(hashes, self.nulls)


KeyColumn = WordColumn | ByteColumn


def word_count(type_: pa.DataType) -> int:
    """Return how many words a value of this type takes; 0 for byte strings.

    Raises:
        PlanError: the type cannot be a key.
    """
    type_ = _plain(type_)
    if is_bytes(type_):
        return 0
    if pt.is_decimal(type_) and type_.bit_width <= 128:
        return 3
    if _dtype(type_) is not None or pt.is_boolean(type_):
        return 1
    raise PlanError(
        f"a column of type {type_} cannot be a key: use numbers, booleans, decimals up to 38 digits, dates, times, "
        "strings or binaries."
    )


def is_bytes(type_: pa.DataType) -> bool:
    """Whether values of this type are byte strings (text, binary, dictionaries of them)."""
    type_ = _plain(type_)
    return is_text(type_) or _is_binary(type_)


def read_column(column: pa.Array, type_: pa.DataType) -> KeyColumn:
    """Bring a column into canonical form; without copying for 64-bit integers and strings without nulls.

    Raises:
        SchemaError: the column does not hold values of `type_`, whatever their width or layout.
        NumericOverflowError: a time is too far away for microseconds in 64 bits.
    """
    column = _as_declared(column, _plain(type_))
    nulls = None
    if column.null_count:
        nulls = pc.is_null(column).to_numpy(zero_copy_only=False)
    if is_bytes(column.type):
        return _read_bytes(column, nulls)
    if pt.is_decimal(column.type):
        return _read_decimals(column, nulls)
    if pt.is_floating(column.type):
        words = _read_floats(column)
    elif pt.is_boolean(column.type):
        words = _fixed(column.cast(pa.uint8()), np.dtype(np.uint8)).astype(np.int64)
    else:
        words = _read_integers(column, nulls)
    if nulls is not None:
        words = np.where(nulls, 0, words)
    return WordColumn((words,), nulls, in_nanoseconds=_unit(column.type) == "ns")


def write_column(column: KeyColumn, type_: pa.DataType) -> pa.Array:
    """Undo `read_column`: an array of this type."""
    if pt.is_dictionary(type_):
        return write_column(column, type_.value_type).dictionary_encode().cast(type_)
    validity = None
    if column.nulls is not None and column.nulls.any():
        validity = _bitmap(~column.nulls)
    if isinstance(column, ByteColumn):
        return _write_bytes(column, type_, validity)
    length = len(column.words[0])
    if pt.is_decimal(type_):
        raw = np.empty((length, 2), np.int64)
        restore_zeros(read_only(np.column_stack(column.words)), type_.scale, raw)
        wide = pa.decimal128(38, type_.scale)
        return pa.Array.from_buffers(wide, length, [validity, pa.py_buffer(raw)]).cast(type_)
    if pt.is_boolean(type_):
        return pa.Array.from_buffers(type_, length, [validity, _bitmap(column.words[0] != 0)])
    words = np.ascontiguousarray(column.words[0])
    dtype: Any = _dtype(type_)
    if pt.is_floating(type_):
        values = words.view(np.float64).astype(dtype)
    elif pt.is_date64(type_):
        values = words * _MILLISECONDS_A_DAY
    else:
        scale = _TO_MICROSECONDS.get(_unit(type_), 1)
        values = (words if scale == 1 else words // scale).astype(dtype)
    return pa.Array.from_buffers(type_, length, [validity, pa.py_buffer(values)])


def _with_nulls(hashes: Hashes, nulls: NDArray[np.bool_] | None) -> Hashes:
    if nulls is not None:
        hashes[nulls] = kernels.NULL_HASH
    return hashes


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pt.is_dictionary(type_) else type_


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_binary_view(type_) or pt.is_fixed_size_binary(type_)
    )


def _unit(type_: pa.DataType) -> str:
    timed = pt.is_timestamp(type_) or pt.is_time(type_) or pt.is_duration(type_)
    return str(type_.unit) if timed else ""


def _dtype(type_: pa.DataType) -> np.dtype[Any] | None:
    """Return the numpy type of the values buffer; None for types that have no such buffer."""
    if pt.is_integer(type_) or pt.is_floating(type_):
        numeric: np.dtype[Any] = np.dtype(type_.to_pandas_dtype())
        return numeric
    if pt.is_date32(type_) or pt.is_time32(type_):
        return np.dtype(np.int32)
    if pt.is_temporal(type_) and not pt.is_interval(type_):
        return np.dtype(np.int64)
    return None


def _family(type_: pa.DataType) -> str:
    if is_text(type_):
        return "text"
    if _is_binary(type_):
        return "binary"
    tests = ("integer", "floating", "decimal", "date", "timestamp", "time", "duration", "boolean")
    return next((name for name in tests if getattr(pt, f"is_{name}")(type_)), str(type_))


def _as_declared(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == type_:
        return column
    if _family(column.type) != _family(type_):
        raise SchemaError(f"a key column declared as {type_} was given {column.type}.")
    try:
        return column.cast(type_)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"a key column declared as {type_} was given {column.type} with a value that does not fit: {error}."
        ) from None


def _fixed(column: pa.Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(column) == 0:
        return np.zeros(0, dtype)
    start = column.offset * dtype.itemsize
    return np.frombuffer(column.buffers()[1], dtype, count=len(column), offset=start)


def _read_integers(column: pa.Array, nulls: NDArray[np.bool_] | None) -> Words:
    dtype: Any = _dtype(column.type)
    values = _fixed(column, dtype)
    if dtype.itemsize == 8:
        words: Words = values.view(np.int64)
    else:
        words = values.astype(np.int64)
    if pt.is_date64(column.type):
        return words // _MILLISECONDS_A_DAY
    scale = _TO_MICROSECONDS.get(_unit(column.type), 1)
    if scale == 1 or len(words) == 0:
        return words
    if nulls is not None:
        words = np.where(nulls, 0, words)
    limit = np.iinfo(np.int64).max // scale
    if words.max() > limit or words.min() < -limit:
        raise NumericOverflowError(
            f"a key column of type {column.type} holds a time that 64 bits of microseconds cannot hold."
        )
    return words * scale


def _read_floats(column: pa.Array) -> Words:
    """Return canonical bits: -0.0 becomes 0.0 and every NaN the same one."""
    values = _fixed(column, np.dtype(column.type.to_pandas_dtype()))
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like any other
        values = values.astype(np.float64) + 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


def _read_decimals(column: pa.Array, nulls: NDArray[np.bool_] | None) -> WordColumn:
    scale = column.type.scale
    column = column.cast(pa.decimal128(38, scale))
    raw = _fixed(column, np.dtype((np.void, 16))).view(np.int64).reshape(-1, 2)
    if nulls is not None:
        raw = np.where(nulls[:, None], 0, raw)
    words = np.empty((len(raw), 3), np.int64)
    strip_zeros(read_only(raw), scale, words)
    return WordColumn((words[:, 0], words[:, 1], words[:, 2]), nulls)


def _read_bytes(column: pa.Array, nulls: NDArray[np.bool_] | None) -> ByteColumn:
    if pt.is_fixed_size_binary(column.type) or pt.is_binary_view(column.type):
        column = column.cast(pa.binary())
    elif pt.is_string_view(column.type):
        column = column.cast(pa.string())
    if nulls is not None:
        column = column.fill_null(b"" if _is_binary(column.type) else "")
    data, offsets = read_text(column)
    return ByteColumn(data, offsets, nulls)


def _write_bytes(column: ByteColumn, type_: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    if pt.is_fixed_size_binary(type_):
        values = np.zeros((len(column.offsets) - 1, type_.byte_width), np.uint8)
        present = slice(None) if column.nulls is None else ~column.nulls
        values[present] = column.data[: column.offsets[-1]].reshape(-1, type_.byte_width)
        return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(values)])
    return write_text(type_, column.data, column.offsets, validity)


def _bitmap(bits: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))
