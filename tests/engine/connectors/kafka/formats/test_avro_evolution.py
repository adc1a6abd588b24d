"""Avro schemas that change: what the rules allow is read, and what they do not costs the messages concerned."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.formats.avro import AvroValues
from penstock.engine.connectors.kafka.formats.avro_schema import parse_avro
from penstock.engine.connectors.kafka.formats.contract import Decoded
from penstock.engine.connectors.kafka.formats.registry_settings import RegistrySettings
from penstock.engine.connectors.kafka.formats.schema_registry import SchemaRegistry
from penstock.engine.connectors.kafka.formats.wire import prefix
from tests.engine.connectors.kafka.formats.registry_server import RegistryServer, registry_server

KINDS = ("int", "long", "float", "double", "string", "bytes", "boolean")
READABLE = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
    "boolean": ("boolean",),
}
SAMPLE: dict[str, Any] = {
    "int": 7,
    "long": 8,
    "float": 1.5,
    "double": 2.5,
    "string": "s",
    "bytes": b"b",
    "boolean": True,
}
DEFAULT: dict[str, Any] = {**SAMPLE, "bytes": "d", "float": 3.5}


def schema_of(fields: dict[str, tuple[str, bool]], name: str = "R") -> dict[str, Any]:
    """Return a schema; fields are name to type and whether there is a default."""
    made = [
        {"name": key, "type": kind, **({"default": DEFAULT[kind]} if default else {})}
        for key, (kind, default) in fields.items()
    ]
    return {"type": "record", "name": name, "fields": made}


def message(server: RegistryServer, schema: dict[str, Any], value: Any, subject: str = "t-value") -> bytes:
    stream = BytesIO()
    stream.write(prefix(server.add(subject, json.dumps(schema))))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def read(server: RegistryServer, reader: Any, messages: list[bytes], columns: list[str] | None = None) -> Decoded:
    decoder = AvroValues(parse_avro(reader), SchemaRegistry(RegistrySettings(server.url)))
    return (decoder if columns is None else decoder.restrict(columns)).decode(messages)


FIELDS = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.sampled_from(KINDS), st.booleans()), min_size=1, max_size=5
)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[RegistryServer, SchemaRegistry]]:
    """One registry for all histories."""
    with registry_server() as server:
        yield server, SchemaRegistry(RegistrySettings(server.url))


@settings(max_examples=150)
@given(data=st.data())
def test_histories_of_a_schema(shared: tuple[RegistryServer, SchemaRegistry], data: st.DataObject) -> None:
    """Add, drop, rename, retype and reorder: each version's messages have the fate that Avro's rules give them."""
    versions = [data.draw(FIELDS)]
    for _ in range(data.draw(st.integers(1, 5))):
        fields = dict(versions[-1])
        what = data.draw(st.sampled_from(("add", "drop", "rename", "retype", "reorder")))
        key = data.draw(st.sampled_from(sorted(fields)))
        other = data.draw(st.sampled_from("abcdefgh"))
        if what == "drop" and len(fields) > 1:
            del fields[key]
        elif what == "rename" and other not in fields:
            fields[other] = fields.pop(key)
        elif what == "reorder":
            fields = dict(data.draw(st.permutations(list(fields.items()))))
        else:
            fields[other if what == "add" else key] = data.draw(st.tuples(st.sampled_from(KINDS), st.booleans()))
        versions.append(fields)
    reader = data.draw(st.sampled_from(versions))
    server, registry = shared
    messages = [
        message(server, schema_of(fields), {key: SAMPLE[kind] for key, (kind, _) in fields.items()})
        for fields in versions
    ]
    decoded = AvroValues(parse_avro(schema_of(reader, "ReadAs")), registry).decode(messages)
    expected = [index for index, fields in enumerate(versions) if _fits(fields, reader)]
    assert decoded.row_of.tolist() == expected
    assert [index for index, _ in decoded.errors] == [n for n in range(len(versions)) if n not in expected]
    assert all("field" in reason for _, reason in decoded.errors)
    for row, index in zip(decoded.rows.to_pylist(), expected, strict=True):
        for key, (kind, _) in reader.items():
            value = SAMPLE[versions[index][key][0]] if key in versions[index] else DEFAULT[kind]
            assert row[key] == _as(kind, value)


def _fits(written: dict[str, tuple[str, bool]], reader: dict[str, tuple[str, bool]]) -> bool:
    return all(
        kind in READABLE[written[key][0]] if key in written else default for key, (kind, default) in reader.items()
    )


def _as(kind: str, value: Any) -> Any:
    if kind == "bytes":
        return value.encode() if isinstance(value, str) else value
    return value.decode() if kind == "string" and isinstance(value, bytes) else value


def test_renamed_by_an_alias_and_nested_defaults() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "long"}]}
    old = {"type": "record", "name": "R", "fields": [{"name": "old", "type": "int"}, {"name": "in", "type": inner}]}
    added = {"name": "y", "type": "bytes", "default": "\u00fe"}
    inner = {"type": "record", "name": "J", "fields": [{"name": "x", "type": "double"}, added]}
    more = {"type": "record", "name": "K", "fields": [{"name": "z", "type": "bytes", "default": "\u00ff"}]}
    fields = [
        {"name": "new", "type": "long", "aliases": ["old"]},
        {"name": "in", "type": inner},
        {"name": "more", "type": more, "default": {}},
    ]
    new = {"type": "record", "name": "S", "fields": fields}
    with registry_server() as server:
        decoded = read(server, new, [message(server, old, {"old": 3, "in": {"x": 4}})])
    assert decoded.rows.to_pylist() == [{"new": 3, "in": {"x": 4.0, "y": b"\xfe"}, "more": {"z": b"\xff"}}]


def test_null_where_none_is_read_costs_its_message() -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int", "string"]}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    with registry_server() as server:
        decoded = read(server, new, [message(server, old, {"a": value}) for value in (1, None, 2, "text")])
    assert decoded.rows.to_pylist() == [{"a": 1}, {"a": 2}]
    assert [index for index, _ in decoded.errors] == [1, 3]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        ),
    ],
)
def test_the_same_number_with_another_meaning_is_refused(old: Any, new: Any) -> None:
    def field(kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "at", "type": kind}]}

    plain = {"long": 5, "bytes": b"\x01"}[old["type"]]
    with registry_server() as server:
        schema_id = prefix(server.add("t-value", json.dumps(field(old))))
        body = BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(field(old["type"])), {"at": plain})
        decoded = read(server, field(new), [schema_id + body.getvalue()])
    assert "'at'" in decoded.errors[0][1] and "means something else" in decoded.errors[0][1]


def test_an_enum_falls_back_to_its_default_or_costs_the_message() -> None:
    def field(*symbols: str, **more: Any) -> dict[str, Any]:
        kind = {"type": "enum", "name": "E", "symbols": list(symbols), **more}
        return {"type": "record", "name": "R", "fields": [{"name": "e", "type": kind}]}

    with registry_server() as server:
        messages = [message(server, field("A", "B"), {"e": "B"}), message(server, field("A", "B"), {"e": "A"})]
        assert [index for index, _ in read(server, field("A"), messages).errors] == [0]
        assert read(server, field("A", "Z", default="Z"), messages).rows.to_pylist() == [{"e": "Z"}, {"e": "A"}]


def test_writers_with_recursive_or_odd_schemas_cost_their_messages() -> None:
    reader = schema_of({"a": ("int", False)})
    with registry_server() as server:
        odd = [
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"n","type":["null","R"]}]}',
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"n","type":{"type":"array","items":"null"}}]}',
            '"int"',
            "{",
        ]
        messages = [prefix(server.add("t-value", text)) + b"\x02\x00" for text in odd]
        good = message(server, reader, {"a": 1})
        decoded = read(server, reader, [*messages, good])
    assert decoded.row_of.tolist() == [4]
    assert all("cannot be used" in reason for _, reason in decoded.errors)
