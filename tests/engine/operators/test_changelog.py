"""Consolidation of changelogs, and columns compared value by value."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.operators.changelog import consolidate, same_values, weights_of, with_weights

FAST = settings(max_examples=80, deadline=None, derandomize=True)

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int64(), [0, 1, -1, None]),
    "doubles": (pa.float64(), [0.0, 1.5, float("nan"), float("inf"), None]),
    "text": (pa.string(), ["", "a", "b", None]),
    "lists": (pa.list_(pa.int64()), [[], [1], [1, 2], [None], None]),
    "structs": (pa.struct([("x", pa.int64()), ("y", pa.string())]), [{"x": 1, "y": "a"}, {"x": None, "y": "a"}, None]),
    "flags": (pa.bool_(), [True, False, None]),
    "nothing": (pa.null(), [None]),
}


def changelog(columns: dict[str, pa.Array], weights: list[int]) -> pa.RecordBatch:
    return with_weights(pa.record_batch(columns), np.array(weights, np.int8))


def tuples(rows: pa.RecordBatch) -> list[tuple[str, int]]:
    columns = [column.to_pylist() for column in rows.columns[:-1]]
    texts = [repr(row) for row in zip(*columns, strict=True)] if columns else [""] * rows.num_rows
    return list(zip(texts, weights_of(rows).tolist(), strict=True))


@FAST
@given(st.data())
def test_what_is_left_is_the_net_of_every_row_as_repetitions(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
    count = data.draw(st.integers(0, 25))
    columns = {
        name: pa.array([data.draw(st.sampled_from(VALUES[name][1])) for _ in range(count)], VALUES[name][0])
        for name in names
    }
    weights = [data.draw(st.sampled_from([1, -1])) for _ in range(count)]
    rows = changelog(columns, weights)
    left = tuples(consolidate(rows))
    net: Counter[str] = Counter()
    for text, weight in tuples(rows):
        net[text] += weight
    assert Counter(left) == Counter(
        {(text, 1 if total > 0 else -1): abs(total) for text, total in net.items() if total}
    )
    signs = [weight for _, weight in left]
    assert signs == sorted(signs) or len(set(weights)) == 1
    assert consolidate(rows).schema == rows.schema


def test_nothing_is_copied_where_nothing_can_cancel() -> None:
    rows = changelog({"x": pa.array([1, 1, 2])}, [1, 1, 1])
    assert consolidate(rows) is rows
    assert consolidate(rows.slice(0, 0)).num_rows == 0


def test_a_slice_has_its_own_weights() -> None:
    rows = changelog({"x": pa.array([1, 1, 1, 2])}, [1, -1, 1, 1])
    assert tuples(consolidate(rows.slice(1))) == [("(2,)", 1)]


def test_more_columns_than_a_key_can_have() -> None:
    columns = {f"c{index}": pa.array([1, 1, index]) for index in range(100)}
    rows = changelog(columns, [1, -1, 1])
    assert weights_of(consolidate(rows)).tolist() == [1]


@pytest.mark.parametrize("name", sorted(VALUES))
def test_same_values_means_the_same_for_null_and_nan(name: str) -> None:
    kind, values = VALUES[name]
    left = pa.array([value for value in values for _ in values], kind)
    right = pa.array(values * len(values), kind)
    expected = [one == two for one in range(len(values)) for two in range(len(values))]
    assert same_values(left, right).tolist() == expected
