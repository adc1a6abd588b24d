"""Avro messages: every type there and back, damaged ones, and nasty ones."""

import datetime
import json
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.formats import avro
from penstock.engine.connectors.kafka.formats.avro import AvroValues, avro_text, load_avro
from penstock.engine.connectors.kafka.formats.avro_encoder import AvroEncoder
from penstock.engine.connectors.kafka.formats.avro_schema import parse_avro
from penstock.engine.connectors.kafka.formats.avro_types import avro_of
from penstock.model.errors import BadRecordError, SchemaError
from tests.engine.connectors.kafka.formats.mutations import check_fates, mutated

UTC = datetime.UTC
TIMES = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
MAPS = st.dictionaries(st.text(max_size=3), st.just(Decimal("1.25")), max_size=3).map(lambda items: list(items.items()))
INNER = st.fixed_dictionaries(
    {"x": st.none() | st.integers(0, 9), "when": st.none() | st.just(datetime.datetime(2020, 1, 1, tzinfo=UTC))}
)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "small": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=9)),
    "raw": (pa.binary(), st.binary(max_size=9)),
    "price": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    "day": (pa.date32(), st.dates()),
    "clock": (pa.time64("us"), st.times()),
    "at": (pa.timestamp("us", "UTC"), TIMES.map(lambda time: time.replace(tzinfo=UTC))),
    "local": (pa.timestamp("us"), TIMES),
    "listed": (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "mapped": (pa.map_(pa.string(), pa.decimal128(5, 2)), MAPS),
    "inner": (pa.struct([("x", pa.int64()), ("when", pa.timestamp("us", "UTC"))]), INNER),
}  # fmt: skip
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
RECORD = avro_of(SCHEMA)
ROW = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()})
EXAMPLE = {
    "flag": True, "small": 1, "big": -5, "single": 1.5, "double": 0.1, "text": "täxt", "raw": b"\xff\x00",
    "price": Decimal("12.340"), "day": datetime.date(2024, 2, 29), "clock": datetime.time(1, 2, 3, 4),
    "at": datetime.datetime(9999, 12, 31, tzinfo=UTC), "local": datetime.datetime(1, 1, 1),
    "listed": [1, None], "mapped": [("a", Decimal("1.25"))], "inner": {"x": 1, "when": None},
}  # fmt: skip


def encoded(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> list[bytes]:
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    messages: list[bytes] = AvroEncoder(schema, avro_of(schema)).encode(batch).to_pylist()
    return messages


def written(schema: Any, *values: Any) -> list[bytes]:
    """Write records as another program would: by fastavro alone."""
    messages = []
    for value in values:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
        messages.append(stream.getvalue())
    return messages


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


@settings(max_examples=40)
@given(st.lists(ROW, max_size=6))
def test_every_type_comes_back(rows: list[dict[str, Any]]) -> None:
    decoded = AvroValues(RECORD).decode(encoded(rows))
    assert decoded.rows.to_pylist() == rows
    assert decoded.rows.schema == SCHEMA
    assert not decoded.errors


@settings(max_examples=20)
@given(st.lists(ROW, min_size=1, max_size=4))
def test_others_read_what_is_written(rows: list[dict[str, Any]]) -> None:
    parsed = fastavro.parse_schema(json.loads(avro_text(RECORD)))
    for row, message in zip(rows, encoded(rows), strict=True):
        read = fastavro.schemaless_reader(BytesIO(message), parsed, None)
        assert read["text"] == row["text"]
        assert read["price"] == row["price"]
        assert read["day"] == row["day"]


def test_logical_types_of_other_programs() -> None:
    schema = record(
        price={"type": "fixed", "name": "P", "size": 6, "logicalType": "decimal", "precision": 10, "scale": 2},
        at={"type": "long", "logicalType": "timestamp-millis"},
        clock={"type": "int", "logicalType": "time-millis"},
        who={"type": "string", "logicalType": "uuid"},
        color={"type": "enum", "name": "C", "symbols": ["RED", "GREEN"]},
        maybe=["long", "null"],
        parts={"type": "map", "values": {"type": "array", "items": "P"}},
    )
    values = {
        "price": Decimal("-1.50"),
        "at": datetime.datetime(2020, 1, 1, tzinfo=UTC),
        "clock": datetime.time(1, 0, 0, 5000),
        "who": "6f1c0de4-5b1f-4f0c-8b1e-0d2f6d6e7a11",
        "color": "GREEN",
        "maybe": None,
        "parts": {"a": [Decimal("2.25")]},
    }
    decoded = AvroValues(parse_avro(schema)).decode(written(schema, values))
    assert not decoded.errors
    assert decoded.rows.to_pylist() == [{**values, "parts": [("a", [Decimal("2.25")])]}]
    assert decoded.rows.schema.field("at").type == pa.timestamp("ms", "UTC")


def test_columns_are_pruned_in_their_order() -> None:
    messages = encoded([EXAMPLE, {}, EXAMPLE])
    pruned = AvroValues(RECORD).restrict(["text", "big"]).decode(messages)
    assert pruned.rows.to_pylist() == [
        {"text": "täxt", "big": -5},
        {"text": None, "big": None},
        {"text": "täxt", "big": -5},
    ]
    none = AvroValues(RECORD).restrict([]).decode([*messages, b""])
    assert (none.rows.num_rows, none.row_of.tolist(), len(none.errors)) == (3, [0, 1, 2], 1)


@pytest.mark.parametrize("columns", [None, ["flag", "inner"], []])
def test_a_damaged_message_costs_itself(columns: list[str] | None) -> None:
    decoder = AvroValues(RECORD)
    decoder = decoder if columns is None else decoder.restrict(columns)
    messages = list(mutated(encoded([EXAMPLE, {}, {**EXAMPLE, "text": "x" * 200}]), 10_000))
    assert 1_000 < check_fates(decoder, messages) < 10_000


@pytest.mark.parametrize("columns", [None, ["a"], []])
def test_cut_off_and_longer_messages_are_refused_whatever_is_read(columns: list[str] | None) -> None:
    fields: Any = record(a="long", b="bytes", c={"type": "array", "items": "long"}, d="string")
    schema = parse_avro(fields)
    [message] = written(fields, {"a": 1, "b": b"xyz", "c": [1, 2], "d": "text"})
    decoder = AvroValues(schema) if columns is None else AvroValues(schema).restrict(columns)
    wrong = [message[:end] for end in range(len(message))] + [message + b"\x00", message + message]
    assert len(decoder.decode(wrong).errors) == len(wrong)
    assert not decoder.decode([message]).errors


NASTY = {
    "empty": b"",
    "one document too many": written(record(a="string"), {"a": "x"})[0] * 2,
    "invalid UTF-8": b"\x02\xff",
    "lone surrogate": b"\x06\xed\xa0\x80",
    "a length of 2^62": b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01abc",
    "a negative length": b"\x03abc",
    "a number without an end": b"\xff" * 1_000,
}


@pytest.mark.parametrize("name", NASTY)
def test_nasty_messages(name: str) -> None:
    good = written(record(a="string"), {"a": "x"})[0]
    decoded = AvroValues(parse_avro(record(a="string"))).decode([good, NASTY[name], good])
    assert decoded.row_of.tolist() == [0, 2]
    [(index, reason)] = decoded.errors
    assert index == 1 and "Avro" in reason


def test_numbers_too_large_and_times_that_are_none() -> None:
    schema = record(i="int", t={"type": "long", "logicalType": "time-micros"})
    plain = record(i="long", t="long")
    messages = written(plain, {"i": 2**40, "t": 0}, {"i": 1, "t": 86_400_000_000}, {"i": 1, "t": -1}, {"i": 7, "t": 1})
    decoded = AvroValues(parse_avro(schema)).decode(messages)
    assert decoded.row_of.tolist() == [3]
    assert "no time of day" in decoded.errors[1][1]


def test_large_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = AvroValues(parse_avro(record(a="string")))
    [large] = written(record(a="string"), {"a": "x" * (20 << 20)})
    assert decoder.decode([large]).rows.num_rows == 1
    monkeypatch.setattr(avro, "MOST_MESSAGE_BYTES", 100)
    assert "100 are allowed" in decoder.decode([large]).errors[0][1]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "not JSON"),
        ('"string"', "must be a record"),
        (json.dumps(record(a={"type": "array", "items": "null"})), "no bytes"),
        (json.dumps(record(a={"type": "array", "items": record() | {"name": "Empty"}})), "no bytes"),
        ('{"type":"record","name":"R","fields":[{"name":"next","type":["null","R"]}]}', "contains itself"),
        (json.dumps(record(a=["long", "string"])), "union of long, string"),
        (json.dumps(record(a="Unheard")), "unknown type"),
        (json.dumps(record(a=[])), "union"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "deep"),
        ('{"type":' * 500 + '"long"' + "}" * 500, "deep"),
        ('{"type":"record","fields":[]}', "without a name"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"long"},{"name":"a","type":"long"}]}', "of its own"),
    ],
)
def test_schemas_that_are_refused(schema: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        AvroValues(parse_avro(schema))


def test_a_schema_that_grows_by_reference_is_refused() -> None:
    fields: list[Any] = []
    inner: Any = record(x="long") | {"name": "L0"}
    for level in range(1, 40):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"L{level - 1}"}]
        inner = {"type": "record", "name": f"L{level}", "fields": fields}
    with pytest.raises(SchemaError, match="too large"):
        parse_avro(inner)


def test_a_schema_from_a_file_a_dict_and_text(tmp_path: Path) -> None:
    text = json.dumps(record(a="long"))
    (tmp_path / "r.avsc").write_text(text)
    for given_as in (tmp_path / "r.avsc", str(tmp_path / "r.avsc"), text, record(a="long")):
        assert load_avro(given_as)[0].fields[0].name == "a"
    with pytest.raises(SchemaError, match="cannot be read"):
        load_avro(tmp_path / "missing.avsc")
    with pytest.raises(SchemaError, match="path of a file"):
        load_avro(7)


def test_writing_by_a_given_schema_fills_in_defaults() -> None:
    fields = [
        {"name": "a", "type": "int"},
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "c", "type": ["null", "long"]},
    ]
    schema = parse_avro({"type": "record", "name": "R", "fields": fields})
    rows = pa.record_batch({"a": pa.array([1, 2], pa.int64())})
    decoded = AvroValues(schema).decode(AvroEncoder(rows.schema, schema).encode(rows).to_pylist())
    assert decoded.rows.to_pylist() == [{"a": 1, "b": b"\xff", "c": None}, {"a": 2, "b": b"\xff", "c": None}]


@pytest.mark.parametrize(
    ("schema", "rows", "error", "said"),
    [
        (record(a="long"), {"b": [1]}, SchemaError, "'b' is no field"),
        (record(a="long", c="long"), {"a": [1]}, SchemaError, "'c' has no default"),
        (record(a="int"), {"a": [2**40]}, BadRecordError, "'a' cannot be written as int32"),
        (record(a="long"), {"a": [None]}, BadRecordError, "cannot be written as Avro"),
        (record(a={"type": "enum", "name": "E", "symbols": ["A"]}), {"a": ["B"]}, BadRecordError, "cannot be written"),
    ],
)
def test_rows_that_cannot_be_written(schema: Any, rows: Any, error: type[Exception], said: str) -> None:
    batch = pa.record_batch(rows)
    with pytest.raises(error, match=said):
        AvroEncoder(batch.schema, parse_avro(schema)).encode(batch)


def test_a_column_that_avro_cannot_name_or_hold() -> None:
    with pytest.raises(SchemaError, match="rename it"):
        avro_of(pa.schema([("a b", pa.int64())]))
    with pytest.raises(SchemaError, match="cannot hold"):
        avro_of(pa.schema([("a", pa.duration("us"))]))
