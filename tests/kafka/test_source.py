"""The Kafka source on a real broker: every row once, at its offset, from its start to its end."""

import datetime
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

import penstock as ps
from penstock.dev.kafka_broker import LocalBroker
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.contracts.executors.metered import until

MakeTopic = Callable[..., str]
Fields = {"id": int, "name": str}


def produce(kafka: str, topic: str, values: Sequence[Any], partition: int = 0, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    for value in values:
        data = b'{"id":%d,"name":"n"}' % value if isinstance(value, int) else value
        producer.produce(topic, data, partition=partition, **settings)
    assert producer.flush(20) == 0


def transaction(kafka: str, topic: str, values: Sequence[int], name: str, partition: int = 0) -> Producer:
    """Begin a transaction with rows in it; leave it open."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"{topic}-{name}"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, b'{"id":%d,"name":"n"}' % value, partition=partition)
    producer.flush(20)
    return producer


def read_rows(kafka: str, topic: str | Sequence[str], **options: Any) -> list[dict[str, Any]]:
    options = {"schema": Fields, "until": "latest", **options}
    result = read_kafka(topic, kafka=kafka, job=Job(), **options).collect()
    result.job.run("reading")
    return result.rows()


def ids(rows: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def test_reads_every_partition_with_keys_headers_and_provenance(kafka: str, topic: MakeTopic) -> None:
    name = topic(3)
    for partition in range(3):
        extra: dict[str, Any] = {"key": b"k%d" % partition, "headers": [("h", b"1"), ("h", None)]}
        produce(kafka, name, [partition * 10, partition * 10 + 1], partition, **extra)
    metadata = {what: what for what in ("topic", "partition", "offset", "timestamp", "timestamp_type", "headers")}
    rows = read_rows(kafka, name, key={"k": str}, metadata=metadata)
    assert ids(rows) == [0, 1, 10, 11, 20, 21]
    for row in rows:
        assert row["partition"] == row["id"] // 10
        assert row["offset"] == row["id"] % 10
        assert (row["topic"], row["k"], row["timestamp_type"]) == (name, f"k{row['partition']}", "create")
        assert row["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
        assert abs(row["timestamp"] - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(hours=1)


def test_offsets_stay_on_their_rows_beside_bad_messages_and_tombstones(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    two, pretty = (b'{"id":3}\n{"id":33}', b'{"id":4}{"id":44}'), b'{\n"id": 6, "name": "n"\n}'
    produce(kafka, name, [0, b"", 2, *two, None, pretty, 7, b"\xff", 9])
    job = Job()
    stream = read_kafka(name, kafka=kafka, schema=Fields, until="latest", metadata={"offset": "at"}, job=job)
    kept, letters = stream.collect(), stream.side_output("dead_letter").collect()
    job.run("reading")
    assert [(row["at"], row["id"]) for row in kept.rows()] == [(0, 0), (2, 2), (6, 6), (7, 7), (9, 9)]
    assert [row["position"] for row in letters.rows()] == [f"{name}/0@{offset}" for offset in (1, 3, 4, 8)]


def test_tombstones_are_kept_if_asked_for(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, [1, None], key=b"a")
    rows = read_rows(kafka, name, key="key", metadata={"tombstone": "gone"})
    assert [(row["id"], row["key"], row["gone"]) for row in rows] == [(1, b"a", False), (None, b"a", True)]


def test_raw_messages_are_read_as_they_are(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, [b"\x00\xff", b""])
    assert [row["value"] for row in read_rows(kafka, name, schema=None, format="raw")] == [b"\x00\xff", b""]


@pytest.mark.parametrize("tail", ["aborted", "open", "empty", "marker"])
def test_a_bounded_read_ends_by_position(kafka: str, topic: MakeTopic, tail: str) -> None:
    name = topic()
    if tail != "empty":
        produce(kafka, name, [1, 2])
    producer = None if tail == "empty" else transaction(kafka, name, [3, 4], tail)
    if producer is not None and tail == "aborted":
        producer.abort_transaction(20)
    if producer is not None and tail == "marker":
        producer.commit_transaction(20)
    expected = {"aborted": [1, 2], "open": [1, 2], "empty": [], "marker": [1, 2, 3, 4]}[tail]
    assert ids(read_rows(kafka, name)) == expected
    if producer is not None and tail == "open":
        producer.abort_transaction(20)


def test_a_bounded_read_of_a_compacted_topic_ends(kafka: str, topic: MakeTopic) -> None:
    name = topic(1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    for number in range(20):
        produce(kafka, name, [number], key=b"same")
    assert 19 in ids(read_rows(kafka, name))
    assert ids(read_rows(kafka, name, until={f"{name}/0": 5})) in ([0, 1, 2, 3, 4], [])


def test_starts_and_ends_by_offsets_and_times(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    for number in range(6):
        produce(kafka, name, [number], timestamp=1_700_000_000_000 + number * 1_000)
    assert ids(read_rows(kafka, name, start={f"{name}/0": 4})) == [4, 5]
    assert ids(read_rows(kafka, name, start={0: 1}, until={0: 3})) == [1, 2]
    at = datetime.datetime.fromtimestamp(1_700_000_002, datetime.UTC)
    assert ids(read_rows(kafka, name, start=at)) == [2, 3, 4, 5]
    assert ids(read_rows(kafka, name, until=at.isoformat())) == [0, 1]
    assert read_rows(kafka, name, start="latest") == []
    assert ids(read_rows(kafka, name, start="2100-01-01")) == []


def test_a_pattern_reads_all_topics_it_matches(kafka: str, topic: MakeTopic) -> None:
    first, second = topic(), topic()
    produce(kafka, first, [1])
    produce(kafka, second, [2])
    common = first.rpartition("-")[0].replace("[", r"\[")
    assert ids(read_rows(kafka, f"^{common}-.*")) == [1, 2]


class Started:
    """An unbounded job on a thread, whose rows are looked at while it runs."""

    def __init__(self, kafka: str, topic: str, options: dict[str, Any], **run: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        self._grown = threading.Condition()
        job = Job()
        stream = read_kafka(topic, kafka=kafka, schema=Fields, job=job, **options).name("source")
        stream.for_each_batch(self._take).name("sink")
        self.handle = job.start("reading", **run)

    def _take(self, rows: pa.RecordBatch) -> None:
        with self._grown:
            self.rows += rows.to_pylist()
            self._grown.notify_all()

    def wait_for(self, count: int, seconds: float = 30.0) -> list[int]:
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.rows) >= count, seconds), self.rows
        return ids(self.rows)

    def stop(self) -> None:
        self.handle.stop()
        self.handle.wait()


def test_new_partitions_are_found_while_a_job_runs(kafka: str, topic: MakeTopic) -> None:
    name = topic(1)
    produce(kafka, name, [0])
    started = Started(kafka, name, {"discovery": "200ms", "start": "latest"}, parallelism=2)
    try:
        admin = AdminClient({"bootstrap.servers": kafka})
        for answer in admin.create_partitions([NewPartitions(name, 4)]).values():
            answer.result()
        for partition in (1, 2, 3):
            produce(kafka, name, [partition], partition)
        assert started.wait_for(3) == [1, 2, 3]
    finally:
        started.stop()


def test_goes_on_from_a_checkpoint_and_tells_the_group(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic(2)
    produce(kafka, name, [0, 1])
    settings = {"bootstrap.servers": kafka, "group.id": f"{name}-group"}
    run = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": "50ms"}
    first = Started(settings, name, {}, **run)  # type: ignore[arg-type]
    assert first.wait_for(2) == [0, 1]
    consumer = Consumer(settings)

    def told() -> list[int]:
        """Return what the group was told, which is done in the background."""
        places = [TopicPartition(name, 0), TopicPartition(name, 1)]
        return [item.offset for item in consumer.committed(places, 20)]

    until(lambda: told()[0] == 2, first.handle)
    first.stop()
    produce(kafka, name, [2, 3], 1)
    second = Started(settings, name, {}, **run, parallelism=2)  # type: ignore[arg-type]
    assert second.wait_for(2) == [2, 3]
    until(lambda: told() == [2, 2], second.handle)
    second.stop()
    consumer.close()


def test_offsets_that_are_gone_are_refused(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, range(5))
    admin = AdminClient({"bootstrap.servers": kafka})
    for answer in admin.delete_records([TopicPartition(name, 0, 3)]).values():
        answer.result()
    with pytest.raises(ps.UserError, match=r"offset 1 .* is no longer there \(the first one there is 3\)"):
        read_rows(kafka, name, start={0: 1})
    with pytest.raises(ps.UserError, match="ends at offset 5, but reading is to go on at 9"):
        read_rows(kafka, name, start={0: 9}, until={0: 12})


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_is_noticed(kafka: str, topic: MakeTopic, tmp_path: Path, again: bool) -> None:
    name = topic()
    produce(kafka, name, [0])
    settings = KafkaSettings(kafka)
    started = Started(kafka, name, {"discovery": "200ms"}, checkpoint_dir=str(tmp_path), checkpoint_interval="50ms")
    started.wait_for(1)
    if again:
        started.stop()
    delete_topics(settings, [name])
    if again:
        create_topic(settings, name)
        produce(kafka, name, range(3))
        with pytest.raises(ps.UserError, match="was deleted and created again"):
            Started(kafka, name, {}, checkpoint_dir=str(tmp_path)).handle.wait()
        return
    with pytest.raises(ps.UserError, match="was deleted while a job read it"):
        started.handle.wait()


def test_what_is_not_there_is_named(kafka: str) -> None:
    with pytest.raises(ps.UserError, match="has no topic 'nowhere'"):
        read_rows(kafka, "nowhere")
    with pytest.raises(ps.RetryableError, match="cannot be reached"):
        read_rows("127.0.0.1:1", "nowhere")


@pytest.mark.long("a broker stops and starts; test_undelivered has one that comes back")
def test_a_broker_that_is_gone_for_a_while_is_waited_for_and_told_of_with_its_return(
    own_broker: LocalBroker,
) -> None:
    address = own_broker.bootstrap
    told: SimpleQueue[str] = SimpleQueue()
    handler = logging.Handler(logging.WARNING)
    # Not what librdkafka says itself, which nobody sees unasked.
    handler.addFilter(lambda record: record.name == "penstock.kafka")
    handler.emit = lambda record: told.put(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("penstock.kafka").addHandler(handler)
    create_topic(KafkaSettings(address), "events")
    produce(address, "events", [0])
    started = Started(address, "events", {"discovery": "500ms"}, idle_timeout_ms=200)
    try:
        started.wait_for(1)
        own_broker.kill()
        away = f"no broker of Kafka at {address} answers"
        assert told.get(timeout=40).startswith(away)
        own_broker.start()
        produce(own_broker.bootstrap, "events", [1])
        assert started.wait_for(2, 40) == [0, 1]
        said = told.get(timeout=40)
        while not said.startswith(f"Kafka at {address} answers again after "):
            assert not said.startswith(away), "an outage is said once"
            said = told.get(timeout=40)
    finally:
        logging.getLogger("penstock.kafka").removeHandler(handler)
        started.stop()
