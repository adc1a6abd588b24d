"""Random calls on a table of any backend, and the same calls on a dictionary."""

import math
from collections import Counter, defaultdict
from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.model.key_groups import key_groups_at
from penstock.state.store import TableSpec
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreDump, StoreImage
from tests.contracts.tables_support import COLUMNS, encode, integer_keys, slots_of

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
            self.model.setdefault(key, blank())
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
        """What is dumped, chosen by key group and loaded into two stores is there, each key in one of them."""
        before = dict(self.cells(sorted(self.slot, key=repr)))
        part = StoreDump({self.spec.name: list(self.table.dump())})
        found = {}
        for low in (True, False):
            image = StoreImage([part], lambda positions, low=low: (key_groups_at(positions, 8) < split) == low)
            target = self.backend("op", image=image).table(self.spec)
            moved = dict(zip(self.keys_of(target, target.live()), target.live().tolist(), strict=True))
            assert dict(self.cells(moved, target, moved)) == {key: before[key] for key in moved}
            assert not found.keys() & moved.keys()
            found |= moved
        assert found.keys() == self.slot.keys()

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


def canonical(value):
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def blank():
    return {"sum": 0, "seen": False, "text": None, "bag": Counter(), "list": None}
