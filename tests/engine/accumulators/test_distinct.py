"""Several counts of distinct values over the same column share one bag; each must answer as if it were alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.accumulators.aggregation import Aggregation, BoundAggregation
from penstock.engine.accumulators.arrays import Rows
from penstock.engine.accumulators.bags import MOST_LANES
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import BagColumn, KeyedTable, TableSpec
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import SLOT
from tests.engine.accumulators.accumulators_support import table

Masks = list[NDArray[np.bool_] | None]

CALL = AggregateCall("count_distinct", (col("v"),))
KEY = (pa.int64(),)


def calls_of(count: int) -> list[AggregateCall]:
    """Return a count of all values and counts with filters, each another."""
    return [CALL, *(CALL.filter(col("w") > limit) for limit in range(count - 1))]


class Shared:
    """Counts of distinct values of four groups, and sets of them beside."""

    def __init__(self, count: int, updating: bool) -> None:
        self.aggregation = Aggregation(
            "op", [f"c{i}" for i in range(count)], calls_of(count), [[pa.int64()]] * count, updating
        )
        self.table, self.slots = table(self.aggregation.columns(), 4)
        self.bound = self.aggregation.bind(self.table)
        self.bound.reset(self.slots)
        self.count = count

    def update(self, rows: Sequence[tuple[int, int | None, int]], weights: list[int] | None) -> None:
        """Fold in (group, value, what filters look at)."""
        groups, values, seen = ([row[part] for row in rows] for part in range(3))
        array, looked = pa.array(values, pa.int64()), np.array(seen, np.int64)
        masks: Masks = [None, *(looked > limit for limit in range(self.count - 1))]
        signs = None if weights is None else np.array(weights, np.int8)
        folded = Rows(self.slots[np.array(groups, np.int64)], signs)
        self.bound.update(folded, [[array]] * self.count, masks)

    def results(self) -> list[list[int]]:
        """Return the counts of the groups, aggregate by aggregate."""
        return [column.to_pylist() for column in self.bound.results(self.slots)]


def expected(rows: Sequence[tuple[int, int | None, int]], count: int) -> list[list[int]]:
    limits = [-(2**60), *range(count - 1)]
    return [
        [
            len({value for group, value, seen in rows if group == wanted and value is not None and seen > limit})
            for wanted in range(4)
        ]
        for limit in limits
    ]


drawn = st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 4)), st.integers(-1, 3)), max_size=30)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(drawn, st.integers(1, 4), st.booleans(), st.integers(1, 7))
def test_each_answers_as_if_it_were_alone(rows: list[Any], count: int, updating: bool, size: int) -> None:
    shared = Shared(count, updating)
    for start in range(0, len(rows), size):
        shared.update(rows[start : start + size], None)
    assert shared.results() == expected(rows, count)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data(), drawn, st.integers(1, 4), st.integers(1, 7))
def test_rows_can_be_taken_back_in_any_order(data: st.DataObject, rows: list[Any], count: int, size: int) -> None:
    gone = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    changes = [(row, 1) for row in rows] + [(row, -1) for row, away in zip(rows, gone, strict=True) if away]
    changes = data.draw(st.permutations(changes))
    shared = Shared(count, updating=True)
    for start in range(0, len(changes), size):
        part = changes[start : start + size]
        shared.update([row for row, _ in part], [weight for _, weight in part])
    kept = [row for row, away in zip(rows, gone, strict=True) if not away]
    assert shared.results() == expected(kept, count)
    shared.update(kept, [-1] * len(kept))
    assert not len(shared.table.bag("a0.values").items(shared.slots)[0])


@pytest.mark.parametrize("updating", [False, True])
def test_large_batches_of_few_values_and_of_many(updating: bool) -> None:
    numbers = np.random.default_rng(3)
    shared, rows = Shared(3, updating), []
    for values in (5, 100_000, 5, 3_000):
        part = [
            (int(group), int(value), int(seen))
            for group, value, seen in zip(
                numbers.integers(0, 4, 700), numbers.integers(0, values, 700), numbers.integers(-1, 3, 700), strict=True
            )
        ]
        rows += part
        shared.update(part, None)
    assert shared.results() == expected(rows, 3)


@pytest.mark.parametrize("updating", [False, True])
def test_groups_merge(updating: bool) -> None:
    left, right = Shared(3, updating), Shared(3, updating)
    rows = [(group, value, value % 4) for group in range(4) for value in range(group + 3)]
    more = [(group, value + 2, value % 3) for group, value, _ in rows]
    left.update(rows, None)
    right.update(more, None)
    left.bound.absorb(left.slots, right.bound, right.slots)
    assert left.results() == expected([*rows, *more], 3)


@pytest.mark.parametrize("updating", [False, True])
def test_shared_bags_move_with_their_keys(updating: bool) -> None:
    shared = Shared(3, updating)
    shared.update([(0, 1, 5), (0, 2, -1), (1, 1, 0), (3, None, 1)], None)
    other = MemoryStore("op").table(shared.table.spec)
    for batch in shared.table.dump():
        other.load(batch.drop_columns([SLOT]))
    bound = shared.aggregation.bind(other)
    assert sorted(zip(*(column.to_pylist() for column in bound.results(other.live())), strict=True)) == sorted(
        zip(*shared.results(), strict=True)
    )
    keep_going(bound, other)


def keep_going(bound: BoundAggregation, moved: KeyedTable) -> None:
    """Check that a value that moved is still known."""
    before = [column.to_pylist() for column in bound.results(moved.live())]
    _, values, _ = moved.bag("a0.values").items(moved.live())
    slots = moved.live()[moved.bag("a0.values").items(moved.live())[0]]
    bound.update(Rows(slots), [[values]] * 3, [None, np.zeros(len(slots), np.bool_), np.zeros(len(slots), np.bool_)])
    assert [column.to_pylist() for column in bound.results(moved.live())] == before


def test_equal_columns_share_and_too_many_do_not() -> None:
    types = [[pa.int64()]] * 3
    others = [CALL, AggregateCall("count_distinct", (col("u"),)), CALL.filter(col("w") > 1)]
    assert Aggregation("op", ["a", "b", "c"], others, types).owners == [0, 1, 0]
    assert Aggregation("op", ["a", "b", "c"], others, types, sharing=False).owners == [0, 1, 2]
    many = MOST_LANES + 2
    assert Aggregation("op", [str(i) for i in range(many)], calls_of(many), types[:1] * many).owners[-2:] == [63, 63]


def test_a_set_takes_a_value_once() -> None:
    store = MemoryStore("op").table(TableSpec("t", KEY, {"set": BagColumn(pa.string(), counted=False)}))
    slots = np.array([0, 0, 1, 0], np.int64)
    store.upsert(KeyCodec(KEY).encode([pa.array([7, 8])]))
    effects = store.bag("set").add(slots, pa.array(["a", "a", "a", None]))
    assert effects.tolist() == [1, 0, 1, 1]
    assert store.bag("set").distinct(np.array([0, 1])).tolist() == [2, 1]
    assert store.bag("set").items(np.array([1]))[2].tolist() == [1]
