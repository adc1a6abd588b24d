"""Rows that a store shows in its own memory are those that it copies, and what is encoded of them stays."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.paging.part_files import decode_part, encode_part
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import FixedColumn, TableSpec, TextColumn
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import dump_of

KEYS = (pa.int64(), pa.string(), pa.bool_(), pa.float64(), pa.timestamp("us"))
CODEC = KeyCodec(list(KEYS))
STEPS = st.lists(
    st.tuples(st.sampled_from(["upsert", "upsert", "remove"]), st.lists(st.integers(0, 40), max_size=12, unique=True)),
    max_size=8,
)


def keys(numbers: list[int]) -> list[pa.Array]:
    return [
        pa.array([None if number % 7 == 3 else number for number in numbers], pa.int64()),
        pa.array([f"key {number}" for number in numbers], pa.string()),
        pa.array([number % 2 == 0 for number in numbers], pa.bool_()),
        pa.array([number / 3 for number in numbers], pa.float64()),
        pa.array(numbers, pa.timestamp("us")),
    ]


class Driven:
    """A store with a table of every kind of key, with a prefix or not."""

    def __init__(self, prefixed: bool) -> None:
        columns = {
            "n": FixedColumn(np.dtype(np.int64)),
            "x": FixedColumn(np.dtype(np.float64)),
            "b": FixedColumn(np.dtype(np.bool_)),
            "t": TextColumn(pa.string()),
        }
        self.store = MemoryStore("op")
        self.table = self.store.table(TableSpec("table", KEYS, columns, prefixed=prefixed))
        self.prefixed = prefixed

    def do(self, what: str, numbers: list[int]) -> None:
        batch = CODEC.encode(keys(numbers), len(numbers))
        prefix = np.array(numbers, np.int64) % 3 if self.prefixed else None
        if what == "remove":
            slots = self.table.find(batch, prefix)
            self.table.remove(slots[slots >= 0])
            return
        slots = self.table.upsert(batch, prefix).slots
        self.table.array("n")[slots] += np.arange(len(slots)) + 1
        self.table.array("x")[slots] += 0.5
        self.table.array("b")[slots] ^= True
        self.table.text("t").set(slots, pa.array(["a" * (number % 9) for number in numbers], pa.string()))


@given(STEPS, st.booleans())
def test_shared_rows_are_those_that_are_copied(steps: list[tuple[str, list[int]]], prefixed: bool) -> None:
    driven = Driven(prefixed)
    for what, numbers in steps:
        driven.do(what, numbers)
        shared, copied = dump_of(driven.store.contents(shared=True)), dump_of(driven.store.contents())
        assert shared is not None and copied is not None
        encoded = encode_part(shared)
        assert encoded.equals(encode_part(copied))
        before = [rows.to_pylist() for rows in copied.batches["table"]]
        driven.do("upsert", [1, 2, 41])
        assert [rows.to_pylist() for rows in decode_part(encoded, "here").batches["table"]] == before


def test_rows_that_lie_together_are_shown_where_they_are() -> None:
    driven = Driven(prefixed=False)
    driven.do("upsert", list(range(9)))
    shown, gathered = (next(iter(driven.table.dump(shared=shared))).column("n") for shared in (True, False))
    driven.table.array("n")[0] = 77
    assert (shown[0].as_py(), gathered[0].as_py()) == (77, 1)
    driven.do("remove", [4])
    shown = next(iter(driven.table.dump(shared=True))).column("n")
    driven.table.array("n")[0] = 78
    assert shown[0].as_py() == 77, "a slot is free, so rows are gathered"
