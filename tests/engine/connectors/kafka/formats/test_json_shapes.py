"""Messages that are alike are decoded by a kernel: always into what the general decoder makes of them."""

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.formats import json_shapes
from penstock.engine.connectors.kafka.formats.contract import Decoded
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.formats.json_shape import shape_of, wanted_of

INNER = pa.struct(
    [
        pa.field("price", pa.float64()),
        pa.field("small", pa.int16()),
        pa.field("at", pa.timestamp("us")),
        pa.field("deep", pa.struct([pa.field("name", pa.string()), pa.field("none", pa.bool_())])),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("big", pa.uint64()),
        pa.field("ok", pa.bool_()),
        pa.field("name", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("real", pa.float32()),
        pa.field("day", pa.date32()),
        pa.field("took", pa.duration("ms")),
        pa.field("s", pa.timestamp("s")),
        pa.field("ms", pa.timestamp("ms", "UTC")),
        pa.field("ns", pa.timestamp("ns")),
        pa.field("inner", INNER),
    ]
)
NUMBERS: Sequence[str] = (
    *("0", "-0", "-0.0", "0.0", "7", "-12", "00", "01", "-", "1.", ".5", "+1", "1e3", "1E-2", "0.1"),
    *("0.30000000000000004", "32767", "32768", "-32768", "-32769", "9007199254740993", "999999999999999"),
    *("123456789012345678", "1e400", "9223372036854775807", "9223372036854775808", "18446744073709551615"),
    *("18446744073709551616", "-1", "1.5", "NaN", "1769860800123", "-1769860800999", "9000000000001"),
    *("253402300799999", "253402300800000", "Infinity", "2.2250738585e-3", "0.000001", "123456.789012"),
    *("0.1234567890123456", "-0.5", "100000000000000000000"),
)  # fmt: skip
TIMES: Sequence[str] = (
    *("2026-01-31 12:00:00.123", "2026-01-31T12:00:00", "2026-01-31T12:00:00Z"),
    *("2026-01-31 12:00:00.123456789", "2024-02-29 00:00:00", "2023-02-29 00:00:00", "1900-02-29 00:00:00"),
    *("2000-02-29 23:59:59.9", "1969-12-31 23:59:59.5", "0000-01-01 00:00:00", "0001-01-01 00:00:00"),
    *("9999-12-31T23:59:59.999Z", "1677-01-01 00:00:00", "2026-13-01 00:00:00", "2026-00-01 00:00:00"),
    *("2026-01-00 00:00:00", "2026-04-31 00:00:00", "2026-01-31 24:00:00", "2026-01-31 23:60:00"),
    *("2026-01-31 23:59:60", "2026-01-31", "2026-01-31 12:00", "2026-01-31 12:00:00."),
    *("2026-01-31 12:00:00.1234567890", "2026-01-31 12:00:00+01:00", "2026-01-31 12:00:00 "),
    *("2026-1-31 12:00:00", "1769860800123", "", "2026-01-31X12:00:00", "2026-01-31 12:00:00.12Z"),
    *("2026/01/31 12:00:00", "20:6-01-31 12:00:00", "2026-01-31 1é:00:00", "2026-01-31 12:00:00z"),
)  # fmt: skip
TEXTS: Sequence[str] = (
    *("", "x", "channel é", "\x7f", "twelve bytes and more than eight", 'a"b', "back\\slash", "\u2028"),
    *("tab\t", "😀"),
)  # fmt: skip
OTHERS: Sequence[str] = (
    *('[1,[2,{"a":null}]]', '{"a":{"b":[]}, "c" : [ ] }', "[", "{}", "[]", "[1,]", '{"a"}', '{"a":1,}'),
    *("[1 2]", "nul", "truefalse"),
)  # fmt: skip
PLAIN = [json.dumps(text) for text in TEXTS] + [json.dumps(text, ensure_ascii=False) for text in TEXTS]
VALUES = [
    *NUMBERS,
    *(json.dumps(time) for time in TIMES),
    *PLAIN,
    *OTHERS,
    "null",
    "true",
    "false",
    '"raw\ttab"',
    '"\\u00e9"',
]

USUAL: dict[str, str] = {
    "id": "17",
    "big": "18",
    "ok": "true",
    "name": '"somebody"',
    "raw": '"bytes"',
    "real": "0.25",
    "day": '"2026-01-31"',
    "took": "250",
    "s": '"2026-01-31 12:00:00"',
    "ms": '"2026-01-31 12:00:00.123"',
    "ns": "1769860800123",
    "inner": "",
    "unasked": "[1, 2]",
}
USUAL_INNER: dict[str, str] = {
    "price": "1.5",
    "small": "3",
    "at": '"2026-01-31T12:00:00.123Z"',
    "deep": '{"name": "n", "none": null}',
    "more": '{"a": [null, -1.25, "x"]}',
}


def message(changed: dict[str, str], inner: dict[str, str], order: Sequence[str] = tuple(USUAL)) -> bytes:
    """Write a message with some values in place of the usual ones."""
    nested = "{" + ", ".join(f'"{name}": {value}' for name, value in (USUAL_INNER | inner).items()) + "}"
    fields = USUAL | {"inner": nested} | changed
    return ("{" + ", ".join(f'"{name}": {fields[name]}' for name in order) + "}").encode()


def general(schema: pa.Schema) -> JsonValues:
    """Return a decoder that knows no shapes."""
    decoder = JsonValues(schema)
    decoder._shaped = None
    return decoder


def check(messages: Sequence[bytes], schema: pa.Schema = SCHEMA, decoder: JsonValues | None = None) -> Decoded:
    """Decode messages, compare with the general decoder, and return what became of them."""
    decoded = (decoder or JsonValues(schema)).decode(messages)
    expected = general(schema).decode(messages)
    decoded.rows.validate(full=True)
    assert decoded.row_of.tolist() == expected.row_of.tolist()
    assert list(decoded.errors) == list(expected.errors)
    assert decoded.rows.schema.equals(expected.rows.schema)
    assert as_text(decoded.rows) == as_text(expected.rows)
    return decoded


def as_text(rows: pa.RecordBatch) -> str:
    """Return rows as text, which tells zeros apart and finds NaN equal to itself."""
    columns = [column.cast(pa.int64()) if pa.types.is_duration(column.type) else column for column in rows.columns]
    return repr([column.to_pylist() for column in columns])


def has_shape(messages: Sequence[bytes], schema: pa.Schema = SCHEMA) -> list[bool]:
    """Return which of the messages are decoded by their shape."""
    decoder = JsonValues(schema)
    assert decoder._shaped is not None
    shaped = decoder._shaped.decode(messages, np.cumsum([len(item) for item in messages]))
    return [False] * len(messages) if shaped is None else shaped[1].tolist()


SOME = st.sampled_from(VALUES)
CHANGES = st.tuples(
    st.dictionaries(st.sampled_from(list(USUAL)), SOME, max_size=2),
    st.dictionaries(st.sampled_from(list(USUAL_INNER)), SOME, max_size=2),
    st.one_of(st.just(tuple(USUAL)), st.permutations(list(USUAL)), st.lists(st.sampled_from(list(USUAL)), max_size=6)),
)


@settings(max_examples=150)
@given(st.lists(CHANGES, min_size=1, max_size=8), st.booleans())
def test_any_values_in_any_order_are_decoded_as_in_general(changes: list[Any], plain_first: bool) -> None:
    check([message({}, {})] * plain_first + [message(*change) for change in changes])


@pytest.mark.parametrize("field", [*USUAL, *(f"inner.{name}" for name in USUAL_INNER), "deep.name", "deep.none"])
def test_every_value_in_every_field_is_decoded_as_in_general(field: str) -> None:
    group, _, name = field.rpartition(".")
    decoder = JsonValues(SCHEMA)
    check([message({}, {})], decoder=decoder)
    messages = [message({}, {})]
    for value in VALUES:
        if group == "deep":
            deep = {"name": '"n"', "none": "null"} | {name: value}
            messages.append(message({}, {"deep": "{" + ", ".join(f'"{k}": {v}' for k, v in deep.items()) + "}"}))
        else:
            messages.append(message({}, {name: value}) if group else message({name: value}, {}))
    check(messages, decoder=decoder)


@settings(max_examples=150)
@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_damaged_messages_are_decoded_as_in_general(rng: random.Random, count: int) -> None:
    messages = []
    for _ in range(count):
        data = bytearray(message({"id": str(rng.randrange(10**6))}, {"price": str(rng.randrange(10**6) / 100)}))
        for _ in range(rng.choice([0, 0, 1, 1, 2, 4])):
            place = rng.randrange(len(data) + 1)
            match rng.randrange(5):
                case 0:
                    data[place : place + 1] = bytes([rng.randrange(256)])
                case 1:
                    del data[place : place + rng.randrange(1, 20)]
                case 2:
                    data[place:place] = rng.choice(
                        [b"\n", b"\r", b"{}", b"\\", b'"', b"-0", b"\x00", b"\xff", b",", b" "]
                    )
                case 3:
                    data[place:place] = rng.choice(['"id":1,', "null", "é", "\ud800"]).encode(errors="surrogatepass")
                case _:
                    data = data[:place]
        messages.append(bytes(data))
    check(messages)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.integers(1, 17))
@example([0.1 + 0.2, 1e22, 5e-324], 17)
def test_doubles_are_the_nearest(values: list[float], digits: int) -> None:
    schema = pa.schema([pa.field("x", pa.float64())])
    texts = [f"{value:.{digits}g}" if abs(value) < 1e6 else repr(value) for value in values]
    check([f'{{"x":{text}}}'.encode() for text in ("1.5", *texts)], schema)


@given(st.lists(st.integers(-62_135_596_800_000, 253_402_300_799_999), min_size=1))
def test_every_day_is_the_right_one(times: list[int]) -> None:
    schema = pa.schema([pa.field("x", pa.timestamp("ms"))])
    texts = pa.array(times, pa.timestamp("ms")).cast(pa.string()).to_pylist()
    messages = [f'{{"x":"{text.rjust(23, "0")}"}}'.encode() for text in texts]
    assert check(messages, schema).rows.column(0).cast(pa.int64()).to_pylist() == times
    assert all(has_shape(messages, schema))


def test_plain_messages_have_a_shape() -> None:
    plain = [message({"id": str(number), "name": f'"é{number}"', "ok": "null"}, {}) for number in range(100)]
    assert all(has_shape(plain))
    absent = [message({"inner": "null"}, {}), message({}, {"deep": "null"}), b"{}"]
    assert all(has_shape([*plain, *absent, *plain]))
    check([*plain, *absent, *plain])
    # More shapes at once than are learnt from one block.
    check([*plain, *absent, message({}, {}, ("name", "id")), message({}, {}, ("id",)), *plain])


def test_a_message_with_an_odd_value_leaves_its_neighbours_their_shape() -> None:
    plain = message({}, {})
    odd = [message({"name": '"a\\"b"'}, {}), message({"id": "1e3"}, {}), message({"id": "x"}, {}), b"", b"[1]"]
    messages = [plain] * 4 + odd + [plain] * 4
    assert has_shape(messages) == [message == plain for message in messages]
    check(messages)


def test_a_message_that_is_no_text_is_an_error_and_its_neighbours_are_rows() -> None:
    decoded = check([message({}, {}), message({"unasked": '"?"'}, {}).replace(b"?", b"\xff"), message({}, {})])
    assert [index for index, _ in decoded.errors] == [1]


def test_new_shapes_take_the_place_of_rare_ones() -> None:
    decoder = JsonValues(SCHEMA)
    assert decoder._shaped is not None
    rng = random.Random(3)
    orders = [tuple(rng.sample(list(USUAL), len(USUAL))) for _ in range(3 * json_shapes.MOST_SHAPES)]
    for first in range(0, len(orders), 4):
        messages = [message({}, {}, order) for order in orders[first : first + 4]] + [message({}, {})] * 20
        check(messages + messages[:4], decoder=decoder)
    learned = decoder._shaped._learned.shapes
    assert len(learned) == json_shapes.MOST_SHAPES
    usual = wanted_of(SCHEMA)
    assert usual is not None and shape_of(message({}, {}), usual) in learned


def test_shapes_are_replaced_within_a_block() -> None:
    decoder = JsonValues(SCHEMA)
    for number in range(json_shapes.MOST_SHAPES):
        check([message({}, {}, tuple(USUAL)[number:])] * (3 if number else 1), decoder=decoder)
    check([message({}, {}), *(message({}, {}, tuple(USUAL)[number:]) for number in range(8, 12))], decoder=decoder)


def test_what_has_no_shape() -> None:
    wanted = wanted_of(pa.schema([pa.field("a", pa.int64())]))
    assert wanted is not None
    for text in ('{"a":1,"a":2}', '{"\\u0061":1}', "[]", '{"a":1}x', '{"a":1\n}', "\xff", '{"a"', ""):
        assert shape_of(text.encode("latin-1"), wanted) is None
    assert shape_of(b" {\t} ", wanted) is not None
    for kind in (pa.list_(pa.int64()), pa.decimal128(10, 2)):
        schema = pa.schema([pa.field("a", kind)])
        assert wanted_of(schema) is None
        assert JsonValues(schema)._shaped is None
    check([b'{"a":[1]}', b'{"a":2}'], pa.schema([pa.field("a", pa.list_(pa.int64()))]))


def test_deep_and_long_values_that_nobody_asks_for() -> None:
    schema = pa.schema([pa.field("a", pa.int64())])
    deep = ["[" * depth + "]" * depth for depth in (1, 47, 48, 49, 200, 5_000)]
    texts = ['"' + "x" * size + '"' for size in range(40)]
    messages = [f'{{"b": {value},"a":{number}}}'.encode() for number, value in enumerate([*deep, *texts, "1" * 30])]
    assert has_shape(messages, schema)[:3] == [True, True, True]
    check(messages, schema)
