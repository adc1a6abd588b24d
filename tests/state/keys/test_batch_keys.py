import math
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import NumericOverflowError, PlanError, SchemaError
from penstock.state.keys.batch_keys import KeyCodec

VALUES = {
    pa.int8(): [1, -128, 127, None, 0],
    pa.uint16(): [1, 65_535, None, 0],
    pa.uint64(): [2**64 - 1, 0, None],
    pa.int64(): [2**63 - 1, -(2**63), None],
    pa.bool_(): [True, None, False, True],
    pa.float16(): [0.5, None, 2.0],
    pa.float32(): [0.5, None, math.inf],
    pa.float64(): [0.1, None, -1e300],
    pa.date32(): [date(2024, 2, 29), None, date(1969, 12, 31)],
    pa.date64(): [date(2024, 2, 29), None, date(1969, 12, 31)],
    pa.time32("s"): [time(23, 59, 59), None],
    pa.time64("ns"): [time(1, 2, 3, 4), None],
    pa.timestamp("s"): [datetime(2024, 1, 1), None, datetime(1900, 1, 1)],
    pa.timestamp("ms"): [datetime(2024, 1, 1, 1, 1, 1, 5_000), None],
    pa.timestamp("us", "Europe/Berlin"): [datetime(2024, 1, 1, 0, 0, 0, 7), None],
    pa.timestamp("ns"): [datetime(2024, 1, 1, 0, 0, 0, 7), None],
    pa.duration("ms"): [timedelta(milliseconds=-3), None],
    pa.decimal128(5, 2): [Decimal("1.10"), None, Decimal("-0.01"), Decimal("100.00")],
    pa.decimal128(38, 0): [Decimal(10**38 - 1), Decimal(-(10**37)), None, Decimal(2**64)],
    pa.decimal128(38, 38): [Decimal(1).scaleb(-38), None],
    pa.string(): ["", "a", None, "grüße", "x" * 40],
    pa.large_string(): ["", "a", None],
    pa.string_view(): ["", "longer than twelve bytes", None],
    pa.binary(): [b"", b"\x00", None],
    pa.large_binary(): [b"\xff", None],
    pa.binary_view(): [b"\xff" * 20, None],
    pa.binary(3): [b"abc", None, b"\x00\x00\x00"],
    pa.dictionary(pa.int8(), pa.string()): ["a", None, "b", "a"],
    pa.dictionary(pa.int32(), pa.int64()): [5, None, 6, 5],
}


def round_trip(codec, columns):
    keys = codec.encode(columns)
    return codec.decode(keys.words, keys.nulls, keys.data, keys.offsets)


@pytest.mark.parametrize(("type_", "values"), VALUES.items(), ids=str)
def test_every_type_comes_back(type_, values):
    column = pa.array(values, type_)
    codec = KeyCodec([type_])
    for part in (column, column.slice(1), column.slice(1, 1), column.slice(0, 0)):
        (back,) = round_trip(codec, [part])
        back.validate(full=True)
        assert back.type == type_
        assert back.to_pylist() == part.to_pylist()
    known = pa.array([value for value in values if value is not None], type_)
    assert round_trip(codec, [known])[0].to_pylist() == known.to_pylist()
    assert codec.encode([known]).nulls is None


def test_all_types_together_come_back():
    rows = 5
    columns = [pa.array((values * rows)[:rows], type_) for type_, values in list(VALUES.items())]
    codec = KeyCodec(list(VALUES))
    back = round_trip(codec, columns)
    assert [column.to_pylist() for column in back] == [column.to_pylist() for column in columns]


@pytest.mark.parametrize("type_", [pa.int64(), pa.timestamp("us"), pa.uint64()], ids=str)
def test_64_bit_words_are_not_copied(type_):
    column = pa.array(range(100), pa.int64()).view(type_).slice(7)
    keys = KeyCodec([type_]).encode([column])
    assert keys.words.shape == (93, 1)
    assert keys.words.ctypes.data == column.buffers()[1].address + 7 * 8
    assert keys.words.flags.c_contiguous


def test_one_string_column_is_not_copied():
    column = pa.array(["aa", "b", "", "cc"]).slice(1)
    keys = KeyCodec([pa.string(), pa.int64()]).encode([column, pa.array([1, 2, 3])])
    assert keys.data.ctypes.data == column.buffers()[2].address
    assert keys.offsets.tolist() == [2, 3, 3, 5]
    assert keys.words.tolist() == [[1], [2], [3]]


def test_layouts_of_text_are_one_key():
    texts = ["a", "", None, "grüße", "a", "more than twelve bytes"]
    codec = KeyCodec([pa.string()])
    plain = codec.encode([pa.array(texts)])
    layouts = [pa.array(texts, type_) for type_ in (pa.large_string(), pa.string_view())]
    dictionary = pa.array(texts).dictionary_encode()
    unused = pa.DictionaryArray.from_arrays([0, 1, None, 3, 0, 5], pa.array([*texts, "unused"]))
    null_entry = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 0, 5]), pa.array(texts))
    for column in (*layouts, dictionary, unused, null_entry, dictionary.slice(0)):
        keys = codec.encode([column])
        assert keys.hashes.tolist() == plain.hashes.tolist() == codec.hash([column]).tolist()
        assert keys.nulls.tolist() == plain.nulls.tolist() == [0, 0, 1, 0, 0, 0]
        assert codec.decode(keys.words, keys.nulls, keys.data, keys.offsets)[0].to_pylist() == texts
    assert codec.hash([dictionary.slice(3)]).tolist() == plain.hashes[3:].tolist()


def test_floats_are_canonical():
    odd_nan = np.array([0x7FF0000000000123], np.uint64).view(np.float64)[0]
    column = pa.array(np.array([0.0, -0.0, np.nan, odd_nan, -np.nan]))
    keys = KeyCodec([pa.float64()]).encode([column])
    assert keys.words[0] == keys.words[1]
    assert len({word for (word,) in keys.words[2:].tolist()}) == 1
    assert len(set(keys.hashes.tolist())) == 2


def test_decimals_have_no_trailing_zeros():
    codec = KeyCodec([pa.decimal128(38, 4)])
    numbers = ["1", "1.0000", "0.1", "-100", "0", "-123456789012345678901234567890.5"]
    column = pa.array([Decimal(number) for number in numbers], pa.decimal128(38, 4))
    words = codec.encode([column]).words
    assert words[0].tolist() == words[1].tolist() == [1, 0, 0]
    assert words[2].tolist() == [1, 0, 1]
    assert words[3].tolist() == [-1, -1, -2]
    assert words[4].tolist() == [0, 0, 0]
    low, high, scale = words[5].tolist()
    assert (high << 64) + low % 2**64 == -1234567890123456789012345678905
    assert scale == 1


def test_nanoseconds_keep_keys_apart_and_hash_as_microseconds():
    keys = KeyCodec([pa.timestamp("ns")]).encode([pa.array([1_000, 1_001]).view(pa.timestamp("ns"))])
    assert keys.words.tolist() == [[1_000], [1_001]]
    assert keys.hashes[0] == keys.hashes[1]


def test_words_and_bytes_under_nulls_are_zero():
    floats = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([5, 77], np.int32))])
    assert KeyCodec([pa.int32()]).encode([floats]).words.tolist() == [[5], [0]]
    buffers = [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"abc")]
    text = pa.Array.from_buffers(pa.string(), 2, buffers)
    keys = KeyCodec([pa.string()]).encode([text])
    assert np.diff(keys.offsets).tolist() == [1, 0]


def test_composite_text_is_unambiguous():
    codec = KeyCodec([pa.string(), pa.string()])
    columns = [pa.array(["ab", "a", ""]), pa.array(["c", "bc", "abc"])]
    keys = codec.encode(columns)
    parts = [keys.data[start:end].tobytes() for start, end in zip(keys.offsets[:-1], keys.offsets[1:], strict=True)]
    assert len(set(parts)) == len(set(keys.hashes.tolist())) == 3


def test_order_and_number_of_columns_matter():
    def hash_of(*columns):
        arrays = [pa.array(column, pa.int64()) for column in columns]
        return KeyCodec([pa.int64()] * len(columns)).hash(arrays).tolist()

    assert hash_of([1], [2]) != hash_of([2], [1])
    assert hash_of([1]) != hash_of([1], [None]) != hash_of([1], [None], [None])


def test_no_key_columns():
    keys = KeyCodec([]).encode([], rows=3)
    assert len(keys) == 3
    assert keys.words.shape == (3, 0)
    assert len(set(keys.hashes.tolist())) == 1


def test_many_null_bits():
    codec = KeyCodec([pa.int64()] * 32)
    columns = [pa.array([None, index], pa.int64()) for index in range(32)]
    keys = codec.encode(columns)
    assert keys.nulls.tolist() == [2**32 - 1, 0]
    assert [c.to_pylist() for c in round_trip(codec, columns)] == [[None, i] for i in range(32)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | st.text(max_size=9), st.none() | st.binary(max_size=9))))
def test_take(rows):
    texts = pa.array([text for text, _ in rows], pa.string())
    binaries = pa.array([binary for _, binary in rows], pa.binary())
    codec = KeyCodec([pa.string(), pa.int64(), pa.binary()])
    numbers = pa.array(range(len(rows)), pa.int64())
    keys = codec.encode([texts, numbers, binaries])
    indices = np.arange(len(rows) - 1, -1, -1).repeat(2)
    taken = keys.take(indices)
    again = codec.encode([column.take(pa.array(indices)) for column in (texts, numbers, binaries)])
    assert taken.hashes.tolist() == again.hashes.tolist()
    assert taken.words.tolist() == again.words.tolist()
    assert (taken.nulls is None) == (keys.nulls is None)
    assert taken.data[: taken.offsets[-1]].tobytes() == again.data[: again.offsets[-1]].tobytes()


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.null(),
        pa.decimal256(50, 2),
        pa.month_day_nano_interval(),
        pa.dictionary(pa.int8(), pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_other_types_cannot_be_keys(type_):
    with pytest.raises(PlanError, match="cannot be a key"):
        KeyCodec([type_])


def test_33_key_columns_are_too_many():
    with pytest.raises(PlanError, match="33 key columns"):
        KeyCodec([pa.int64()] * 33)


def test_a_column_of_another_kind_is_refused():
    with pytest.raises(SchemaError, match="int64 was given string"):
        KeyCodec([pa.int64()]).encode([pa.array(["1"])])
    with pytest.raises(SchemaError, match="does not fit"):
        KeyCodec([pa.int8()]).encode([pa.array([1_000])])
    assert KeyCodec([pa.int64()]).encode([pa.array([1], pa.int8())]).words.tolist() == [[1]]


def test_a_time_beyond_64_bits_of_microseconds_is_refused():
    far = pa.array([2**62], pa.int64()).view(pa.timestamp("s"))
    with pytest.raises(NumericOverflowError):
        KeyCodec([pa.timestamp("s")]).encode([far])


def test_key_batches_are_plain_values():
    keys = KeyCodec([pa.int64()]).encode([pa.array([1, 2])])
    assert replace(keys, hashes=np.zeros(2, np.uint64)).words is keys.words
