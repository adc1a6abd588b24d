"""What `MemoryStore.changes` says: as long as its number stays, the store holds the same."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import FixedColumn, TableSpec, TextColumn
from penstock.state.stores.memory_store import MemoryStore

CODEC = KeyCodec([pa.int64()])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "find", "remove", "text", "scratch", "log"]),
        st.integers(0, 5),
        st.text("ab", max_size=2),
    ),
    max_size=20,
)


def keys(number):
    return CODEC.encode([pa.array([number])], 1)


def held(store):
    return [(name, rows.to_pylist()) for name, rows in store.contents()]


class Driven:
    """A store with a table of texts, a table that is scratch, a log, and maybe a table with arrays."""

    def __init__(self, fixed):
        self.store = MemoryStore("op")
        self.texts = self.store.table(TableSpec("texts", (pa.int64(),), {"t": TextColumn(pa.string())}))
        self.scratch = self.store.table(TableSpec("scratch", (pa.int64(),), lasting=False))
        self.log = self.store.log("log", pa.schema({"x": pa.int64()}))
        if fixed:
            self.fixed = self.store.table(TableSpec("fixed", (pa.int64(),), {"n": FixedColumn(np.dtype(np.int64))}))

    def do(self, what, key, text):
        if what == "upsert":
            self.texts.upsert(keys(key))
        elif what == "scratch":
            self.scratch.upsert(keys(key))
        elif what == "log":
            self.log.append(pa.record_batch({"x": [key]}), np.array([key], np.uint32))
        else:
            slots = self.texts.find(keys(key))
            slots = slots[slots >= 0]
            if what == "remove":
                self.texts.remove(slots)
            elif what == "text" and len(slots):
                self.texts.text("t").set(slots, pa.array([text]))


@given(STEPS, st.booleans())
def test_the_same_number_is_the_same_content(steps, fixed):
    driven = Driven(fixed)
    known = {driven.store.changes(): held(driven.store)}
    last = driven.store.changes()
    for step in steps:
        driven.do(*step)
        changes = driven.store.changes()
        if changes is None:
            assert driven.log.rows()
            continue
        assert changes >= last
        last = changes
        assert known.setdefault(changes, held(driven.store)) == held(driven.store)


@given(STEPS)
def test_nobody_knows_of_rows_in_logs_nor_of_arrays_in_use(steps):
    driven = Driven(fixed=True)
    for step in steps:
        driven.do(*step)
    assert (driven.store.changes() is None) == bool(driven.log.rows())
    driven.fixed.upsert(keys(1))
    assert driven.store.changes() is None


def test_reading_and_scratch_change_nothing():
    driven = Driven(fixed=False)
    driven.do("upsert", 1, "")
    before = driven.store.changes()
    driven.do("find", 1, "")
    driven.do("scratch", 1, "")
    assert driven.store.changes() == before
    driven.do("text", 1, "b")
    assert driven.store.changes() > before
