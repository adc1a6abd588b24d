"""The lookup of repeated keys finds what the table itself finds."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.operators.key_lookup import KeyLookup
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import TableSpec
from penstock.state.stores.memory_store import MemoryStore


@pytest.mark.parametrize("distinct", [1, 50, 3_000, 10**9])
@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("kind", ["none", "word", "text", "both"])
def test_every_row_gets_the_slot_of_its_key(distinct: int, prefixed: bool, kind: str) -> None:
    rng = np.random.default_rng(distinct)
    types = {"none": (), "word": (pa.int64(),), "text": (pa.string(),), "both": (pa.string(), pa.int64(), pa.string())}
    codec = KeyCodec(types[kind])
    table = MemoryStore("op").table(TableSpec("t", types[kind], prefixed=prefixed))
    lookup = KeyLookup(table)
    created: list[int] = []
    for _ in range(40):
        count = int(rng.integers(1, 1_500))
        numbers = pa.array(rng.integers(0, distinct, count), mask=rng.random(count) < 0.05)
        words = [None if value is None else "text" * (value % 9) + str(value) for value in numbers.to_pylist()]
        texts = pa.array(words, pa.string())
        columns = [texts if pa.types.is_string(item) else numbers for item in types[kind]]
        keys = codec.encode(columns, count)
        prefix = rng.integers(0, 4, count) if prefixed else None
        located = lookup.upsert(keys, prefix)
        assert located.slots.tolist() == table.find(keys, prefix).tolist()
        created += located.fresh.tolist()
    assert sorted(created) == sorted(table.live().tolist())
