"""Vectors of doubles by slot: free until one is written, zero where none was, the same in a dump loaded elsewhere."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.model.errors import StateBudgetError
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import INTEGER, KeyedTable, Slots, TableSpec, VectorColumn
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreDump, StoreImage

SPEC = TableSpec("t", (pa.int64(),), {"n": INTEGER, "v": VectorColumn(3)})


def slots_of(table: KeyedTable, count: int) -> Slots:
    return table.upsert(KeyCodec(SPEC.key_types).encode([pa.array(np.arange(count))], count)).slots


def loaded(table: KeyedTable) -> KeyedTable:
    dump = StoreDump({"t": list(table.dump())})
    return MemoryStore("op", image=StoreImage([dump])).table(SPEC)


def test_nothing_is_allocated_before_a_vector_is_written() -> None:
    store, plain = MemoryStore("op"), MemoryStore("op")
    table, without = store.table(SPEC), plain.table(TableSpec("t", SPEC.key_types, {"n": INTEGER}))
    slots_of(table, 1_000)
    table.remove(slots_of(table, 10))
    slots_of(without, 1_000)
    assert not table.vectors("v").is_used
    assert store.bytes_used() == plain.bytes_used()
    assert not loaded(table).vectors("v").is_used
    table.vectors("v").rows()
    assert store.bytes_used() >= plain.bytes_used() + 1_000 * 3 * 8


def test_vectors_grow_with_the_table_and_are_zero_again_in_slots_that_are_used_again() -> None:
    table = MemoryStore("op").table(SPEC)
    slots = slots_of(table, 4)
    table.vectors("v").rows()[slots] = 7.0
    more = slots_of(table, 5_000)
    assert table.vectors("v").rows()[more].sum() == 4 * 3 * 7.0
    table.remove(slots)
    assert not table.vectors("v").rows()[slots_of(table, 4)].any()


def test_a_dump_loaded_elsewhere_has_the_same_vectors() -> None:
    table = MemoryStore("op").table(SPEC)
    slots = slots_of(table, 5)
    table.vectors("v").rows()[slots[1]] = [1.0, -0.5, np.inf]
    table.vectors("v").rows()[slots[3]] = [0.0, 0.0, 1e-300]
    (rows,) = table.dump()
    assert rows.column("v").null_count == 3
    again = loaded(table)
    expected = table.vectors("v").rows()[slots_of(table, 5)]
    assert again.vectors("v").rows()[slots_of(again, 5)].tolist() == expected.tolist()


def test_vectors_beyond_the_budget_are_refused_and_nothing_is_allocated() -> None:
    store = MemoryStore("op")
    table = store.table(SPEC)
    slots_of(table, 1_000)
    store.set_budget(store.bytes_used() + 100)
    with pytest.raises(StateBudgetError, match="'op' needs"):
        table.vectors("v").rows()
    assert not table.vectors("v").is_used
