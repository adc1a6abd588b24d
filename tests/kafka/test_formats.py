"""Each format through a real broker: written by a pipeline, read by another, and by the libraries of others."""

import base64
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from tests.engine.connectors.kafka.formats.protobuf_classes import ORDER
from tests.engine.connectors.kafka.formats.registry_server import registry_server
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import read_topic

AT = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(9, 2))]
)
ROWS = [{"id": number, "name": f"n{number}", "at": AT, "price": Decimal("1.25")} for number in range(500)]
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


def write(
    kafka: str, topic: str, tmp_path: Path, rows: list[dict[str, Any]], columns: pa.Schema, **options: Any
) -> None:
    stream = ps.read_memory(pa.Table.from_pylist(rows, columns), time="at", job=Job()).name("rows")
    sink = stream.write_kafka(topic, kafka=kafka, guarantee="exactly_once", **options).name("out")
    sink.job.run(f"write-{topic}", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job")


def read(kafka: str, topic: str, **options: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows, and dead letters."""
    stream = read_kafka(topic, kafka=kafka, until="latest", job=Job(), **options)
    letters = stream.side_output("dead_letter").collect()
    rows = stream.collect()
    rows.job.run("reading")
    return rows.rows(), letters.rows()


def test_avro_without_a_registry(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    write(kafka, name, tmp_path, ROWS, SCHEMA, format="avro", schema=AVRO, key="id")
    rows, letters = read(kafka, name, format="avro", schema=AVRO, key={"k": str})
    assert [row.pop("k") for row in rows] == [str(number) for number in range(500)]
    assert rows == ROWS and letters == []
    [first, *_] = read_topic(kafka, name)
    assert fastavro.schemaless_reader(BytesIO(first.value or b""), fastavro.parse_schema(AVRO), None) == ROWS[0]


@pytest.mark.parametrize("serializer", ["prefix", "header"])
def test_avro_with_a_registry(kafka: str, topic: MakeTopic, tmp_path: Path, serializer: str) -> None:
    name = topic()
    with registry_server() as server:
        registry = {"url": server.url, "schema.id.serializer": serializer}
        write(kafka, name, tmp_path, ROWS, SCHEMA, format="avro", registry=registry)
        assert list(server.subjects) == [f"{name}-value"]
        rows, letters = read(kafka, name, format="avro", registry=server.url)
        assert rows == ROWS and letters == []
        client = SchemaRegistryClient({"url": server.url})
        [first, *_] = read_topic(kafka, name)
        context = SerializationContext(name, MessageField.VALUE, list(first.headers))
        theirs = AvroDeserializer(client)(first.value, context)
        assert theirs == ROWS[0]


def test_protobuf_with_a_registry(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name, schema = topic(), pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    rows = [{key: row[key] for key in schema.names} for row in ROWS]
    with registry_server() as server:
        options: dict[str, Any] = {"format": "protobuf", "message": ORDER, "registry": server.url}
        write(kafka, name, tmp_path, rows, schema, **options)
        found, letters = read(kafka, name, **options)
    assert [{key: row[key] for key in schema.names} for row in found] == rows and letters == []


def test_arrow_has_many_rows_in_a_message(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    write(kafka, name, tmp_path, ROWS, SCHEMA, format="arrow")
    messages = read_topic(kafka, name)
    assert len(messages) < 10
    assert {message.timestamp for message in messages} == {int(AT.timestamp() * 1_000)}
    rows, letters = read(kafka, name, format="arrow", schema=SCHEMA, metadata={"offset": "o"})
    assert {row.pop("o") for row in rows} == set(range(len(messages)))
    assert rows == ROWS and letters == []


@pytest.mark.parametrize("format", ["avro", "protobuf", "arrow"])
def test_a_poison_message_becomes_a_dead_letter_with_its_bytes(
    kafka: str, topic: MakeTopic, tmp_path: Path, format: str
) -> None:
    name = topic()
    options: dict[str, Any] = {
        "avro": {"schema": AVRO},
        "protobuf": {"message": ORDER},
        "arrow": {"schema": SCHEMA},
    }[format]
    rows, schema = ROWS[:3], SCHEMA
    if format == "protobuf":
        schema = schema.remove(3)
        rows = [{key: row[key] for key in schema.names} for row in rows]
    poison = b"\x0b\xff\xff\xff\xff\xff\x00poison"
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(name, poison, key=b"k", partition=0)
    assert producer.flush(20) == 0
    written = {} if format == "arrow" else options
    write(kafka, name, tmp_path, rows, schema, format=format, **written)
    found, letters = read(kafka, name, format=format, **options)
    assert [row["id"] for row in found] == [0, 1, 2]
    [letter] = letters
    assert base64.b64decode(letter["raw_base64"]) == poison
    assert letter["position"] == f"{name}/0@0" and "message" in letter["error"]
