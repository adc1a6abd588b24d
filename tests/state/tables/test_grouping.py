from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.tables.grouping import KeyGrouper

texts = st.none() | st.sampled_from(["", "a", "b", "ab", "a text of more than eight bytes"])
rows_of_keys = st.lists(st.tuples(texts, st.none() | st.integers(-2, 2), texts, st.integers(-1, 1)))
CODEC = KeyCodec([pa.string(), pa.int64(), pa.string()])


def encode(rows):
    types = (pa.string(), pa.int64(), pa.string())
    return CODEC.encode([pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)], len(rows))


def expected(rows):
    numbers = {}
    groups = [numbers.setdefault(row, len(numbers)) for row in rows]
    return groups, [groups.index(number) for number in range(len(numbers))]


@settings(deadline=None)
@given(rows_of_keys, st.booleans(), st.booleans())
def test_groups_are_equal_keys(rows, prefixed, same_hash):
    keys = encode(rows)
    if same_hash:
        keys = replace(keys, hashes=np.zeros(len(rows), np.uint64))
    prefix = np.array([row[3] for row in rows], np.int64) if prefixed else None
    groups, first = KeyGrouper().group(keys, prefix)
    assert (groups.tolist(), first.tolist()) == expected([row if prefixed else row[:3] for row in rows])
    assert groups.dtype == first.dtype == np.int64


@pytest.mark.parametrize("distinct", [1, 100, 129, 5_000, 40_000])
def test_one_grouper_for_batches_of_any_size(distinct):
    grouper = KeyGrouper()
    rng = np.random.default_rng(distinct)
    for size in (40_000, 1, 300):
        values = rng.integers(0, distinct, size)
        groups, first = grouper.group(KeyCodec([pa.int64()]).encode([pa.array(values)]))
        assert (values[first][groups] == values).all()
        assert len(np.unique(values)) == len(first)
        assert (np.diff(first) > 0).all()


def test_keys_without_columns_are_one_group():
    groups, first = KeyGrouper().group(KeyCodec([]).encode([], rows=3))
    assert groups.tolist() == [0, 0, 0]
    assert first.tolist() == [0]
