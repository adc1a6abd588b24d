"""JSON messages: each is a row or an error of its own, whatever its neighbours are.

I1 to I3 of docs/design/fault-tests.md 2.
"""

import datetime
import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.formats import json as kafka_json
from penstock.engine.connectors.kafka.formats.contract import Decoded
from penstock.engine.connectors.kafka.formats.json import JsonEncoder, JsonValues
from penstock.model.errors import SchemaError

BID = pa.schema(
    [
        pa.field("auction", pa.int64()),
        pa.field("price", pa.float64()),
        pa.field("channel", pa.string()),
        pa.field("at", pa.timestamp("ms")),
        pa.field("bid", pa.struct([pa.field("ok", pa.bool_()), pa.field("tags", pa.list_(pa.string()))])),
    ]
)


def bid(number: int) -> bytes:
    return json.dumps(
        {
            "auction": number,
            "price": number / 4,
            "channel": f"channel-{number} é",
            "at": "2026-01-31 12:00:00.123",
            "extra": [1, {"a": None}],
            "bid": {"ok": number % 2 == 0, "tags": ["x", "y"]},
        },
        ensure_ascii=number % 3 == 0,
    ).encode()


def mutated(rng: random.Random, message: bytes) -> bytes:
    """Change a message at some places: bytes replaced, taken out, put in, doubled."""
    data = bytearray(message)
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                data[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[place : place + rng.randrange(1, 20)]
            case 2:
                data[place:place] = rng.choice([b"\n", b"\r\n", b"{}", b"}{", b"\\", b'"', b"-0", b"1e999", b"\x00"])
            case 3:
                data += rng.choice([b"\n", b" ", message, b"\n" + message])
            case 4:
                data[place:place] = rng.choice([b'"auction":1180591620717411303424,', b"null", b"NaN", b"\xed\xa0\x80"])
            case _:
                data = data[place:]
    return bytes(data)


def rows_by_message(decoded: Decoded, count: int) -> list[Any]:
    """Return the row, or the error, of every message; each must have exactly one of them."""
    found: list[Any] = [None] * count
    for index, row in zip(decoded.row_of.tolist(), decoded.rows.to_pylist(), strict=True):
        assert found[index] is None
        found[index] = row
    for index, reason in decoded.errors:
        assert found[index] is None
        assert reason
        found[index] = reason
    assert None not in found
    assert decoded.row_of.tolist() == sorted(decoded.row_of.tolist())
    assert [index for index, _ in decoded.errors] == sorted(index for index, _ in decoded.errors)
    return found


def is_object(message: bytes) -> bool:
    """Return whether a message is one JSON object by a reader that is known to be strict."""
    try:
        return isinstance(msgspec.json.decode(message), dict)
    except (ValueError, RecursionError):
        return False


@pytest.mark.long("ten thousand messages; test_json_shapes damages fewer")
def test_ten_thousand_mutated_messages_are_rows_or_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_json, "BLOCK_BYTES", 1 << 15)
    rng = random.Random(11)
    messages = [mutated(rng, bid(number)) if rng.random() < 0.2 else bid(number) for number in range(10_000)]
    found = rows_by_message(JsonValues(BID).decode(messages), len(messages))
    alone = JsonValues(BID)
    for number, (message, what) in enumerate(zip(messages, found, strict=True)):
        if message == bid(number):
            assert what["auction"] == number
        if isinstance(what, dict):
            assert is_object(message), message
        if rng.random() < 0.1:
            again = rows_by_message(alone.decode([message]), 1)[0]
            assert isinstance(again, str) == isinstance(what, str), message
            if isinstance(what, dict):
                assert repr(again) == repr(what)


DEEP = 100_000
NASTIES: Sequence[tuple[bytes, bool]] = (
    (b"", False),
    (b" \n ", False),
    (b"null", False),
    (b"[]", False),
    (b"1", False),
    (b'{"auction":1180591620717411303424}', False),
    (b'{"auction":9223372036854775807}', True),
    (b'{"auction":1.5}', False),
    (b'{"auction":"1"}', False),
    (b'{"price":NaN}', False),
    (b'{"price":-Infinity}', False),
    (b'{"other":[1, Inf]}', False),
    (b'{"channel":"x: NaN, Infinity"}', True),
    (b'{"price":1e999}', False),
    (b'{"channel":"\\ud800"}', False),
    (b'{"channel":"\xff"}', False),
    (b'{"channel":"\x00"}', False),
    (b'{"auction":1,"auction":2}', True),
    (b'{"at":"9999-12-31T23:59:59.999Z"}', True),
    (b'{"at":"10000-01-01T00:00:00Z"}', False),
    (b'{"at":"soon"}', False),
    (b'{"other":' + b"[" * DEEP + b"]" * DEEP + b"}", True),
    (b'{"bid":' + b'{"bid":' * DEEP + b"1" + b"}" * DEEP + b"}", True),
    (b'{"bid":{"tags":' + b"[" * DEEP + b"]" * DEEP + b"}}", False),
    (b'{"channel":"' + b"x" * (20 << 20) + b'"}', True),
    (b"{}", True),
    (b"\xef\xbb\xbf{}", False),
    (b'{"auction":1}\n{"auction":2}', False),
    (b'{"auction":1}{"auction":2}', False),
    (b'{\r\n "auction": 1\r\n}\n', True),
)


@pytest.mark.parametrize("number", range(len(NASTIES)))
def test_nasties_cost_themselves_only(number: int) -> None:
    message, good = NASTIES[number]
    found = rows_by_message(JsonValues(BID).decode([bid(1), message, bid(3)]), 3)
    assert isinstance(found[1], dict) == good, str(found[1])[:200]
    assert (found[0]["auction"], found[2]["auction"]) == (1, 3)
    if message.startswith(b'{"auction":1,'):
        assert found[1]["auction"] == 2


DRIFTS = ("add", "drop", "rename", "retype", "reorder")


@settings(max_examples=100)
@given(st.lists(st.sampled_from(DRIFTS), max_size=4), st.integers(1, 40))
def test_schema_drift_gives_null_or_errors(history: list[str], each: int) -> None:
    messages: list[bytes] = []
    expected: list[Any] = []
    fields: dict[str, Any] = {"auction": 1, "channel": "c"}
    for step in ["", *history]:
        match step:
            case "add":
                fields["new"] = {"deep": [1]}
            case "drop":
                fields.pop("channel", None)
            case "rename":
                if "auction" in fields:
                    fields["auction_id"] = fields.pop("auction")
            case "retype":
                if "auction" in fields:
                    fields["auction"] = "one"
            case "reorder":
                fields = dict(reversed(list(fields.items())))
        messages += [json.dumps(fields).encode()] * each
        bad = fields.get("auction") == "one"
        expected += [None if bad else (fields.get("auction"), fields.get("channel"))] * each
    found = rows_by_message(JsonValues(BID).decode(messages), len(messages))
    assert [None if isinstance(row, str) else (row["auction"], row["channel"]) for row in found] == expected


def test_restrict_reaches_the_decoder() -> None:
    decoder = JsonValues(BID).restrict(["channel"])
    decoded = decoder.decode([b'{"auction":"not a number","channel":"c"}'])
    assert decoded.rows.to_pylist() == [{"channel": "c"}]
    none = JsonValues(BID).restrict([])
    decoded = none.decode([b"{}", b"[", b'{"auction":2}'])
    assert decoded.row_of.tolist() == [0, 2]
    assert [index for index, _ in decoded.errors] == [1]
    assert decoder.schema.names == ["channel"]
    assert none.schema.names == []


def test_times_are_learnt_by_each_decoder() -> None:
    decoder = JsonValues(BID).restrict(["at"])
    times = (
        decoder.decode([b'{"at":1769860800123}', b'{"at":"2026-01-31T12:00:00.123Z"}']).rows.column("at").to_pylist()
    )
    assert times == [datetime.datetime(2026, 1, 31, 12, 0, 0, 123_000)] * 2
    assert decoder.fresh().decode([bid(1)]).rows.num_rows == 1


def test_nothing_comes_of_nothing_and_some_schemas_are_refused() -> None:
    assert JsonValues(BID).decode([]).rows.num_rows == 0
    with pytest.raises(SchemaError):
        JsonValues(pa.schema([]))
    with pytest.raises(SchemaError):
        JsonValues(pa.schema([pa.field("m", pa.map_(pa.string(), pa.int64()))]))


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(), st.booleans())))
def test_what_is_encoded_is_decoded(values: list[tuple[int, str, bool]]) -> None:
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string()), pa.field("c", pa.bool_())])
    columns = list(zip(*values, strict=True)) if values else [[], [], []]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    messages = JsonEncoder().encode(rows).to_pylist()
    assert JsonValues(schema).decode(messages).rows.equals(rows)
