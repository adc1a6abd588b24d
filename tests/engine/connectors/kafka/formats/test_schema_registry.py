"""The schema registry's client, against a server that speaks its protocol over sockets: names, caches, outages."""

import base64
import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from penstock.engine.connectors.kafka.encoded import MessageEncoder, MessageLayout
from penstock.engine.connectors.kafka.formats import extras
from penstock.engine.connectors.kafka.formats.avro import AvroValues
from penstock.engine.connectors.kafka.formats.avro_schema import parse_avro
from penstock.engine.connectors.kafka.formats.contract import Headers
from penstock.engine.connectors.kafka.formats.decoders import decoder
from penstock.engine.connectors.kafka.formats.encoders import sink_format
from penstock.engine.connectors.kafka.formats.registry_settings import RegistrySettings
from penstock.engine.connectors.kafka.formats.schema_registry import UNKNOWN_FOR_S, SchemaRegistry, UnknownSchemaError
from penstock.engine.connectors.kafka.formats.wire import VALUE_HEADER, header, prefix
from penstock.engine.core.clock import ManualClock
from penstock.model.errors import OptionError, RetryableError, SchemaError, UserError
from penstock.model.installation import extra_install_command
from tests.engine.connectors.kafka.formats.protobuf_classes import ORDER
from tests.engine.connectors.kafka.formats.registry_server import RegistryServer, registry_server

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
TEXT = json.dumps(SCHEMA)
ROWS = pa.record_batch({"a": pa.array([1, 2])})
FAST = {"timeout": 2, "max.retries": 0}


def body(value: int) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), {"a": value})
    return stream.getvalue()


def registry_of(server: RegistryServer, clock: ManualClock | None = None, **more: Any) -> SchemaRegistry:
    return SchemaRegistry(RegistrySettings({"url": server.url, **FAST, **more}), clock)


def encoder(server: RegistryServer, name: str = "avro", rows: pa.RecordBatch = ROWS, **more: Any) -> MessageEncoder:
    options = {"registry": {"url": server.url, **FAST, **more.pop("registry", {})}, **more}
    made = sink_format(name, topic="t", **options)
    return MessageEncoder(rows.schema, MessageLayout(), made.make, alone=False, limit_bytes=10_000, where="topic 't'")


def test_both_ways_to_name_a_schema() -> None:
    with registry_server() as server:
        schema_id = server.add("t-value", TEXT)
        values = [prefix(schema_id) + body(1), body(2), body(3), prefix(schema_id) + body(4)]
        named: list[Headers] = [
            (),
            (("trace", b"x"), (VALUE_HEADER, header(server.guid(schema_id)))),
            ((VALUE_HEADER, prefix(schema_id)),),
            (("__key_schema_id", b"\x01junk"),),
        ]
        decoded = AvroValues(parse_avro(TEXT), registry_of(server)).decode(values, lambda index: named[index])
        assert decoded.rows.to_pylist() == [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}]
        # The answer tells the GUID too.
        assert server.requests == ["GET /schemas/ids/1"]


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01\x02", b'{"a": 1}'])
def test_messages_that_name_no_schema(value: bytes) -> None:
    with registry_server() as server:
        decoded = AvroValues(parse_avro(TEXT), registry_of(server)).decode([value])
        assert "names no schema" in decoded.errors[0][1]
        odd = AvroValues(parse_avro(TEXT), registry_of(server)).decode(
            [body(1)], lambda _: [(VALUE_HEADER, b"\x01abc")]
        )
        assert "header __value_schema_id names no schema" in odd.errors[0][1]
        assert not server.requests


def test_an_unknown_schema_is_asked_for_once_a_minute() -> None:
    clock = ManualClock()
    with registry_server() as server:
        registry = registry_of(server, clock)
        for _ in range(3):
            with pytest.raises(UnknownSchemaError, match="does not know schema 1"):
                registry.schema(1)
        assert len(server.requests) == 1
        server.add("t-value", TEXT)
        clock.advance_ns(UNKNOWN_FOR_S * 1_000_000_000)
        assert registry.schema(1).text == TEXT
        assert registry.schema(server.guid(1)).text == TEXT
        with pytest.raises(UnknownSchemaError):
            registry.schema(UUID(int=5))


def test_an_outage_stops_only_what_was_never_asked_for() -> None:
    with registry_server() as server:
        known, later = prefix(server.add("t-value", TEXT)) + body(1), TEXT.replace('"R"', '"Other"')
        values = AvroValues(parse_avro(TEXT), registry_of(server))
        assert values.decode([known]).rows.num_rows == 1
        new = prefix(server.add("t-value", later)) + body(2)
        server.stop()
        assert values.decode([known, known]).rows.num_rows == 2
        with pytest.raises(RetryableError, match="cannot be reached for schema 2"):
            values.decode([known, new])
        assert values.fresh().decode([b"\x07"]).errors
        server.start()
        assert values.decode([known, new]).rows.to_pylist() == [{"a": 1}, {"a": 2}]
        server.status = 503
        assert values.decode([known, new]).rows.num_rows == 2


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (500, RetryableError, "now"),
        (503, RetryableError, "now"),
        (429, RetryableError, "now"),
        (401, UserError, "credentials"),
        (403, UserError, "right"),
        (404, UserError, "address"),
        (418, UserError, "check registry"),
    ],
)
def test_answers_that_are_none(status: int, error: type[Exception], said: str) -> None:
    with registry_server() as server:
        server.status = status
        with pytest.raises(error, match=said):
            registry_of(server).schema(1)


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"null", b'{"schema": 5}', b"\xff", b"{}"])
def test_an_answer_that_is_no_schema_never_crashes(content: bytes) -> None:
    with registry_server() as server:
        server.body = content
        try:
            decoded = AvroValues(parse_avro(TEXT), registry_of(server)).decode([prefix(1) + body(1)])
        except RetryableError as error:
            assert "no schema" in str(error)
        else:
            assert len(decoded.errors) == 1


def test_a_server_that_knows_no_guids_is_a_clear_error() -> None:
    with registry_server(guids=False) as server:
        with pytest.raises(UserError, match="new enough to know schemas by GUID"):
            registry_of(server).schema(UUID(int=5))
        with pytest.raises(UserError, match="gives schemas no GUID"):
            encoder(server, registry={"schema.id.serializer": "header"})


def test_schemas_that_refer_to_others() -> None:
    point = '{"type":"record","name":"geo.Point","fields":[{"name":"x","type":"long"}]}'
    shape = (
        '{"type":"record","name":"Shape","fields":[{"name":"a","type":"geo.Point"},{"name":"b","type":"geo.Point"}]}'
    )
    with registry_server() as server:
        server.add("points", point)
        reference = [{"name": "geo.Point", "subject": "points", "version": 1}]
        schema_id = server.add("t-value", shape, references=reference)
        known = registry_of(server).latest("t-value")
        reader = parse_avro(known.text, known.references)
        decoded = AvroValues(reader, registry_of(server)).decode([prefix(schema_id) + b"\x02\x04"])
        assert decoded.rows.to_pylist() == [{"a": {"x": 1}, "b": {"x": 2}}]
        lost = server.add("t-value", shape, references=[{**reference[0], "version": 9}])
        assert (
            "does not have version 9"
            in AvroValues(reader, registry_of(server)).decode([prefix(lost) + b"\x02\x04"]).errors[0][1]
        )


def test_writes_and_reads_again_by_prefix_and_by_header() -> None:
    with registry_server() as server:
        messages = encoder(server).encode(ROWS)
        assert messages["value"][0].as_py() == prefix(1) + b"\x02\x02"
        assert list(server.subjects) == ["t-value"]
        assert (
            decoder("avro", None, topics="t", registry=server.url).decode(messages["value"].to_pylist()).rows.num_rows
            == 2
        )
        headed = encoder(server, registry={"schema.id.serializer": "header"}).encode(ROWS)
        assert headed["headers"].to_pylist()[1] == [{"key": VALUE_HEADER, "value": header(server.guid(1))}]
        assert headed["value"][0].as_py() == b"\x02\x02"


def test_headers_of_the_row_stay_beside_that_of_the_schema() -> None:
    rows = pa.record_batch({"a": [1], "h": pa.array([[("trace", b"1")]], pa.map_(pa.string(), pa.binary()))})
    with registry_server() as server:
        made = sink_format("avro", topic="t", registry={"url": server.url, "schema.id.serializer": "header"})
        layout = MessageLayout(headers="h")
        messages = MessageEncoder(rows.schema, layout, made.make, alone=False, limit_bytes=999, where="t").encode(rows)
    assert [item["key"] for item in messages["headers"][0].as_py()] == ["trace", VALUE_HEADER]


def test_what_may_not_be_registered() -> None:
    with registry_server() as server:
        with pytest.raises(SchemaError, match=r"auto\.register\.schemas is False"):
            encoder(server, registry={"auto.register.schemas": False})
        assert not server.subjects
        encoder(server)
        encoder(server, registry={"auto.register.schemas": False})
        server.frozen = True
        with pytest.raises(SchemaError, match="does not go with earlier ones"):
            encoder(server, rows=pa.record_batch({"b": [1]}))
        server.stop()
        with pytest.raises(RetryableError, match="cannot be reached"):
            encoder(server)


def test_no_schema_and_no_subject() -> None:
    with registry_server() as server:
        with pytest.raises(SchemaError, match="no subject 't-value'"):
            decoder("avro", None, topics=["t"], registry=server.url)
        for topics in ("^t.*", ["a", "b"]):
            with pytest.raises(SchemaError, match="several topics"):
                decoder("avro", None, topics=topics, registry=server.url)
        with pytest.raises(SchemaError, match="give schema="):
            decoder("avro", None, topics="t")


def test_credentials_come_by_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with registry_server() as server:
        server.add("t-value", TEXT)
        server.credentials = "Basic " + base64.b64encode(b"me:secret").decode()
        with pytest.raises(UserError, match="credentials"):
            registry_of(server).schema(1)
        monkeypatch.setenv("REGISTRY_LOGIN", "me:secret")
        assert registry_of(server, **{"basic.auth.user.info": "env:REGISTRY_LOGIN"}).schema(1).text == TEXT
        (tmp_path / "login").write_text("me:secret\n")
        assert registry_of(server, **{"basic.auth.user.info": f"file:{tmp_path}/login"}).schema(1).text == TEXT
        with pytest.raises(UserError, match="cannot be read"):
            registry_of(server, **{"basic.auth.user.info": "env:NOT_THERE"}).schema(1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no address"),
        ({"url": "http://x", "basic.auth.user.info": "me:secret"}, "holds the secret"),
        ("http://me:secret@x", "password in its URL"),
        ({"url": "http://x", "schema.id.serializer": "other"}, "prefix, header"),
        ({"url": "http://x", "auto.register.schemas": "yes"}, "True or False"),
    ],
)
def test_settings_that_are_refused(given: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        RegistrySettings(given)
    assert "me:secret" not in str(caught.value)


def test_a_setting_that_the_client_does_not_know() -> None:
    with pytest.raises(OptionError, match="does not fit"):
        SchemaRegistry(RegistrySettings({"url": "http://127.0.0.1:1", "no.such": 1})).schema(1)


def test_protobuf_names_its_message() -> None:
    rows = pa.record_batch({"id": [1, 2], "name": ["a", "b"]})
    for serialized in (True, False):
        with registry_server(serialized=serialized) as server:
            messages = encoder(server, "protobuf", rows, message=ORDER).encode(rows)
            values = messages["value"].to_pylist()
            assert values[0].startswith(prefix(1) + b"\x02\x02")
            values += [
                prefix(1) + b"\x00" + values[0][7:],
                prefix(1) + b"\x04\x02\x00" + values[0][7:],
                prefix(9) + b"\x00",
            ]
            read = decoder("protobuf", None, message=ORDER, registry=server.url).restrict(["id", "name"])
            decoded = read.decode(values)
            assert decoded.rows.equals(rows)
            wrong = "it is a shop.Customer, not a shop.Order" if serialized else "it is message [0] of schema 1"
            assert wrong in decoded.errors[0][1]
            assert [index for index, _ in decoded.errors] == [2, 3, 4]
            headed = encoder(
                server, "protobuf", rows, message=ORDER, registry={"schema.id.serializer": "header"}
            ).encode(rows)
            named = [[(item["key"], item["value"]) for item in headers] for headers in headed["headers"].to_pylist()]
            assert read.decode(headed["value"].to_pylist(), lambda index: named[index]).rows.equals(rows)  # noqa: B023


def test_a_schema_of_another_kind_costs_its_messages() -> None:
    with registry_server() as server:
        server.add("t-value", "{}", "JSON")
        assert (
            "is JSON, not AVRO"
            in AvroValues(parse_avro(TEXT), registry_of(server)).decode([prefix(1) + b"\x02"]).errors[0][1]
        )
        read = decoder("protobuf", None, message=ORDER, registry=server.url)
        assert "is JSON, not PROTOBUF" in read.decode([prefix(1) + b"\x00"]).errors[0][1]


def test_missing_libraries_are_named() -> None:
    with pytest.raises(
        OptionError, match="format='avro' needs more libraries .*" + re.escape(extra_install_command("avro"))
    ):
        extras.needed("no_such_module", "avro", "format='avro'")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("csv", {}, "one of json"),
        ("json", {"registry": "http://x"}, "registry= is for"),
        ("json", {"message": ORDER}, "message= is for"),
        ("protobuf", {}, "needs message="),
        ("protobuf", {"message": dict}, "protoc generated"),
        ("protobuf", {"message": ORDER, "schema": {"a": int}}, "leave schema= out"),
    ],
)
def test_options_that_do_not_go_together(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        decoder(name, options.pop("schema", None), **options)
