"""The key hash is frozen: by a file of vectors, and by this reference written from its definition."""

import json
import struct
from decimal import Context, Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.state.keys.batch_keys import KeyCodec

VECTORS = json.loads(Path(__file__).with_name("key_hash_vectors.json").read_text("utf-8"))

WORD = 2**64 - 1
SEED = 0x9E3779B97F4A7C15
MURMUR = 0xC6A4A7935BD1E995
NULL = 0xA24BAED4963EE407
EXACT = Context(prec=60)


def mix(x):
    x = (x + SEED) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def murmur64a(text):
    h = SEED ^ (len(text) * MURMUR & WORD)
    full = len(text) // 8 * 8
    for (k,) in struct.iter_unpack("<Q", text[:full]):
        k = k * MURMUR & WORD
        k = (k ^ (k >> 47)) * MURMUR & WORD
        h = (h ^ k) * MURMUR & WORD
    if text[full:]:
        h = (h ^ int.from_bytes(text[full:], "little")) * MURMUR & WORD
    h = (h ^ (h >> 47)) * MURMUR & WORD
    return h ^ (h >> 47)


def float_bits(value):
    value = float(value)
    if value != value:
        return 0x7FF8000000000000
    return struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]


def decimal_words(value):
    sign, digits, exponent = Decimal(value).normalize(EXACT).as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    scale = -exponent if unscaled else 0
    return [unscaled & WORD, unscaled >> 64 & WORD, scale & WORD]


def value_hash(type_, value):
    if value is None:
        return NULL
    if type_ in ("string", "large_string"):
        return murmur64a(value.encode())
    if type_ == "binary":
        return murmur64a(bytes.fromhex(value))
    if type_ in ("float", "double"):
        return mix(float_bits(value))
    if type_.startswith("decimal"):
        first, *others = decimal_words(value)
        folded = mix(first)
        for word in others:
            folded = mix(folded ^ word)
        return folded
    if type_ == "date64":
        value //= 86_400_000
    scales = {"[s]": 1_000_000, "[ms]": 1_000}
    value *= next((scale for unit, scale in scales.items() if unit in type_), 1)
    if "[ns]" in type_:
        value //= 1_000
    return mix(int(value) & WORD)


def reference(types, columns):
    hashes = []
    for row in zip(*columns, strict=True):
        parts = [value_hash(*item) for item in zip(types, row, strict=True)]
        folded = mix(len(parts))
        for part in parts:
            folded = mix(folded ^ part)
        hashes.append(parts[0] if len(parts) == 1 else folded)
    return hashes


def arrow_type(name):
    if name.startswith("decimal128"):
        precision, scale = name[len("decimal128(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return pa.type_for_alias(name)


def arrow_column(name, values):
    type_ = arrow_type(name)
    if name in ("float", "double"):
        values = [None if value is None else float(value) for value in values]
    elif name == "binary":
        values = [None if value is None else bytes.fromhex(value) for value in values]
    elif name.startswith("decimal"):
        values = [None if value is None else Decimal(value) for value in values]
    elif type_.id != pa.bool_().id and pa.types.is_temporal(type_):
        storage = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array(values, storage).view(type_)
    return pa.array(values, type_)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: " ".join(case["types"]))
def test_vectors(case):
    types = [arrow_type(name) for name in case["types"]]
    columns = [arrow_column(*pair) for pair in zip(case["types"], case["columns"], strict=True)]
    frozen = [int(text, 16) for text in case["hashes"]]
    codec = KeyCodec(types)
    assert codec.hash(columns).tolist() == frozen
    assert codec.encode(columns).hashes.tolist() == frozen
    assert reference(case["types"], case["columns"]) == frozen


def test_equal_values_hash_alike_across_types():
    def hash_one(values, type_):
        return KeyCodec([type_]).hash([pa.array(values, type_)])[0]

    one = [Decimal(1)]
    assert hash_one(one, pa.decimal128(5, 1)) == hash_one(one, pa.decimal128(9, 4))
    assert hash_one([3], pa.int8()) == hash_one([3], pa.uint64())
    assert hash_one([0.5], pa.float32()) == hash_one([0.5], pa.float64())
    assert hash_one([7], pa.timestamp("s")) == hash_one([7_000_000_000], pa.timestamp("ns"))


def test_both_halves_of_the_hash_spread():
    hashes = KeyCodec([pa.int64()]).hash([pa.array(np.arange(65_536) * 4_096)])
    for shift in (0, 32, 57):
        counts = np.bincount((hashes >> np.uint64(shift)).astype(np.int64) % 128, minlength=128)
        assert counts.min() > 400
        assert counts.max() < 630
