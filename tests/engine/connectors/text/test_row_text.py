import base64
import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.text.row_text import encode_lines, encode_rows, plain_texts

VALUES = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.floats(),
        "s": st.none() | st.text(),
        "b": st.none() | st.booleans(),
        "y": st.none() | st.binary(),
        "t": st.none() | st.datetimes(),
        "l": st.none() | st.lists(st.none() | st.text()),
        "r": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-5, 5), 'q"\\': st.text()}),
    }
)
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("y", pa.binary()),
        ("t", pa.timestamp("us")),
        ("l", pa.list_(pa.string())),
        ("r", pa.struct([("x", pa.int64()), ('q"\\', pa.string())])),
    ]
)


def expected(row: dict[str, Any]) -> dict[str, Any]:
    shown = dict(row)
    if row["f"] is not None and not math.isfinite(row["f"]):
        shown["f"] = None
    if row["y"] is not None:
        shown["y"] = base64.b64encode(row["y"]).decode()
    if row["t"] is not None:
        shown["t"] = row["t"].isoformat(timespec="microseconds")
    return shown


@given(st.lists(VALUES, max_size=6), st.integers(0, 3))
def test_lines_are_json_that_says_the_same(rows: list[dict[str, Any]], start: int) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA).slice(start)
    texts = bytes(encode_lines(batch)).decode().split("\n")
    assert texts.pop() == ""
    assert [json.loads(text) for text in texts] == [expected(row) for row in rows[start:]]
    assert [row.decode() for row in encode_rows(batch)] == texts


def test_other_types() -> None:
    columns = {
        "decimal": pa.array([decimal.Decimal("1.50"), None]),
        "date": pa.array([datetime.date(2020, 1, 2), None]),
        "time": pa.array([1_000_000, None], pa.time64("us")),
        "duration": pa.array([5, None], pa.duration("ms")),
        "zoned": pa.array([0, None], pa.timestamp("s", "Europe/Berlin")),
        "view": pa.array(["a", None], pa.string_view()),
        "dictionary": pa.array(["a", None]).dictionary_encode(),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "large": pa.array([["a"], None], pa.large_list(pa.large_string())),
        "nothing": pa.nulls(2),
    }
    first, second = encode_rows(pa.RecordBatch.from_pydict(columns))
    assert json.loads(first) == {
        "decimal": 1.5,
        "date": "2020-01-02",
        "time": "00:00:01.000000",
        "duration": 5,
        "zoned": "1970-01-01T00:00:00Z",
        "view": "a",
        "dictionary": "a",
        "map": [{"key": "k", "value": 1}],
        "large": ["a"],
        "nothing": None,
    }
    assert set(json.loads(second).values()) == {None}


def test_no_rows_are_no_lines() -> None:
    assert bytes(encode_lines(pa.RecordBatch.from_pylist([], schema=SCHEMA))) == b""


def test_plain_text_stays_on_one_line() -> None:
    assert plain_texts(pa.array(['say "hi"\n', None, "\x01"])).to_pylist() == ['say "hi"\\n', "null", "\\u0001"]
