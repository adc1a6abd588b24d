"""What Spark reads of Kafka is what the stream's own source reads: every row once, whatever lies between offsets."""

from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.formats.contract import Decoded, HeadersOf, ValueDecoder, no_headers, one_each
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import UserError
from penstock.replay.compiler import compile_job
from penstock.replay.kafka_batches import ERROR
from penstock.replay.kafka_reading import read_rows
from penstock.replay.kafka_slices import OffsetRange, RowPosition, Slice, offset_range
from penstock.replay.kafka_source import TopicScan
from penstock.replay.offsets import OffsetSelection
from penstock.replay.source_reading import SourceReading
from penstock.replay.spark_failures import worker_failure
from tests.engine.connectors.kafka.formats.registry_server import registry_server
from tests.kafka.test_source import transaction
from tests.replay.conftest import MakeTopic
from tests.replay.kafka_rows import METADATA, await_ends, everything, in_order, produce, rows_of, source_of, stream_rows

Fields = {"id": int, "name": str}
AVRO = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}
HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]


def in_this_process(
    source: Any, chosen: OffsetSelection, pieces: list[Slice], *, errors: bool = False
) -> list[pa.RecordBatch]:
    """Return what a task makes of slices, sent as Spark sends it."""
    reading = TopicScan(source.settings, source.maker, tuple(pieces), chosen.topic_ids, errors)
    sent = cloudpickle.loads(cloudpickle.dumps(reading))
    return [batch for piece in pieces for batch in sent.read(piece)]


def test_rows_and_errors_are_those_of_the_stream(spark: SparkSession, kafka: str, topic: MakeTopic) -> None:
    name = topic(3)
    pretty, two = b'{\n"id": 6, "name": "n6"\n}', b'{"id":3}\n{"id":33}'
    produce(kafka, name, [*range(40), b"", None, two, pretty, b"\xff", 41], 0, key=b"k0", headers=HEADERS)
    produce(kafka, name, [*range(100, 120), None], 1, key=b"\xff")
    options: dict[str, Any] = {"schema": Fields, "metadata": METADATA, "key": {"k": str}}
    rows, letters = stream_rows(name, kafka, **options)
    source = source_of(name, kafka, **options)
    chosen = everything(source)
    frame = read_rows(spark, source, chosen, most_offsets=7)
    assert in_order(rows_of(frame, source.schema)) == in_order(rows)
    every = read_rows(spark, source, chosen, most_offsets=7, errors=True)
    assert in_order(rows_of(every.where(f"`{ERROR}` IS NULL").drop(ERROR), source.schema)) == in_order(rows)
    rejected = every.where(f"`{ERROR}` IS NOT NULL").collect()
    assert sorted(row[ERROR] for row in rejected) == sorted(letter["error"] for letter in letters)
    assert len(rejected) == 24 and {value for row in rejected for value in row.asDict().values()} == {
        None,
        *(letter["error"] for letter in letters),
    }


def test_tombstones_are_kept_if_they_are_asked_for(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, [1, None, 2], key=b"k")
    options: dict[str, Any] = {"schema": Fields, "metadata": {"tombstone": "gone", "offset": "o"}}
    source = source_of(name, kafka, **options)
    chosen = everything(source)
    batches = in_this_process(source, chosen, [Slice(name, 0, 0, 3)])
    assert [row for batch in batches for row in batch.to_pylist()] == stream_rows(name, kafka, **options)[0]


def test_only_the_columns_that_are_wanted_are_decoded(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, [1, 2], key=b"k")
    source = source_of(name, kafka, schema=Fields, metadata=METADATA).restrict(["m_offset", "name"], None)
    batches = in_this_process(source, everything(source), [Slice(name, 0, 0, 2)])
    assert pa.Table.from_batches(batches).to_pydict() == {"m_offset": [0, 1], "name": ["n1", "n2"]}


def test_messages_without_a_usable_event_time_are_left_out(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, [b'{"at":"2026-01-01T00:00:00"}', b'{"at":null}', b'{"at":"2026-01-02T00:00:00"}'])
    options: dict[str, Any] = {"schema": {"at": "timestamp[us]"}, "time": "at"}
    rows, letters = stream_rows(name, kafka, **options)
    source = source_of(name, kafka, **options)
    batches = in_this_process(source, everything(source), [Slice(name, 0, 0, 3)])
    assert [row for batch in batches for row in batch.to_pylist()] == rows
    assert (len(rows), len(letters)) == (2, 1)


def test_ends_by_position_where_no_message_is(spark: SparkSession, kafka: str, topic: MakeTopic) -> None:
    name = topic(5, min_cleanable_dirty_ratio="0.5")
    produce(kafka, name, range(10), 0)
    transaction(kafka, name, range(10, 15), "aborted").abort_transaction(20)
    transaction(kafka, name, range(20, 25), "kept", 1).commit_transaction(20)
    produce(kafka, name, range(30, 35), 2)
    still_open = transaction(kafka, name, range(40, 45), "open", 2)
    transaction(kafka, name, range(50, 55), "nothing", 3).abort_transaction(20)
    await_ends(kafka, name, [16, 6, 5, 6, 0])
    source = source_of(name, kafka, schema=Fields, metadata={"offset": "o", "partition": "p"})
    chosen = everything(source)
    # Behind the last message there are markers, aborted rows or an open transaction; one partition has nothing.
    assert [item.stop.offset for item in chosen.ranges] == [16, 6, 5, 6]
    rows = rows_of(read_rows(spark, source, chosen, most_offsets=4), source.schema)
    expected, _ = stream_rows(name, kafka, schema=Fields, metadata={"offset": "o", "partition": "p"})
    assert in_order(rows) == in_order(expected)
    assert sorted(row["id"] for row in rows) == [*range(10), *range(20, 25), *range(30, 35)]
    still_open.abort_transaction(20)


def test_a_compacted_topic_ends(kafka: str, topic: MakeTopic) -> None:
    name = topic(1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    for number in range(20):
        produce(kafka, name, [number], key=b"same")
    source = source_of(name, kafka, schema=Fields)
    chosen = everything(source)
    pieces = [Slice(name, 0, start, start + 4) for start in range(0, 20, 4)]
    found = [row["id"] for batch in in_this_process(source, chosen, pieces) for row in batch.to_pylist()]
    assert found[-1] == 19 and found == sorted(set(found))


def test_an_empty_topic_has_no_rows(spark: SparkSession, kafka: str, topic: MakeTopic) -> None:
    source = source_of(topic(2), kafka, schema=Fields)
    chosen = everything(source)
    assert chosen.ranges == ()
    assert rows_of(read_rows(spark, source, chosen), source.schema) == []


def test_messages_of_many_rows_are_cut_where_a_checkpoint_was(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    for start in range(0, 30, 10):
        sink = BytesIO()
        rows = pa.RecordBatch.from_pydict({"id": list(range(start, start + 10))})
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        produce(kafka, name, [sink.getvalue()])
    source = source_of(name, kafka, schema={"id": int}, format="arrow")
    chosen = everything(source)

    def ids(pieces: list[Slice]) -> list[int]:
        return [row["id"] for batch in in_this_process(source, chosen, pieces) for row in batch.to_pylist()]

    assert ids([Slice(name, 0, 0, 3)]) == list(range(30))
    assert ids([Slice(name, 0, 0, 2, skip=3), Slice(name, 0, 2, 3, most=4)]) == list(range(3, 24))
    assert ids([Slice(name, 0, 1, 2, skip=2, most=5)]) == list(range(12, 17))


class Lines(ValueDecoder):
    """A decoder of a user's own."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("line", pa.string())])

    def decode(self, values: Any, headers: HeadersOf = no_headers) -> Decoded:
        return one_each(
            pa.RecordBatch.from_arrays([pa.array([value.decode() for value in values])], schema=self.schema)
        )

    def restrict(self, columns: Any) -> "Lines":
        return self


@pytest.fixture(scope="module")
def avro_bytes() -> bytes:
    content = BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(AVRO), {"id": 7, "name": "n"})
    return content.getvalue()


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        (["avro", b"poison"], {"format": "avro", "schema": AVRO, "key": {"k": "int64"}}),
        ([Timestamp(seconds=5).SerializeToString(), b"\xff"], {"format": "protobuf", "message": Timestamp}),
        ([b"\x00\x00\x00\x07", b"short"], {"format": "raw", "schema": {"number": "int32"}}),
        ([b"one", b"two"], {"format": Lines()}),
    ],
    ids=["avro", "protobuf", "raw", "own"],
)
def test_every_format(
    kafka: str, topic: MakeTopic, avro_bytes: bytes, messages: list[Any], options: dict[str, Any]
) -> None:
    name = topic()
    produce(kafka, name, [avro_bytes if message == "avro" else message for message in messages], key=bytes(8))
    options = {**options, "metadata": {"offset": "o"}}
    rows, letters = stream_rows(name, kafka, **options)
    source = source_of(name, kafka, **options)
    chosen = everything(source)
    batches = in_this_process(source, chosen, [Slice(name, 0, 0, 2)])
    assert [row for batch in batches for row in batch.to_pylist()] == rows
    batches = in_this_process(source, chosen, [Slice(name, 0, 0, 2)], errors=True)
    every = [row for batch in batches for row in batch.to_pylist()]
    errors = [row.pop(ERROR) for row in every]
    assert errors == [None] * len(rows) + [letter["error"] for letter in letters]
    assert every[: len(rows)] == rows and len(errors) == 2


def test_a_schema_registry_is_asked_by_the_worker(
    spark: SparkSession, kafka: str, topic: MakeTopic, tmp_path: Path
) -> None:
    name, rows = topic(), [{"id": number, "name": f"n{number}"} for number in range(50)]
    with registry_server() as server:
        table = pa.Table.from_pylist(rows)
        stream = ps.read_memory(table, job=Job())
        stream.write_kafka(name, kafka=kafka, format="avro", registry=server.url).name("out").job.run("write")
        source = source_of(name, kafka, format="avro", registry=server.url)
        asked = len(server.requests)
        assert in_order(rows_of(read_rows(spark, source, everything(source)), source.schema)) == in_order(rows)
        assert len(server.requests) > asked


def test_secrets_travel_as_references(kafka: str, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    name = topic()
    produce(kafka, name, [1])
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", "canary-of-a-secret")
    settings = {"bootstrap.servers": kafka, "ssl.key.password": "env:PENSTOCK_TEST_SECRET"}
    source = source_of(name, settings, schema=Fields)  # type: ignore[arg-type]
    chosen = everything(source)
    reading = TopicScan(source.settings, source.maker, (Slice(name, 0, 0, 1),), chosen.topic_ids)
    sent = cloudpickle.dumps(reading)
    assert b"canary-of-a-secret" not in sent and b"env:PENSTOCK_TEST_SECRET" in sent
    monkeypatch.delenv("PENSTOCK_TEST_SECRET")
    with pytest.raises(UserError, match="environment variable PENSTOCK_TEST_SECRET"):
        list(cloudpickle.loads(sent).read(Slice(name, 0, 0, 1)))


def test_messages_that_are_gone_fail_the_query_in_a_sentence(spark: SparkSession, kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, range(10))
    admin = AdminClient({"bootstrap.servers": kafka})
    for answer in admin.delete_records([TopicPartition(name, 0, 6)]).values():
        answer.result(10)
    source = source_of(name, kafka, schema=Fields)
    with pytest.raises(PySparkException) as raised:
        read_rows(spark, source, OffsetSelection((offset_range(name, 0, 2, 10),), {})).count()
    failure = worker_failure(raised.value)
    assert isinstance(failure, UserError)
    assert f"offset 2 of partition '{name}/0' is no longer there" in str(failure)


def test_a_topic_that_was_made_anew_is_another_one(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, [1])
    source = source_of(name, kafka, schema=Fields)
    chosen = everything(source)
    settings = KafkaSettings(kafka)
    delete_topics(settings, [name])
    create_topic(settings, name, 1)
    produce(kafka, name, [2])
    with pytest.raises(UserError, match="was deleted and created again"):
        in_this_process(source, chosen, [Slice(name, 0, 0, 1)])


def test_several_ranges_of_a_partition(kafka: str, topic: MakeTopic, spark: SparkSession) -> None:
    name = topic()
    produce(kafka, name, range(100))
    source = source_of(name, kafka, schema=Fields)
    ranges = tuple(OffsetRange(name, 0, RowPosition(start), RowPosition(start + 5)) for start in range(0, 100, 10))
    found = rows_of(read_rows(spark, source, OffsetSelection(ranges, everything(source).topic_ids)), source.schema)
    assert sorted(row["id"] for row in found) == [number for number in range(100) if number % 10 < 5]


def test_a_field_that_nothing_reads_rejects_no_message(spark: SparkSession, kafka: str, topic: MakeTopic) -> None:
    name = topic(1)
    produce(kafka, name, [1, b'{"id":2,"name":{"no":"text"}}', *[b'{"id":"no number","name":"n3"}'] * 2, 4])
    stream = read_kafka(name, kafka=kafka, job=Job(), schema=Fields, until="latest").select("id")
    rows = stream.collect()
    rows.job.run("reading")
    [exact] = compile_job(rows.job.graph, SourceReading(spark, stop={f"{name}/0": 5}, tasks=1)).values()
    assert sorted(row["id"] for row in rows.rows()) == sorted(row["id"] for row in exact.rows.collect()) == [1, 2, 4]
    # Where rows are only counted, both read the same one field.
    stream = read_kafka(name, kafka=kafka, job=Job(), schema=Fields, until="latest")
    counted = stream.select("name", "id").select(one=ps.lit(1)).collect()
    counted.job.run("counting")
    [exact] = compile_job(counted.job.graph, SourceReading(spark, stop={f"{name}/0": 5}, tasks=1)).values()
    assert exact.rows.count() == len(counted.rows()) == 3
    source = source_of(name, kafka, schema=Fields)
    whole = read_rows(spark, source, everything(source), errors=True)
    assert [whole.where(f"`{ERROR}` IS {null}").count() for null in ("NULL", "NOT NULL")] == [2, 3]
