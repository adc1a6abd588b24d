"""Rows that wait for the watermark come out by time and own columns, however they came in."""

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.ordered_rows import OrderedRows, sort_keys, tie_order, without_late
from penstock.engine.operators.row_chunks import ChunkRows, RowChunks
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreImage
from tests.engine.restarts import HALF, locate_by, part_of

FIELDS = pa.schema([("at", pa.int64()), ("k", pa.int64()), ("v", pa.string()), ("l", pa.list_(pa.int64()))])

rows_of_any_time = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 8),
            "k": st.integers(0, 2),
            "v": st.one_of(st.none(), st.sampled_from("ab")),
            "l": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 1)), max_size=2)),
        }
    ),
    max_size=60,
)


def order_of(row: dict[str, Any]) -> tuple[Any, ...]:
    listed = None if row["l"] is None else [(value is not None, value or 0) for value in row["l"]]
    return (row["at"], row["v"] is not None, row["v"] or "", listed is not None, listed or [])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows_of_any_time, st.sampled_from([1, 3, 100]), st.integers(0, 10**6))
def test_each_key_comes_in_order(rows: list[dict[str, Any]], at_once: int, seed: int) -> None:
    cut = random.Random(seed)
    store = MemoryStore("op")
    waiting = OrderedRows(store, "rows", FIELDS)
    pending, out = list(rows), []

    def release(before: int) -> None:
        for batch, times_us in waiting.release(before, at_once):
            assert times_us.tolist() == batch["at"].to_pylist()
            groups = batch["k"].to_numpy()
            order = tie_order(batch, times_us, groups, 3)
            out.extend((batch if order is None else batch.take(pa.array(order))).to_pylist())

    while pending:
        size = cut.randint(1, 7)
        taken, pending = pending[:size], pending[size:]
        batch = pa.RecordBatch.from_pylist(taken, schema=FIELDS)
        waiting.add(batch, batch["at"].to_numpy())
        if cut.random() < 0.5:
            release(min([row["at"] for row in pending], default=0))
    release(END_OF_TIME_US)
    assert len(waiting) == 0
    assert [row["at"] for row in out] == sorted(row["at"] for row in rows)
    for key in range(3):
        mine = [row for row in out if row["k"] == key]
        assert mine == sorted([row for row in rows if row["k"] == key], key=order_of)


@pytest.mark.parametrize(
    "ascending",
    [
        pa.array([None, False, True]),
        pa.array([None, -5, 0, 7]),
        pa.array([None, 0, 2**63 - 1, 2**64 - 1], pa.uint64()),
        pa.array([None, -1.5, 0.0, 2.0, float("inf"), float("nan")]),
        pa.array([None, Decimal("-1.5"), Decimal("0.3"), Decimal(10)], pa.decimal128(30, 3)),
        pa.array([None, Decimal("-1.5"), Decimal("0.3")], pa.decimal256(50, 3)),
        pa.array([None, "", "a", "ab", "b", "é"]),
        pa.array([None, b"\0a", b"\0b", b"zz"], pa.binary(2)),
        pa.array([None, -1, 0, 5], pa.timestamp("ms", "UTC")),
        pa.array([None, {"a": None, "b": "z"}, {"a": 1, "b": None}, {"a": 1, "b": "a"}]),
        pa.array([None, [], [None], [0], [0, None], [0, 0], [1]]),
        pa.array([None, [["b"]], [["b"], []], [["c"]]]),
        pa.array([None, [("a", 1)], [("a", 2)], [("b", 0)]], pa.map_(pa.string(), pa.int64())),
        pa.array([None, [0, 5], [1, 2]], pa.list_(pa.int64(), 2)),
        pa.array([None, "a", "b"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_every_type_has_a_total_order(ascending: pa.Array) -> None:
    shuffled = [*range(len(ascending)), *range(len(ascending))]
    random.Random(0).shuffle(shuffled)
    # A slice, so that offsets into buffers are not forgotten.
    column = pa.concat_arrays([ascending[:1], ascending.take(pa.array(shuffled))])[1:]
    order = np.lexsort(tuple(reversed(sort_keys(column))))
    assert [shuffled[index] for index in order] == sorted(shuffled)


def test_values_without_order_still_have_equal_keys() -> None:
    one, other = (pa.scalar(value, pa.month_day_nano_interval()) for value in ((1, 2, 3), (1, 2, 4)))
    keys = sort_keys(pa.array([one, other, one])[1:])
    assert any(key[0] != key[1] for key in keys)
    assert sort_keys(pa.nulls(3)) == []


def test_late_rows_are_split_off() -> None:
    batch, counters = Batch(pa.record_batch({"v": [1, 2, 3]})), RowCounters()
    times_us = np.array([5, 3, 4])
    for passed_us, kept, kept_us, late in ((3, [1, 2, 3], [5, 3, 4], []), (5, [1], [5], [2, 3])):
        emitted = without_late(batch, times_us, passed_us, counters)
        emissions = []
        while True:
            try:
                emissions.append(next(emitted))
            except StopIteration as end:
                rows, rest_us = end.value
                break
        assert (rows["v"].to_pylist(), rest_us.tolist()) == (kept, kept_us)
        assert [row for _, part in emissions for row in part.rows["v"].to_pylist()] == late
    assert counters.late == 2


def test_chunks_of_any_size_are_found_again_after_a_restart() -> None:
    store = MemoryStore("op")
    fields = pa.schema([("v", pa.int64())])
    chunks = RowChunks(store, "rows", fields)
    cut = random.Random(3)
    places: list[int] = []
    for _ in range(50):
        more = [cut.randint(0, 30) for _ in range(cut.choice([0, 1, 2, 40]))]
        chunks.add(pa.record_batch([pa.array(more, pa.int64())], schema=fields), np.array(more, np.int64))
        places += more
    chunks.drop_below(10)
    image = StoreImage([part_of(store)])
    for again in (chunks, RowChunks(MemoryStore("op", image=image), "rows", fields)):
        assert len(again) == sum(place >= 10 for place in places)
        assert again.first() == min(place for place in places if place >= 10)
        waiting = ChunkRows.concat(again.below(20))
        assert sorted(waiting.at.tolist()) == sorted(place for place in places if 10 <= place < 20)
        assert again.take(waiting.ids)["v"].to_pylist() == waiting.at.tolist()
    assert RowChunks(store, "none", fields).below(20) == []
    assert RowChunks(store, "none", fields).first() is None


def test_rows_go_where_their_keys_go() -> None:
    fields = pa.schema([("v", pa.int64())])
    store = MemoryStore("op")
    rows = OrderedRows(store, "rows", fields, locate_by("v"))
    rows.add(pa.record_batch([pa.array(range(20))], schema=fields), np.arange(20)[::-1].copy())
    halves: list[list[int]] = []
    for low in (True, False):
        image = StoreImage([part_of(store)], lambda positions, low=low: (positions < HALF) == low)
        again = OrderedRows(MemoryStore("op", image=image), "rows", fields, locate_by("v"))
        batches = [batch for batch, _ in again.release(100, 3)]
        halves.append([value for batch in batches for value in batch["v"].to_pylist()])
    assert sorted(halves[0] + halves[1]) == list(range(20))
    assert all(half == sorted(half, reverse=True) and half for half in halves)
