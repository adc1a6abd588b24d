"""Dumped stores loaded elsewhere: split by key group and merged again, everything that refers to a row still does."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import SchemaError
from penstock.model.key_groups import key_groups_at
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import FixedColumn, TableSpec, TextColumn
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import EMPTY, StoreDump, StoreImage, chosen_of, is_of_one_key, positions_of, referring

INT = np.dtype(np.int64)
CODEC = KeyCodec([pa.int64()])
ROWS = pa.schema(
    [pa.field("key", pa.int64()), pa.field("text", pa.string()), referring(pa.field("older", pa.int64()), "rows")]
)
HEADS = TableSpec("heads", (pa.int64(),), {"newest": FixedColumn(INT, refers="rows")})
NOTES = TableSpec(
    "notes",
    (pa.string(),),
    {"head": FixedColumn(INT, refers="heads", base=1), "t": TextColumn(pa.string())},
    follows="head",
)


class Chains:
    """Rows of a key linked from newest to oldest, and a note by text that goes where a key goes."""

    def __init__(self, image=EMPTY, locate=None):
        self.store = MemoryStore("op", image=image)
        self.heads = self.store.table(HEADS)
        self.notes = self.store.table(NOTES)
        self.log = self.store.log("rows", ROWS, locate)

    def add(self, key, text):
        keys = CODEC.encode([pa.array([key])])
        located = self.heads.upsert(keys)
        newest = self.heads.array("newest")
        older = -1 if len(located.fresh) else int(newest[located.slots[0]])
        row = pa.RecordBatch.from_arrays([pa.array([key]), pa.array([text]), pa.array([older])], schema=ROWS)
        newest[located.slots] = self.log.append(row, positions_of(keys.hashes))
        note = self.notes.upsert(KeyCodec([pa.string()]).encode([pa.array([f"note {key}"])])).slots
        self.notes.array("head")[note] = located.slots + 1
        self.notes.text("t").set(note, pa.array([text]))

    def drop_all_but_newest(self, key):
        slot = self.heads.find(CODEC.encode([pa.array([key])]))
        newest = self.heads.array("newest")[slot]
        row = self.log.take(newest)
        gone = list(self.ids(int(newest[0])))[1:]
        self.log.remove(np.array(gone, np.int64))
        columns = [row.column(0), row.column(1), pa.array([-1])]
        kept = self.log.append(
            pa.RecordBatch.from_arrays(columns, schema=ROWS), positions_of(CODEC.encode([row.column(0)]).hashes)
        )
        self.log.remove(newest.copy())
        self.heads.array("newest")[slot] = kept

    def ids(self, newest):
        while newest >= 0:
            yield newest
            newest = self.log.take(np.array([newest])).column("older")[0].as_py()

    def shown(self):
        slots = self.heads.live()
        keys = self.heads.key_columns(slots)[0].to_pylist()
        chains = {}
        for key, slot in zip(keys, slots, strict=True):
            ids = np.array(list(self.ids(int(self.heads.array("newest")[slot]))))
            chains[key] = [text.as_py() for text in self.log.take(ids).column("text")]
        notes = {}
        for slot in self.notes.live().tolist():
            head = int(self.notes.array("head")[slot]) - 1
            key = self.heads.key_columns(np.array([head]))[0][0].as_py()
            notes[key] = self.notes.text("t").get(np.array([slot]))[0].as_py()
        assert notes.keys() == chains.keys()
        return {key: (chain, notes[key]) for key, chain in chains.items()}

    def part(self):
        batches = {}
        for name, rows in self.store.contents():
            rows.validate(full=True)
            batches.setdefault(name, []).append(rows)
        return StoreDump(batches)


def locate(rows):
    return positions_of(CODEC.hash([rows.column("key")]))


STEPS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("aadd!")), max_size=60)


def run(chains, steps, start=0):
    expected = chains.shown()
    for number, (key, what) in enumerate(steps, start):
        if what == "!" and key in expected:
            chains.drop_all_but_newest(key)
            expected[key] = (expected[key][0][:1], expected[key][1])
        else:
            text = f"{key}.{number}"
            chains.add(key, text)
            expected[key] = ([text, *expected.get(key, ([], ""))[0]], text)
    assert chains.shown() == expected
    return expected


@given(STEPS, STEPS, st.integers(0, 8), st.booleans())
def test_state_split_by_key_group_and_merged_again_goes_on(steps, more, split, located):
    where = locate if located else None
    whole = Chains(locate=where)
    expected = run(whole, steps)
    parts = []
    for low in (True, False):
        image = StoreImage([whole.part()], lambda positions, low=low: (key_groups_at(positions, 8) < split) == low)
        half = Chains(image, where)
        assert half.shown().items() <= expected.items()
        parts.append(half.part())
    merged = Chains(StoreImage(parts), where)
    assert merged.shown() == expected
    run(merged, more, start=1_000)


@given(STEPS, STEPS, st.integers(0, 8), st.booleans())
def test_dumps_chosen_of_a_dump_are_loaded_as_it_is(steps, more, split, located):
    where = locate if located else None
    whole = Chains(locate=where)
    expected = run(whole, steps)
    low, high = (
        chosen_of(whole.part(), lambda positions, low=low: (key_groups_at(positions, 8) < split) == low)
        for low in (True, False)
    )
    assert Chains(StoreImage([low]), where).shown().items() <= expected.items()
    merged = Chains(StoreImage([high, low]), where)
    assert merged.shown() == expected
    run(merged, more, start=1_000)


@given(STEPS)
def test_a_dump_of_one_key_is_told_from_those_of_several(steps):
    """By its tables, its logs, and tables whose rows follow others, alone and together."""
    chains = Chains()
    keys = run(chains, steps)
    assert is_of_one_key(chains.part()) == (len(keys) < 2)
    for name, batches in chains.part().batches.items():
        assert is_of_one_key(StoreDump({name: batches})) == (len(keys) < 2 or name == "notes")


def test_columns_that_are_new_are_null_if_that_is_accepted_and_changed_ones_refused():
    chains = Chains()
    chains.add(1, "a")
    image = StoreImage([chains.part()])
    more = ROWS.append(pa.field("more", pa.int8()))
    with pytest.raises(SchemaError, match=r"'op' needs the column 'more' \(int8\), which the rows that it kept do not"):
        MemoryStore("op", image=image).log("rows", more)
    image = StoreImage([replace(chains.part(), lenient=True)])
    wider = MemoryStore("op", image=image).log("rows", more)
    assert next(wider.dump()).to_pylist() == [
        {
            "$id": 0,
            "$position": int(locate(chains.log.take(np.array([0])))[0]),
            "key": 1,
            "text": "a",
            "older": -1,
            "more": None,
        }
    ]
    for schema in (
        pa.schema([pa.field("key", pa.string())]),
        ROWS.append(pa.field("more", pa.int8(), nullable=False)),
    ):
        with pytest.raises(SchemaError, match="'op'"):
            MemoryStore("op", image=image).log("rows", schema)
    with pytest.raises(SchemaError, match="newest"):
        MemoryStore("op", image=image).table(TableSpec("heads", (pa.int64(),)))
    assert image.names() == {"heads", "notes", "rows"}


def test_what_nobody_opens_again_is_refused() -> None:
    store = MemoryStore("pairs", image=StoreImage([StoreDump({"left": [], "right_rows": []})]))
    store.log("left", pa.schema({"a": pa.int64()}))
    with pytest.raises(SchemaError, match="'pairs' was written by another pipeline: nothing reads its right_rows now"):
        store.forget_image()
