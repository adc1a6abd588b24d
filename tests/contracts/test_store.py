"""One suite for every backend of keyed state: tables against a plain dictionary, and the rules at their edges."""

import json
import math
from collections import Counter, defaultdict
from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.model.errors import BugError, SchemaError, StateBudgetError
from penstock.state.keys import KeyCodec
from penstock.state.memory_store import MemoryStore
from penstock.state.store import Bag, Fixed, Objects, TableSpec, Text

BACKENDS = {"memory": MemoryStore}

OBJECTS = Objects(encode=lambda item: json.dumps(item).encode(), decode=json.loads, size=lambda item: 8 * len(item))
COLUMNS = {
    "sum": Fixed(np.dtype(np.int64)),
    "seen": Fixed(np.dtype(np.bool_)),
    "text": Text(pa.string()),
    "bag": Bag(pa.float64()),
    "list": OBJECTS,
}

integers = st.none() | st.integers(-3, 12)
texts = st.none() | st.sampled_from(["", "a", "b", "ab", "grüße", "a text of more than eight bytes"])
floats = st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.5, -math.inf])
decimals = st.none() | st.sampled_from([Decimal(text) for text in ("0.00", "1.00", "1.10", "-20.00")])
times = st.none() | st.sampled_from([datetime(2024, 1, 1), datetime(1969, 1, 1, 0, 0, 0, 5)])
KEYS = {
    "int": [(pa.int64(), integers)],
    "small int": [(pa.int8(), integers)],
    "text": [(pa.string(), texts)],
    "float": [(pa.float64(), floats)],
    "int text": [(pa.int32(), integers), (pa.string(), texts)],
    "text binary": [
        (pa.string(), texts),
        (pa.binary(), texts.map(lambda text: None if text is None else text.encode())),
    ],
    "decimal time": [(pa.decimal128(6, 2), decimals), (pa.timestamp("us"), times)],
    "none": [],
}

# Prefixes at the ends of int64 and shared ones.
prefixes = st.sampled_from([-(2**63), -1, 0, 5, 10, 2**63 - 1])


@pytest.fixture(params=BACKENDS)
def store(request):
    return BACKENDS[request.param]("op")


def canonical(value):
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def encode(types, rows):
    columns = [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
    return KeyCodec(types).encode(columns, len(rows))


def integer_keys(*values):
    return encode([pa.int64()], [(value,) for value in values])


def slots_of(*slots):
    return np.array(slots, np.int64)


def blank():
    return {"sum": 0, "seen": False, "text": None, "bag": Counter(), "list": None}


class TableMachine(RuleBasedStateMachine):
    """Random calls on a table and the same on a dictionary from (prefix, key) to cells."""

    backend = MemoryStore
    key_columns = KEYS["int"]
    prefixed = False

    def __init__(self):
        super().__init__()
        self.types = tuple(type_ for type_, _ in self.key_columns)
        self.spec = TableSpec("t", self.types, COLUMNS, self.prefixed)
        self.store = self.backend("op")
        self.table = self.store.table(self.spec)
        self.model = defaultdict(blank)
        self.slot = {}

    def draw(self, data, most=12):
        key = st.tuples(*(values for _, values in self.key_columns))
        rows = data.draw(st.lists(st.tuples(prefixes if self.prefixed else st.none(), key), max_size=most))
        keys = encode(self.types, [row for _, row in rows])
        prefix = np.array([p for p, _ in rows], np.int64) if self.prefixed else None
        return keys, prefix, [(p, tuple(canonical(value) for value in row)) for p, row in rows]

    def chosen(self, data):
        ids = sorted(self.slot, key=repr)
        return data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []

    def slots(self, ids):
        return slots_of(*(self.slot[key] for key in ids))

    @rule(data=st.data())
    def upsert(self, data):
        keys, prefix, ids = self.draw(data)
        located = self.table.upsert(keys, prefix)
        fresh = [key for key in dict.fromkeys(ids) if key not in self.slot]
        for key, slot in zip(ids, located.slots.tolist(), strict=True):
            assert self.slot.setdefault(key, slot) == slot
        assert len(set(self.slot.values())) == len(self.slot)
        assert located.fresh.tolist() == [self.slot[key] for key in fresh]
        for key in fresh:
            assert self.model[key] == blank()
        self.check(fresh)

    @rule(start=st.integers(100, 10_000), count=st.integers(1, 600))
    def upsert_many_and_remove_half(self, start, count):
        if self.types != (pa.int64(),):
            return
        ids = [(5 if self.prefixed else None, (start + i,)) for i in range(count)]
        prefix = np.full(count, 5) if self.prefixed else None
        located = self.table.upsert(integer_keys(*(key for _, (key,) in ids)), prefix)
        self.slot.update(zip(ids, located.slots.tolist(), strict=True))
        for key in ids:
            self.model[key] = blank()
        gone = ids[::2]
        self.table.remove(self.slots(gone))
        for key in gone:
            del self.model[key], self.slot[key]

    @rule(data=st.data())
    def find(self, data):
        keys, prefix, ids = self.draw(data)
        assert self.table.find(keys, prefix).tolist() == [self.slot.get(key, -1) for key in ids]

    @rule(data=st.data(), amount=st.integers(-5, 5))
    def change_fixed(self, data, amount):
        ids = self.chosen(data)
        self.table.array("sum")[self.slots(ids)] += amount
        self.table.array("seen")[self.slots(ids)] = True
        for key in ids:
            self.model[key]["sum"] += amount
            self.model[key]["seen"] = True

    @rule(data=st.data())
    def change_text(self, data):
        ids = self.chosen(data)
        ids += ids[: len(ids) // 2]
        values = data.draw(st.lists(texts, min_size=len(ids), max_size=len(ids)))
        self.table.text("text").set(self.slots(ids), pa.array(values, pa.string()))
        for key, value in zip(ids, values, strict=True):
            self.model[key]["text"] = value

    @rule(data=st.data(), weighted=st.booleans())
    def change_bags(self, data, weighted):
        ids = self.chosen(data)
        ids += ids[: len(ids) // 2]
        values = data.draw(st.lists(floats, min_size=len(ids), max_size=len(ids)))
        counts = [1] * len(ids)
        if weighted:
            counts = data.draw(st.lists(st.integers(-2, 2), min_size=len(ids), max_size=len(ids)))
        self.table.bag("bag").add(
            self.slots(ids), pa.array(values, pa.float64()), np.array(counts) if weighted else None
        )
        for key, value, count in zip(ids, values, counts, strict=True):
            bag = self.model[key]["bag"]
            bag[canonical(value)] += count
            if not bag[canonical(value)]:
                del bag[canonical(value)]

    @rule(data=st.data())
    def absorb_bags(self, data):
        ids = self.chosen(data)
        into = ids[::-1]
        self.table.bag("bag").absorb(self.slots(into), self.table.bag("bag"), self.slots(ids))
        copies = [Counter(self.model[key]["bag"]) for key in ids]
        for key, copy in zip(into, copies, strict=True):
            bag = self.model[key]["bag"]
            for value, count in copy.items():
                bag[value] += count
                if not bag[value]:
                    del bag[value]

    @rule(data=st.data(), item=st.lists(st.integers(0, 9)))
    def change_objects(self, data, item):
        for key in self.chosen(data):
            self.table.objects("list")[self.slot[key]] = item
            self.model[key]["list"] = item

    @rule(data=st.data())
    def remove(self, data):
        self.forget(self.chosen(data))

    @rule(first=prefixes, end=prefixes)
    def ask_by_prefix(self, first, end):
        if not self.prefixed:
            return
        for got, low, high in (
            (self.table.slots_below(end), None, end),
            (self.table.slots_between(first, end), first, end),
        ):
            expected = [key for key in self.slot if (low is None or low <= key[0]) and key[0] < high]
            assert sorted(got.tolist()) == sorted(self.slot[key] for key in expected)
            assert (np.diff(self.table.prefixes(got).astype(object)) >= 0).all()
        assert self.table.first_prefix() == min((p for p, _ in self.slot), default=None)

    @rule(end=prefixes)
    def remove_below(self, end):
        if self.prefixed:
            self.table.remove(self.table.slots_below(end))
            for key in [key for key in self.slot if key[0] < end]:
                del self.model[key], self.slot[key]

    @rule(split=st.integers(0, 8))
    def move_key_groups(self, split):
        """What is scanned, deleted and loaded elsewhere is there, and only there."""
        before = dict(self.cells(sorted(self.slot, key=repr)))
        target = self.backend("op").table(self.spec)
        for batch in self.table.scan(range(split), 8):
            batch.validate(full=True)
            target.load(batch)
        moved = {}
        for slot, key in zip(target.live().tolist(), self.keys_of(target, target.live()), strict=True):
            moved[key] = slot
        self.table.delete_range(range(split), 8)
        left = set(self.keys_of(self.table, self.table.live()))
        assert left | set(moved) == set(self.slot)
        assert not left & set(moved)
        assert dict(self.cells(moved, target, moved)) == {key: before[key] for key in moved}
        for key in moved:
            del self.model[key], self.slot[key]

    @invariant()
    def live_slots_hold_their_keys_and_cells(self):
        live = self.table.live()
        assert sorted(live.tolist()) == sorted(self.slot.values())
        assert dict(zip(self.keys_of(self.table, live), live.tolist(), strict=True)) == self.slot
        self.check(list(self.slot))
        statistics = self.table.statistics()
        assert statistics.rows == len(self.slot)
        assert statistics.bytes_used == self.store.bytes_used()

    def keys_of(self, table, slots):
        columns = [column.to_pylist() for column in table.key_columns(slots)]
        for column, type_ in zip(table.key_columns(slots), self.types, strict=True):
            column.validate(full=True)
            assert column.type == type_
        prefix = table.prefixes(slots).tolist() if self.prefixed else [None] * len(slots)
        return [(prefix[i], tuple(canonical(column[i]) for column in columns)) for i in range(len(slots))]

    def check(self, ids):
        for key, cells in self.cells(ids):
            assert cells == self.model[key]

    def cells(self, ids, table=None, slot=None):
        table, slot = table or self.table, slot or self.slot
        ids = list(ids)
        slots = slots_of(*(slot[key] for key in ids))
        bags = defaultdict(Counter)
        positions, values, counts = table.bag("bag").items(slots)
        assert (np.diff(positions) >= 0).all()
        for position, value, count in zip(positions.tolist(), values.to_pylist(), counts.tolist(), strict=True):
            bags[position][canonical(value)] = count
        distinct = table.bag("bag").distinct(slots).tolist()
        text = table.text("text").get(slots)
        text.validate(full=True)
        for i, key in enumerate(ids):
            assert distinct[i] == sum(count > 0 for count in bags[i].values())
            yield (
                key,
                {
                    "sum": int(table.array("sum")[slots[i]]),
                    "seen": bool(table.array("seen")[slots[i]]),
                    "text": text[i].as_py(),
                    "bag": bags[i],
                    "list": table.objects("list")[slots[i]],
                },
            )

    def forget(self, ids):
        self.table.remove(self.slots(ids))
        for key in ids:
            del self.model[key], self.slot[key]


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
    table = store.table(TableSpec("t", (pa.string(),), {"n": Fixed(np.dtype(np.int64))}))
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
    assert list(table.scan(range(8), 8)) == []
    assert table.live().tolist() == []


def test_the_same_name_is_the_same_table(store):
    spec = TableSpec("t", (pa.int64(),), {"a": Fixed(np.dtype(np.int64))})
    assert store.table(spec) is store.table(TableSpec("t", (pa.int64(),), {"a": Fixed(np.dtype(np.int64))}))
    with pytest.raises(SchemaError, match="'t'"):
        store.table(TableSpec("t", (pa.int32(),)))
    with pytest.raises(SchemaError, match="'t'"):
        store.log("t", pa.schema([]))
    store.log("a log", pa.schema([]))
    assert store.names() == ["a log", "t"]


def test_text_cells_grow_shrink_and_pack(store):
    table = store.table(TableSpec("t", (pa.int64(),), {"text": Text(pa.large_string())}))
    slots = table.upsert(integer_keys(*range(50))).slots
    cells = table.text("text")
    for length in (10, 300, 3, 5_000, 0, 40):
        values = [None if i % 7 == 3 else str(i) * (length + i) for i in range(50)]
        cells.set(slots, pa.array(values))
        assert cells.get(slots).to_pylist() == values
        assert cells.get(slots).type == pa.large_string()
    assert store.bytes_used() < 4 * 50 * 2 * 90 + 100_000


def test_repeated_changes_do_not_leak(store):
    columns = {"text": Text(pa.string()), "bag": Bag(pa.string())}
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


def test_a_budget_stops_growth_and_leaves_the_table_as_it_was(store):
    store.set_budget(100_000)
    table = store.table(TableSpec("t", (pa.string(),), {"n": Fixed(np.dtype(np.int64))}, prefixed=True))
    first = table.upsert(encode([pa.string()], [("a",), ("b",)]), np.array([1, 2]))
    rows = [(f"key number {i}",) for i in range(20_000)]
    with pytest.raises(StateBudgetError, match=r"operator 'op' .* budget is 100,000 bytes"):
        table.upsert(encode([pa.string()], rows), np.arange(20_000))
    assert store.bytes_used() <= 100_000
    assert sorted(table.live().tolist()) == sorted(first.slots.tolist())
    assert table.first_prefix() == 1
    assert table.slots_below(100).tolist() == first.slots.tolist()
    store.set_budget(None)
    assert len(table.upsert(encode([pa.string()], rows), np.arange(20_000)).fresh) == 20_000
    assert table.slots_between(1, 2).size == 2
    with pytest.raises(StateBudgetError):
        store.set_budget(100_000)


@pytest.mark.parametrize("column", ["text", "bag", "list"])
def test_every_kind_of_column_is_budgeted(store, column):
    table = store.table(TableSpec("t", (pa.int64(),), {column: COLUMNS[column]}))
    slots = table.upsert(integer_keys(*range(20))).slots
    store.set_budget(store.bytes_used() + 30_000)
    with pytest.raises(StateBudgetError, match="'op'"):
        for i in range(100):
            if column == "text":
                table.text("text").set(slots, pa.array(["x" * 100 * i] * 20))
            elif column == "bag":
                table.bag("bag").add(slots, pa.array(np.arange(20) + 1000.0 * i))
            else:
                table.objects("list")[slots[0]] = [0] * 100 * i
                table.upsert(integer_keys(*range(20)))
    assert store.bytes_used() < 60_000


def test_tables_and_logs_share_the_budget(store):
    log = store.log("l", pa.schema([("a", pa.int64())]))
    store.set_budget(50_000)
    log.append(pa.record_batch({"a": np.arange(5_000)}))
    table = store.table(TableSpec("t", (pa.int64(),)))
    with pytest.raises(StateBudgetError):
        table.upsert(integer_keys(*range(1_000)))
    log.remove(log.live())
    table.upsert(integer_keys(*range(500)))
    assert store.bytes_used() == log.bytes_used() + table.statistics().bytes_used


def test_misuse_is_a_bug_with_a_name(store):
    table = store.table(TableSpec("plain", (pa.int64(),), {"n": Fixed(np.dtype(np.int64))}))
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


def test_key_groups_split_a_table_without_overlap(store):
    table = store.table(TableSpec("t", (pa.int64(),)))
    table.upsert(integer_keys(*range(1_000)))
    parts = [range(start, start + 16) for start in range(0, 128, 16)]
    keys = [[key for batch in table.scan(part, 128) for key in batch.column(0).to_pylist()] for part in parts]
    assert sorted(key for part in keys for key in part) == list(range(1_000))
    assert min(map(len, keys)) > 80
    table.delete_range(parts[3], 128)
    assert table.statistics().rows == 1_000 - len(keys[3])
    assert list(table.scan(parts[3], 128)) == []
