"""Tables of every backend against a plain dictionary, and the rules at their edges."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

from penstock.model.errors import BugError
from penstock.state.store import BagColumn, FixedColumn, TableSpec, TextColumn
from tests.contracts.backends import BACKENDS
from tests.contracts.table_machine import KEYS, TableMachine
from tests.contracts.tables_support import COLUMNS, encode, integer_keys, slots_of


@pytest.mark.parametrize("prefixed", [False, True], ids=["plain", "prefixed"])
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_is_a_dictionary(backend, keys, prefixed):
    machine = type(
        "Machine",
        (TableMachine,),
        {"backend": BACKENDS[backend], "key_columns": KEYS[keys], "prefixed": prefixed},
    )
    machine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None, derandomize=True)
    machine.TestCase("runTest").runTest()


def test_slots_keep_order_of_first_appearance(store):
    table = store.table(TableSpec("t", (pa.int64(),)))
    located = table.upsert(integer_keys(7, 8, 7, 9, 8))
    first, second, third = located.fresh.tolist()
    assert located.slots.tolist() == [first, second, first, third, second]
    assert table.upsert(integer_keys(9, 7)).fresh.tolist() == []


def test_equal_hashes_never_merge_keys(store):
    for name, types, rows in (
        ("int", [pa.int64()], [(i,) for i in range(300)]),
        ("text", [pa.string()], [(str(i),) for i in range(300)]),
        ("null", [pa.int64(), pa.string()], [(None, ""), (0, None), (0, ""), (None, None)]),
    ):
        table = store.table(TableSpec(name, tuple(types)))
        keys = encode(types, rows)
        keys = type(keys)(keys.words, keys.nulls, keys.data, keys.offsets, np.zeros_like(keys.hashes))
        located = table.upsert(keys)
        assert len(set(located.slots.tolist())) == len(rows)
        assert table.find(keys).tolist() == located.slots.tolist()
        table.remove(located.slots[::2])
        assert table.find(keys)[1::2].tolist() == located.slots[1::2].tolist()
        assert (table.find(keys)[::2] == -1).all()
        assert list(zip(*(c.to_pylist() for c in table.key_columns(located.slots[1::2])), strict=True)) == rows[1::2]


def test_many_keys_in_batches_of_one(store):
    table = store.table(TableSpec("t", (pa.string(),), {"n": FixedColumn(np.dtype(np.int64))}))
    for i in range(1_000):
        slots = table.upsert(encode([pa.string()], [(str(i % 400),)])).slots
        table.array("n")[slots] += 1
    live = table.live()
    counts = dict(zip(table.key_columns(live)[0].to_pylist(), table.array("n")[live].tolist(), strict=True))
    assert counts == {str(i): 3 if i < 200 else 2 for i in range(400)}


def test_an_empty_batch(store):
    table = store.table(TableSpec("t", (pa.int64(),), COLUMNS))
    located = table.upsert(integer_keys())
    assert located.slots.tolist() == located.fresh.tolist() == table.find(integer_keys()).tolist() == []
    assert located.slots.dtype == located.fresh.dtype == np.int64
    table.remove(located.slots)
    assert table.text("text").get(located.slots).to_pylist() == []
    table.bag("bag").add(located.slots, pa.array([], pa.float64()))
    assert [len(part) for part in table.bag("bag").items(located.slots)] == [0, 0, 0]
    assert [rows.num_rows for rows in table.dump()] == [0]
    assert table.live().tolist() == []


def test_text_cells_grow_shrink_and_pack(store):
    table = store.table(TableSpec("t", (pa.int64(),), {"text": TextColumn(pa.large_string())}))
    slots = table.upsert(integer_keys(*range(50))).slots
    cells = table.text("text")
    for length in (10, 300, 3, 5_000, 0, 40):
        values = [None if i % 7 == 3 else str(i) * (length + i) for i in range(50)]
        cells.set(slots, pa.array(values))
        assert cells.get(slots).to_pylist() == values
        assert cells.get(slots).type == pa.large_string()
    assert store.bytes_used() < 4 * 50 * 2 * 90 + 100_000


def test_repeated_changes_do_not_leak(store):
    columns = {"text": TextColumn(pa.string()), "bag": BagColumn(pa.string())}
    table = store.table(TableSpec("t", (pa.string(),), columns, prefixed=True))
    sizes = []
    for round_ in range(60):
        rows = [(f"key {round_} {i}",) for i in range(100)]
        prefix = np.arange(100) // 30 + 10 * round_
        slots = table.upsert(encode([pa.string()], rows), prefix).slots
        table.text("text").set(slots, pa.array([f"text {i}" * 9 for i in range(100)]))
        table.bag("bag").add(slots, pa.array([f"value {round_} {i}" for i in range(100)]))
        table.remove(table.slots_below(10 * round_ - 5))
        sizes.append(store.bytes_used())
    assert max(sizes[20:]) <= max(sizes[:20])
    assert table.statistics().rows == 100


def test_misuse_is_a_bug_with_a_name(store):
    table = store.table(TableSpec("plain", (pa.int64(),), {"n": FixedColumn(np.dtype(np.int64))}))
    located = table.upsert(integer_keys(1, 2))
    table.remove(located.slots[:1])
    for misuse in (
        lambda: table.remove(located.slots[:1]),
        lambda: table.remove(slots_of(10**6)),
        lambda: table.upsert(integer_keys(1), slots_of(1)),
        table.first_prefix,
        lambda: table.slots_below(1),
        lambda: table.text("n"),
        lambda: table.array("m"),
    ):
        with pytest.raises(BugError):
            misuse()
