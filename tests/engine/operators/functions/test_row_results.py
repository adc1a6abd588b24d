"""Results of user functions as rows: those that do not fit the schema are found among those that do."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.operators.functions.row_results import RowResults

FIELDS = pa.schema([pa.field("item", pa.int64(), nullable=False), pa.field("name", pa.string())])
UNFIT: list[Any] = [{"item": "three", "name": "x"}, {"item": None, "name": "x"}, {"itme": 3}, 7]


@given(results=st.lists(st.sampled_from([{"item": 1, "name": "a"}, {"item": 2}, *UNFIT]), max_size=12))
def test_every_result_becomes_a_row_or_a_failure(results: list[Any]) -> None:
    rows, kept, failures = RowResults(FIELDS, bare=False).to_rows(results)
    fitting = [index for index, result in enumerate(results) if result not in UNFIT]
    assert kept == fitting
    assert rows.schema == FIELDS
    assert rows.to_pylist() == [{"name": None, **results[index]} for index in fitting]
    assert sorted(failures) == [index for index in range(len(results)) if index not in fitting]


def test_reasons_say_what_does_not_fit() -> None:
    failures = RowResults(FIELDS, bare=False).to_rows([*UNFIT, {"item": 1}])[2]
    texts = ("three", "column 'item' must not be null", "did you mean 'item'?", "a dict or a dataclass, not int")
    assert all(text in failures[index] for index, text in enumerate(texts))
