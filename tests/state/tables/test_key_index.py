"""The index beyond the sizes that the contract suite draws: prefetching, huge pages, packing."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.state.keys.arrays import read_only, zeros
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.tables.budget import Account, Budget
from penstock.state.tables.key_index import KeyIndex, estimate_distinct
from penstock.state.tables.prefix_lists import PrefixLists

KEYS = 150_000


def new_index(type_, prefixed):
    account = Account(Budget("op", None))
    codec = KeyCodec([type_])
    lists = PrefixLists(account, ordered=True) if prefixed else None
    return codec, KeyIndex(codec, lists, account, lambda slots: None), account


@pytest.mark.parametrize("prefixed", [False, True], ids=["plain", "prefixed"])
@pytest.mark.parametrize("type_", [pa.int64(), pa.string()], ids=str)
def test_a_large_index(type_, prefixed):
    codec, index, _ = new_index(type_, prefixed)
    numbers = np.arange(KEYS) * 1_000_003
    keys = codec.encode([pa.array(numbers).cast(type_)])
    prefix = np.arange(KEYS) % 5 if prefixed else None
    slots, fresh = index.locate(keys, prefix, create=True)
    assert slots.tolist() == fresh.tolist() == list(range(KEYS))
    rng = np.random.default_rng(0)
    gone = rng.choice(KEYS, KEYS // 2, replace=False)
    index.remove(gone)
    expected = np.arange(KEYS)
    expected[gone] = -1
    assert (index.locate(keys, prefix, create=False)[0] == expected).all()
    kept = np.flatnonzero(expected >= 0)
    assert (index.live() == kept).all()
    assert (index.key_columns(kept)[0].cast(pa.int64()).to_numpy() == numbers[kept]).all()
    again, fresh = index.locate(keys, prefix, create=True)
    assert sorted(fresh.tolist()) == sorted(gone.tolist())
    assert (again[kept] == kept).all()
    assert (index.key_columns(again)[0].cast(pa.int64()).to_numpy() == numbers).all()
    if prefixed:
        other = (prefix + 1) % 5
        assert (index.locate(keys, other, create=False)[0] == -1).all()


def test_bytes_of_removed_keys_are_packed_away():
    codec, index, account = new_index(pa.string(), prefixed=False)
    sizes = []
    before = np.zeros(0, np.int64)
    for step in range(50):
        keys = codec.encode([pa.array([f"a rather long key {step} {i}" for i in range(1_000)])])
        located, _ = index.locate(keys, None, create=True)
        index.remove(before)
        before = located
        sizes.append(account.used_bytes)
    assert len(index) == 1_000
    assert max(sizes[20:]) <= max(sizes[:20])


def test_removed_slots_come_back_ascending():
    codec, index, _ = new_index(pa.int64(), prefixed=False)
    index.locate(codec.encode([pa.array(range(10))]), None, create=True)
    index.remove(np.array([2, 5, 7]))
    _, fresh = index.locate(codec.encode([pa.array([100, 101, 102, 103])]), None, create=True)
    assert fresh.tolist() == [2, 5, 7, 10]


@pytest.mark.parametrize("shape", [(10,), (1_000_000, 3)])
def test_zeros(shape):
    array = zeros(shape, np.int64)
    assert array.shape == shape
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert not array.any()
    array[-1] = 1
    assert array.sum() == array[-1].sum()


def test_read_only_is_the_same_memory():
    array = np.arange(6)
    view = read_only(array)
    assert view.ctypes.data == array.ctypes.data
    assert not view.flags.writeable
    assert array.flags.writeable
    assert read_only(array[::2]).tolist() == [0, 2, 4]
    assert read_only(array[::2]).flags.c_contiguous


@pytest.mark.parametrize(
    ("rows", "distinct"), [(0, 0), (1, 1), (2, 1), (2, 2), (1_000, 1), (1_000, 1_000), (50_000, 9_000)]
)
def test_distinct_hashes_are_estimated(rows: int, distinct: int) -> None:
    values = np.random.default_rng(1).integers(0, 1 << 63, max(distinct, 1), np.int64).view(np.uint64)
    hashes = np.resize(values, rows)
    assert 0.95 * distinct - 1 <= estimate_distinct(hashes) <= min(rows, 1.05 * distinct + 1)
