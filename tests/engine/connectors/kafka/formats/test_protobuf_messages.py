"""Protobuf messages: every type there and back, damaged ones, nasty ones, and classes that change."""

import datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.formats import protobuf
from penstock.engine.connectors.kafka.formats.protobuf import ProtobufValues
from penstock.engine.connectors.kafka.formats.protobuf_encoder import ProtobufEncoder
from penstock.model.errors import BadRecordError, SchemaError
from tests.engine.connectors.kafka.formats.mutations import check_fates, mutated
from tests.engine.connectors.kafka.formats.protobuf_classes import ORDER, add_field, classes, order_file, proto3

UTC = datetime.UTC
SCHEMA = ProtobufValues(ORDER).schema
INT64 = st.integers(-(2**63), 2**63 - 1)
MILLENNIA = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
ROW = st.fixed_dictionaries(
    {
        "id": INT64,
        "name": st.text(max_size=9),
        "price": st.floats(allow_nan=False),
        "paid": st.booleans(),
        "raw": st.binary(max_size=9),
        "big": st.integers(0, 2**64 - 1),
        "at": st.none() | MILLENNIA.map(lambda time: time.replace(tzinfo=UTC)),
        "took": st.none() | st.timedeltas(datetime.timedelta(-9999), datetime.timedelta(9999)),
        "limit": st.none() | INT64,
        "color": st.sampled_from(["RED", "GREEN", "7"]),
        "customer": st.none() | st.fixed_dictionaries({"name": st.text(max_size=3)}),
        "items": st.lists(st.fixed_dictionaries({"sku": st.text(max_size=3), "count": st.integers(0, 9)}), max_size=3),
        "tags": st.dictionaries(st.text(max_size=3), INT64, max_size=1).map(lambda tags: list(tags.items())),
        "numbers": st.lists(st.integers(-9, 9), max_size=3),
        "note": st.none() | st.text(max_size=3),
    }
)
EXAMPLE: dict[str, Any] = {
    "id": 7, "name": "näme", "price": 1.5, "paid": True, "raw": b"\xff", "big": 2**64 - 1,
    "at": datetime.datetime(9999, 12, 31, tzinfo=UTC), "took": datetime.timedelta(microseconds=-1), "limit": 0,
    "color": "GREEN", "customer": {"name": "c"}, "items": [{"sku": "s", "count": 2}], "tags": [("t", 1)],
    "numbers": [1, -1], "note": "",
}  # fmt: skip


def encoded(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> list[bytes]:
    messages: list[bytes] = ProtobufEncoder(schema, ORDER).encode(pa.RecordBatch.from_pylist(rows, schema)).to_pylist()
    return messages


@settings(max_examples=40)
@given(st.lists(ROW, max_size=5))
def test_every_type_comes_back(rows: list[dict[str, Any]]) -> None:
    decoded = ProtobufValues(ORDER).decode(encoded(rows))
    assert decoded.rows.to_pylist() == rows
    assert decoded.rows.schema == SCHEMA
    assert not decoded.errors


def test_an_empty_message_has_every_default() -> None:
    [row] = ProtobufValues(ORDER).decode([b""]).rows.to_pylist()
    assert row["id"] == 0 and row["name"] == "" and row["color"] == "RED" and row["items"] == [] and row["tags"] == []
    assert row["at"] is None and row["customer"] is None and row["note"] is None and row["limit"] is None


def test_null_leaves_a_field_out() -> None:
    [message] = encoded([dict.fromkeys(SCHEMA.names)])
    assert message == b""


def test_columns_are_pruned_in_their_order() -> None:
    messages = encoded([EXAMPLE, EXAMPLE])
    assert (
        ProtobufValues(ORDER).restrict(["note", "id"]).decode(messages).rows.to_pylist() == [{"note": "", "id": 7}] * 2
    )
    assert ProtobufValues(ORDER).restrict(["id"]).decode(messages).rows.to_pylist() == [{"id": 7}] * 2
    none = ProtobufValues(ORDER).restrict([]).decode([*messages, b"\xff"])
    assert (none.rows.num_rows, none.row_of.tolist(), len(none.errors)) == (2, [0, 1], 1)


@pytest.mark.parametrize("columns", [None, ["id", "items"], []])
def test_a_damaged_message_costs_itself(columns: list[str] | None) -> None:
    decoder = ProtobufValues(ORDER)
    decoder = decoder if columns is None else decoder.restrict(columns)
    messages = list(mutated(encoded([EXAMPLE, {**EXAMPLE, "name": "x" * 200, "items": []}]), 10_000))
    assert 1_000 < check_fates(decoder, messages) < 10_000


NASTY = {
    "invalid UTF-8": b"\x12\x01\xff",
    "lone surrogate": b"\x12\x03\xed\xa0\x80",
    "a length of 2^63": b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "a number without an end": b"\x08" + b"\xff" * 1_000,
    "groups within groups": b"\x0b" * 100_000,
    "field number 0": b"\x00\x01",
}


@pytest.mark.parametrize("name", NASTY)
def test_nasty_messages(name: str) -> None:
    [good] = encoded([EXAMPLE])
    decoded = ProtobufValues(ORDER).decode([good, NASTY[name], good])
    assert decoded.row_of.tolist() == [0, 2]
    [(index, reason)] = decoded.errors
    assert index == 1 and "Protobuf" in reason


def test_messages_deep_inside_each_other_are_not_followed() -> None:
    deep = b""
    for _ in range(5_000):
        deep = b"\x5a" + _length(deep) + deep
    decoded = ProtobufValues(ORDER).decode([deep, b""])
    assert decoded.row_of.tolist()[-1] == 1


def _length(content: bytes) -> bytes:
    size, encoded_size = len(content), bytearray()
    while size >= 0x80:
        encoded_size.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*encoded_size, size])


def test_times_beyond_the_calendar_are_numbers_that_do_not_crash() -> None:
    message = ORDER()
    message.at.seconds = 2**62
    decoded = ProtobufValues(ORDER).decode([message.SerializeToString(), b""])
    assert decoded.row_of.tolist() == [1] and len(decoded.errors) == 1


def test_large_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    [large] = encoded([{**EXAMPLE, "name": "x" * (20 << 20)}])
    assert ProtobufValues(ORDER).decode([large]).rows.num_rows == 1
    monkeypatch.setattr(protobuf, "MOST_MESSAGE_BYTES", 100)
    assert "100 are allowed" in ProtobufValues(ORDER).decode([large]).errors[0][1]


NAMES = "abcdef"
FIELD = st.tuples(st.sampled_from(NAMES), st.sampled_from(("int32", "int64", "string", "double", "bool")))


@settings(max_examples=100)
@given(st.data())
def test_histories_of_a_class(data: st.DataObject) -> None:
    """Add, drop, rename, retype: numbers decide, unknown fields are passed over, and every message has one fate."""
    versions: list[dict[int, tuple[str, str]]] = [{1: ("a", "int64"), 2: ("b", "string")}]
    for _ in range(data.draw(st.integers(1, 5))):
        fields = dict(versions[-1])
        number = data.draw(st.integers(1, 6))
        if number in fields and len(fields) > 1 and data.draw(st.booleans()):
            del fields[number]
        else:
            name, kind = data.draw(FIELD)
            if name not in [known for other, (known, _) in fields.items() if other != number]:
                fields[number] = (name, kind)
        versions.append(fields)
    made = [_class(fields) for fields in versions]
    sample = {"int32": 5, "int64": 6, "string": "text", "double": 1.5, "bool": True}
    messages = [
        kind(**{name: sample[type_name] for name, type_name in fields.values()}).SerializeToString()
        for kind, fields in zip(made, versions, strict=True)
    ]
    reader = data.draw(st.integers(0, len(versions) - 1))
    decoder = ProtobufValues(made[reader])
    check_fates(decoder, messages)
    decoded = decoder.decode(messages)
    assert not decoded.errors
    for row, fields in zip(decoded.rows.to_pylist(), versions, strict=True):
        for number, (name, kind) in versions[reader].items():
            if number not in fields:
                assert not row[name]
            elif fields[number][1] == kind:
                assert row[name] == sample[kind]


def _class(fields: dict[int, tuple[str, str]]) -> Any:
    file = proto3("history.proto")
    message = file.message_type.add(name="Row")
    for number, (name, kind) in fields.items():
        add_field(message, number, name, kind)
    return classes(file)["shop.Row"]


def test_required_fields_of_proto2() -> None:
    file = proto3("old.proto")
    file.syntax = "proto2"
    message = file.message_type.add(name="Old")
    add_field(message, 1, "id", "int64", label=FieldDescriptorProto.LABEL_REQUIRED)
    add_field(message, 2, "name", "string")
    old = classes(file)["shop.Old"]
    decoded = ProtobufValues(old).decode([b"\x08\x05", b""])
    assert decoded.rows.to_pylist() == [{"id": 5, "name": None}]
    assert "required id" in decoded.errors[0][1]
    rows = pa.record_batch({"name": ["x"]})
    with pytest.raises(BadRecordError, match="id"):
        ProtobufEncoder(rows.schema, old).encode(rows)


@pytest.mark.parametrize(
    ("kind", "said"), [(".shop.Node", "contains itself"), (".google.protobuf.Struct", "no columnar")]
)
def test_messages_that_have_no_columns(kind: str, said: str) -> None:
    file = proto3("node.proto")
    node = file.message_type.add(name="Node")
    add_field(node, 1, "a", kind)
    add_field(node, 2, "b", kind)
    with pytest.raises(SchemaError, match=said):
        ProtobufValues(classes(file)["shop.Node"])


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        ({"unheard": [1]}, SchemaError, "is no field"),
        ({"color": ["BLUE"]}, BadRecordError, "there are RED, GREEN"),
        ({"big": [-1]}, BadRecordError, "cannot be written as uint64"),
    ],
)
def test_rows_that_cannot_be_written(rows: Any, error: type[Exception], said: str) -> None:
    batch = pa.record_batch(rows)
    with pytest.raises(error, match=said):
        ProtobufEncoder(batch.schema, ORDER).encode(batch)


def test_the_file_that_tests_use_is_what_protoc_makes() -> None:
    assert classes(order_file())["shop.Order"].DESCRIPTOR.full_name == ORDER.DESCRIPTOR.full_name
