"""Budgets of every backend: growth stops with an error, and leaves everything as it was."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.model.errors import StateBudgetError
from penstock.state.store import FixedColumn, TableSpec
from tests.contracts.tables_support import COLUMNS, encode, integer_keys


def test_a_budget_stops_growth_and_leaves_the_table_as_it_was(store):
    store.set_budget(100_000)
    table = store.table(TableSpec("t", (pa.string(),), {"n": FixedColumn(np.dtype(np.int64))}, prefixed=True))
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
