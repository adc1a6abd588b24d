"""Whole rows as keys: equal exactly where the values are, whatever the types."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.operators.row_identity import RowCodec
from penstock.model.errors import PlanError
from penstock.state.tables.grouping import KeyGrouper

STRUCT = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int64(), [0, 1, None]),
    "doubles": (pa.float64(), [0.0, float("nan"), None]),
    "text": (pa.string(), ["", "a", "ab", None]),
    "lists": (pa.list_(pa.int64()), [[], [0], [0, 0], [None], [0, None], None]),
    "texts": (pa.list_(pa.string()), [[], [""], ["", ""], ["a", "b"], ["ab"], ["ab", ""], ["", "ab"], [None], None]),
    "nested": (pa.list_(pa.list_(pa.int32())), [[], [[]], [[], []], [[1]], [[1], []], [[], [1]], [None], None]),
    "structs": (STRUCT, [{"x": 1, "y": ["a"]}, {"x": 1, "y": []}, {"x": None, "y": None}, None]),
    "of structs": (pa.large_list(STRUCT), [[], [None], [{"x": 0, "y": ["a", "b"]}], [{"x": 0, "y": ["ab"]}], None]),
    "pairs": (pa.list_(pa.string(), 2), [["a", "b"], ["ab", ""], ["", "ab"], None]),
    "maps": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", None)], [("a", 1), ("b", 1)], None]),
    "wide decimals": (pa.decimal256(50, 2), [Decimal("1.50"), Decimal(-2), None]),
    "intervals": (pa.month_day_nano_interval(), [(0, 0, 1), (1, 0, 0), (0, 1, 0), None]),
    "nothing": (pa.null(), [None]),
    "lists of nothing": (pa.list_(pa.null()), [[], [None], [None, None], None]),
}


def groups(rows: pa.RecordBatch) -> list[int]:
    keys = RowCodec(rows.schema).encode(rows)
    return KeyGrouper().group(keys)[0].tolist()


def partition(values: list[str]) -> list[int]:
    first: dict[str, int] = {}
    return [first.setdefault(value, len(first)) for value in values]


@settings(max_examples=200)
@given(st.data())
def test_rows_are_equal_where_their_values_are(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
    count, skipped = data.draw(st.integers(0, 25)), data.draw(st.integers(0, 3))
    columns = {}
    for name in names:
        kind, values = VALUES[name]
        drawn = [values[data.draw(st.integers(0, len(values) - 1))] for _ in range(count + skipped)]
        columns[name] = pa.array(drawn, kind)
    rows = pa.record_batch(columns).slice(skipped)
    assert groups(rows) == partition([repr(row) for row in rows.to_pylist()])


@pytest.mark.parametrize("columns", [31, 32, 33, 40, 80])
def test_any_number_of_columns(columns: int) -> None:
    plain = np.zeros((columns + 2, columns), np.int64)
    np.fill_diagonal(plain, 1)
    arrays = [pa.array(plain[:, index]) for index in range(columns)]
    texts = [column.cast(pa.string()) if index % 3 == 0 else column for index, column in enumerate(arrays)]
    rows = pa.RecordBatch.from_arrays(texts, [f"c{index}" for index in range(columns)])
    assert groups(rows) == [*range(columns), columns, columns]


def test_the_same_row_has_the_same_key_in_every_batch() -> None:
    kind, values = VALUES["of structs"]
    rows = pa.record_batch({"x": pa.array(values, kind)})
    codec = RowCodec(rows.schema)
    alone = [codec.encode(rows.slice(index, 1)).hashes[0] for index in range(len(values))]
    assert codec.encode(rows).hashes.tolist() == alone


def test_types_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(PlanError, match="cannot be a key"):
        RowCodec(pa.schema([("u", pa.dense_union([pa.field("x", pa.int64())]))]))
