"""What `write_kafka` writes, read back from a real broker by a plain consumer."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka import Producer

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.stream import Stream
from penstock.model.errors import BadRecordError, FatalError, OptionError, PlanError, UserError
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import ids_in, read_topic
from tests.kafka.sink_job import numbers_to

AT = datetime(2026, 1, 1, tzinfo=UTC)


def rows_of(*rows: dict[str, Any], time: str | None = None, **types: pa.DataType) -> Stream:
    """Read rows in a job of its own."""
    table = pa.Table.from_pylist(list(rows), pa.schema(list(types.items())))
    return ps.read_memory(table, time=time, job=Job()).name("rows")


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("instances", [1, 2])
def test_every_row_arrives_once(kafka: str, topic: MakeTopic, tmp_path: Path, guarantee: str, instances: int) -> None:
    name = topic(3)
    sink = numbers_to(kafka, name, 3_000, guarantee=guarantee).parallelism(instances)
    sink.job.run(
        f"once-{instances}", checkpoint_dir=tmp_path / "c", checkpoint_interval="50ms", directory=tmp_path / "job"
    )
    assert ids_in(kafka, name) == list(range(6_000))


def test_without_checkpoints_a_job_writes_at_least_once_only(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    numbers_to(kafka, name, 100, guarantee="at_least_once").job.run("plain", directory=tmp_path)
    assert ids_in(kafka, name) == list(range(200))
    with pytest.raises(UserError, match=r"exactly once, which needs checkpoints: run the job with checkpoint_dir"):
        numbers_to(kafka, name, 100).job.run("plain", directory=tmp_path)


def test_values_keys_times_and_headers(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    rows = rows_of(
        {"id": 1, "at": AT, "tags": [("a", b"1"), ("a", b"2")]},
        {"id": None, "at": AT + timedelta(milliseconds=5), "tags": None},
        id=pa.int64(),
        at=pa.timestamp("us", "UTC"),
        tags=pa.map_(pa.string(), pa.binary()),
        time="at",
    )
    rows.write_kafka(name, kafka=kafka, key="id", headers="tags")
    rows.job.run("values", directory=tmp_path)
    first, second = read_topic(kafka, name)
    assert msgspec.json.decode(first.value or b"") == {"id": 1, "at": "2026-01-01T00:00:00.000000Z"}
    assert first.key == b"1" and second.key is None
    assert first.headers == (("a", b"1"), ("a", b"2")) and second.headers == ()
    assert first.timestamp == AT.timestamp() * 1_000 and second.timestamp == first.timestamp + 5


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("text", "käse".encode()),
        ("raw", b"\x00\xff"),
        ("number", b"-7"),
        ("yes", b"true"),
        (["text", "number"], '{"text":"käse","number":-7}'.encode()),
    ],
)
def test_keys_are_what_any_client_would_write(
    kafka: str, topic: MakeTopic, tmp_path: Path, key: str | list[str], expected: bytes
) -> None:
    name = topic(7)
    row = {"text": "käse", "raw": b"\x00\xff", "number": -7, "yes": True}
    types = {"text": pa.string(), "raw": pa.binary(), "number": pa.int32(), "yes": pa.bool_()}
    rows = rows_of(row, **types)
    rows.write_kafka(name, kafka=kafka, key=key)
    rows.job.run("keys", directory=tmp_path)
    java = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random"})
    java.produce(name, b"{}", expected)
    java.flush(10)
    written, other = read_topic(kafka, name)
    assert written.key == other.key == expected
    assert written.partition == other.partition


def test_raw_values_are_one_column(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    rows = rows_of({"k": "a", "v": b"\x01"}, {"k": "b", "v": None}, k=pa.string(), v=pa.binary())
    rows.write_kafka(name, kafka=kafka, key="k", format="raw")
    rows.job.run("raw", directory=tmp_path)
    assert [(message.key, message.value) for message in read_topic(kafka, name)] == [(b"a", b"\x01"), (b"b", None)]
    several = rows_of({"a": "a", "b": "b"}, a=pa.string(), b=pa.string())
    several.write_kafka(name, kafka=kafka, format="raw")
    with pytest.raises(PlanError, match=r"writes one column beside key, headers and timestamp, and there are a, b"):
        several.job.run("raw", directory=tmp_path)


def test_an_upsert_writes_tombstones_and_a_changelog_weights(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    upserts, changes = topic(), topic()
    words = rows_of(*({"word": word} for word in ("a", "b", "a")), word=pa.string())
    counts = words.key_by("word").agg(n=ps.count())
    alone = counts.filter(ps.col("n") == 1)
    alone.write_kafka(upserts, kafka=kafka, key="word", mode="upsert").name("upserts")
    alone.write_kafka(changes, kafka=kafka, key="word", mode="changelog").name("changes")
    words.job.run("words", directory=tmp_path, batch_rows=1)
    last = {message.key: message.value for message in read_topic(kafka, upserts)}
    assert last.get(b"a") is None and msgspec.json.decode(last[b"b"] or b"") == {"word": "b", "n": 1}
    weights: dict[str, int] = {}
    for message in read_topic(kafka, changes):
        value = msgspec.json.decode(message.value or b"")
        weights[value["word"]] = weights.get(value["word"], 0) + value["weight"]
    assert {word: weight for word, weight in weights.items() if weight} == {"b": 1}


def test_an_upsert_needs_its_key(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    rows = rows_of({"word": None}, word=pa.string())
    rows.write_kafka(topic(), kafka=kafka, key="word", mode="upsert")
    with pytest.raises(BadRecordError, match=r"has no 'word', which is its key"):
        rows.job.run("words", directory=tmp_path)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_an_unknown_topic_is_refused_at_the_start(kafka: str, tmp_path: Path, guarantee: str) -> None:
    job = numbers_to(kafka, "no-such-topic", 10, guarantee=guarantee).job
    with pytest.raises(UserError, match=r"topic 'no-such-topic' is not there .* create it"):
        job.run("unknown", checkpoint_dir=tmp_path / "c", directory=tmp_path / "job")


def test_a_message_too_large_for_the_producer(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    rows = rows_of({"text": "x" * 1_100_000}, text=pa.string())
    rows.write_kafka(topic(), kafka=kafka)
    with pytest.raises(BadRecordError, match=r"a message of 1,100,011 bytes .* message.max.bytes of the producer is"):
        rows.job.run("large", directory=tmp_path)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_message_too_large_for_the_topic(kafka: str, topic: MakeTopic, tmp_path: Path, guarantee: str) -> None:
    name = topic(max_message_bytes="2000")
    rows = rows_of({"text": "x" * 5_000}, text=pa.string())
    rows.write_kafka(name, kafka=kafka, guarantee=guarantee).name("out")
    options: dict[str, Any] = {"checkpoint_dir": tmp_path / "c", "directory": tmp_path / "job"}
    with pytest.raises(FatalError, match=r"refuses a message as too large .* raise max.message.bytes of the topic"):
        rows.job.run("large", **options)


def test_a_timestamp_that_the_topic_refuses(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    rows = rows_of({"at": datetime(2200, 1, 1, tzinfo=UTC)}, at=pa.timestamp("ms", "UTC"), time="at")
    rows.write_kafka(name, kafka=kafka)
    with pytest.raises(FatalError, match=r"refuses the event time .* timestamp=False"):
        rows.job.run("late", directory=tmp_path)
    rows = rows_of({"at": datetime(2200, 1, 1, tzinfo=UTC)}, at=pa.timestamp("ms", "UTC"), time="at")
    rows.write_kafka(name, kafka=kafka, timestamp=False)
    rows.job.run("now", directory=tmp_path)
    assert len(read_topic(kafka, name)) == 1


def test_arguments_are_checked() -> None:
    rows = rows_of({"a": 1}, a=pa.int64())
    with pytest.raises(OptionError, match="guarantee must be at_least_once or exactly_once, not 'twice'"):
        rows.write_kafka("t", kafka="localhost:1", guarantee="twice")
    with pytest.raises(OptionError, match="format must be one of json, raw, avro, protobuf, arrow, not 'xml'"):
        rows.write_kafka("t", kafka="localhost:1", format="xml")
    with pytest.raises(PlanError, match="timestamp='a' must be a timestamp column, but it is int64"):
        rows.write_kafka("t", kafka="localhost:1", timestamp="a")
    with pytest.raises(PlanError, match="key="):
        rows.write_kafka("t", kafka="localhost:1", key="b")


def test_a_query_under_contract_says_how_good_its_results_are(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    rows = rows_of(*({"id": number % 2} for number in range(10)), id=pa.int64())
    counts = rows.key_by("id").agg(n=ps.count())
    as_json, as_avro, as_raw = topic(), topic(), topic()
    counts.write_kafka(as_json, kafka=kafka, mode="upsert", key="id").with_min_accuracy(0.5)
    counts.write_kafka(as_avro, kafka=kafka, format="avro", mode="upsert", key="id").with_min_accuracy(0.5)
    rows.job.run("contract", directory=tmp_path / "job")
    quality = {"accuracy": 1.0, "biased": False, "n_low": 5, "n_high": 5, "n_certified": True}
    written = sorted((msgspec.json.decode(item.value or b"") for item in read_topic(kafka, as_json)), key=str)
    assert written == [{"id": key, "n": 5, **quality} for key in range(2)]
    kinds: dict[str, Any] = {"id": ["null", "long"], "n": ["null", "long"], "accuracy": "double", "biased": "boolean"}
    kinds |= {"n_low": ["null", "long"], "n_high": ["null", "long"], "n_certified": ["null", "boolean"]}
    given = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = msgspec.json.encode({"type": "record", "name": "row", "fields": given}).decode()
    job = Job()
    read = ps.read_kafka(as_avro, kafka=kafka, format="avro", schema=schema, until="latest", job=job).collect()
    job.run("read", directory=tmp_path / "read")
    assert sorted(read.rows(), key=str) == written
    counts.select("n").write_kafka(as_raw, kafka=kafka, format="raw", mode="changelog").with_min_accuracy(0.5)
    with pytest.raises(UserError, match=r"accuracy, .*with_min_accuracy\(\) columns=False"):
        rows.job.run("raw", directory=tmp_path / "raw")
