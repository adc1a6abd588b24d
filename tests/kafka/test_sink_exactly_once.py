"""Exactly once against a real broker: fencing, markers, restores at another parallelism, older checkpoints."""

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.engine.connectors.kafka.encoded import MessageLayout
from penstock.engine.connectors.kafka.formats.encoders import sink_format
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.model.connectors import Writer
from penstock.model.errors import FatalError, FencedError, RetryableError, UserError
from penstock.model.failpoints import arm
from penstock.model.sink_context import SinkContext
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.sink_folder import SinkFolder
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import ids_in
from tests.kafka.sink_job import numbers_to

SCHEMA = pa.schema([("id", pa.int64())])
Start = Callable[..., "Running"]


class Running:
    """A start of a sink called ``out`` in a job with the topic's name, and its writers."""

    def __init__(self, kafka: str, topic: str, folder: Path, instances: int, accept: bool, **settings: Any) -> None:
        given = KafkaSettings({"bootstrap.servers": kafka, **settings})
        plain = KafkaSink(topic, given, MessageLayout(), sink_format("json"), exactly_once=True)
        kept = SinkFolder(LocalFiles(folder), "out")
        self.sink = plain.with_checkpoints(SinkContext(topic, "out", instances, kept, accept))
        self.instances = instances
        self.writers: list[Writer] = []

    def recover(self, epoch: int | None = None, receipts: list[Any] | None = None) -> "Running":
        self.sink.recover(epoch, receipts or [])
        return self._opened()

    def join(self, epoch: int) -> "Running":
        self.sink.join(epoch)
        return self._opened()

    def _opened(self) -> "Running":
        self.writers = [self.sink.open(SCHEMA, instance, self.instances) for instance in range(self.instances)]
        return self

    def prepare(self, epoch: int, *ids: int) -> list[Any]:
        for number in ids:
            row = pa.RecordBatch.from_pylist([{"id": number}], schema=SCHEMA)
            self.writers[number % self.instances].write(row)
        return [writer.prepare(epoch) for writer in self.writers]

    def publish(self, epoch: int, *ids: int) -> list[Any]:
        receipts = self.prepare(epoch, *ids)
        self.sink.commit(epoch, receipts)
        return receipts


@pytest.fixture
def start(kafka: str, tmp_path: Path) -> Iterator[Start]:
    """Start the sink of a topic again and again; what is still open in the end is closed."""
    began: list[Running] = []

    def begin(topic: str, instances: int = 1, *, accept: bool = False, **settings: Any) -> Running:
        began.append(Running(kafka, topic, tmp_path / "kept", instances, accept, **settings))
        return began[-1]

    yield begin
    for running in began:
        for writer in running.writers:
            writer.abort()


def foreign(kafka: str, transactional_id: str) -> Producer:
    """Somebody else's producer with an id of ours, in a transaction. Once it is fenced it can only be dropped."""
    settings = {"transactional.id": transactional_id, "retry.backoff.ms": 50, "log_level": 0}
    producer = Producer({"bootstrap.servers": kafka, **settings})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def test_a_second_start_fences_the_first(kafka: str, topic: MakeTopic, start: Start) -> None:
    """K2."""
    name = topic()
    first = start(name).recover()
    receipts = first.publish(1, 1, 2)
    zombie = first.prepare(2, 3)
    second = start(name).recover(1, receipts)
    with pytest.raises(FencedError, match=rf"another run has taken over: .*'penstock-{name}-out-0' was taken over by"):
        first.sink.commit(2, zombie)
    second.publish(2, 4)
    assert ids_in(kafka, name) == [1, 2, 4]


def test_writers_that_outlive_their_sink_are_taken_over(kafka: str, topic: MakeTopic, start: Start) -> None:
    """Whoever wakes up in the commit of the last checkpoint publishes it, or finds it published, and nothing twice."""
    name = topic(2)
    first = start(name, 2).recover()
    first.publish(1, 1, 2)
    writing = pickle.loads(cloudpickle.dumps(first.sink))
    beside, first.writers = first.writers, [writing.open(SCHEMA, instance, 2) for instance in range(2)]
    receipts = first.prepare(2, 3, 4)
    second = start(name, 2)
    second.sink.adopt(2, receipts, writing.claim())
    first.sink.commit(2, receipts)
    second.sink.commit(2, receipts)
    given_up = first.prepare(3, 5)
    second.sink.commit(4, [*given_up, *first.prepare(4, 6, 7)])
    assert sorted(ids_in(kafka, name)) == [1, 2, 3, 4, 5, 6, 7]
    third = start(name, 2)
    with pytest.raises(FatalError, match="is not as the writers that live have left it"):
        third.sink.adopt(2, [], writing.claim())
    for writer in beside:
        writer.abort()


def test_a_producer_of_somebody_else_is_fenced(kafka: str, topic: MakeTopic, start: Start) -> None:
    """K2, the other way round: it has our id and its transaction is open, but it left no marker."""
    name = topic()
    running = start(name).recover()
    running.publish(1, 1)
    producer = foreign(kafka, f"penstock-{name}-out-0")
    producer.produce(name, b'{"id":99}')
    producer.flush(10)
    running.publish(2, 2)
    with pytest.raises(KafkaException, match="_FENCED"):
        producer.commit_transaction(10)
    assert ids_in(kafka, name) == [1, 2]
    assert ids_in(kafka, name, committed=False) == [1, 2, 99]


def test_a_commit_that_was_not_made_is_made_at_the_start(kafka: str, topic: MakeTopic, start: Start) -> None:
    """At parallelism 1, 3, 1; every id is settled."""
    name = topic(2)
    receipts = start(name).recover().prepare(1, 1, 2)
    assert ids_in(kafka, name) == []
    three = start(name, 3).recover(1, receipts)
    assert ids_in(kafka, name) == [1, 2]
    receipts = three.prepare(2, 3, 4, 5, 6)
    one = start(name).recover(2, receipts)
    assert ids_in(kafka, name) == [1, 2, 3, 4, 5, 6]
    receipts = one.publish(3, 7)
    again = start(name, 2).recover(3, receipts)
    again.sink.commit(3, receipts)
    again.publish(4, 8)
    assert ids_in(kafka, name) == list(range(1, 9))


def test_an_open_transaction_of_a_dead_start_is_ended(kafka: str, topic: MakeTopic, start: Start) -> None:
    """K3: what it began is in the topic, is not seen, and holds nobody up once the sink starts again."""
    name = topic()
    settings = {"transaction.timeout.ms": 10_000}
    receipts = start(name, **settings).recover().prepare(1, 1)
    dead = foreign(kafka, f"penstock-{name}-out-0")
    dead.produce(name, b'{"id":1}')
    dead.flush(10)
    start(name, **settings).recover(1, receipts)
    assert ids_in(kafka, name) == [1]
    assert ids_in(kafka, name, committed=False) == [1, 1]


@pytest.mark.long("waits for a timeout of the broker; its errors are in test_request_errors")
def test_a_transaction_that_takes_too_long_is_named(kafka: str, topic: MakeTopic, start: Start) -> None:
    """The sink says which setting that is, and publishes later."""
    name = topic()
    running = start(name, **{"transaction.timeout.ms": 1_000}).recover()
    receipts = running.prepare(1, 1)
    arm(lambda point: time.sleep(1.1) if point == "kafka.transaction.delivered" else None)
    try:
        with pytest.raises(RetryableError, match=r"takes longer than transaction.timeout.ms=1,000, .* raise it"):
            running.sink.commit(1, receipts)
    finally:
        arm(None)
    running.sink.commit(1, receipts)
    assert ids_in(kafka, name) == [1]


def test_a_timeout_beyond_the_brokers_is_named(topic: MakeTopic, start: Start) -> None:
    with pytest.raises(UserError, match=r"does not allow transaction.timeout.ms=2,000,000: .* transaction.max.timeout"):
        start(topic(), **{"transaction.timeout.ms": 2_000_000}).recover()


def test_an_older_checkpoint_is_refused(kafka: str, topic: MakeTopic, start: Start) -> None:
    name = topic()
    running = start(name).recover()
    older = running.publish(1, 1)
    running.publish(2, 2)
    with pytest.raises(FatalError, match=r"output up to checkpoint 2 is published .* --accept-duplicates"):
        start(name).recover(1, older)
    start(name, accept=True).recover(1, older).publish(2, 2)
    assert ids_in(kafka, name) == [1, 2, 2]


def test_an_added_sink_that_has_published_behind_an_older_checkpoint_is_refused(
    kafka: str, topic: MakeTopic, start: Start
) -> None:
    name = topic()
    start(name).join(5)
    # It has published nothing, and goes back.
    start(name).join(4).publish(5, 1)
    with pytest.raises(FatalError, match=r"up to checkpoint 5 is published .* checkpoint 4, which does not know this"):
        start(name).join(4)
    start(name).join(5).publish(6, 2)
    start(name, accept=True).join(5).publish(6, 2)
    assert ids_in(kafka, name) == [1, 2, 2]


def test_a_missing_marker_is_an_error(kafka: str, topic: MakeTopic, start: Start) -> None:
    name = topic()
    running = start(name).recover()
    receipts = running.publish(1, 1)
    for writer in running.writers:
        writer.close()
    running.writers.clear()
    group = f"penstock-{name}-out-0"
    admin = AdminClient({"bootstrap.servers": kafka})
    for gone in admin.delete_consumer_groups([group]).values():
        gone.result()
    with pytest.raises(FatalError, match=rf"the marker of transactional id '{group}' is missing, .* offsets.retention"):
        start(name).recover(1, receipts)
    start(name, accept=True).recover(1, receipts).publish(2, 2)
    assert ids_in(kafka, name) == [1, 2]


def test_a_group_that_somebody_else_commits_is_named(kafka: str, topic: MakeTopic, start: Start) -> None:
    name = topic()
    other = Consumer({"bootstrap.servers": kafka, "group.id": f"penstock-{name}-out-0", "enable.auto.commit": False})
    other.commit(offsets=[TopicPartition(name, 0, 7)], asynchronous=False)
    other.close()
    with pytest.raises(FatalError, match=r"was committed by something else \(offset 7"):
        start(name).recover()


def test_kept_output_that_is_damaged_or_gone(kafka: str, topic: MakeTopic, start: Start, tmp_path: Path) -> None:
    name = topic()
    receipts = start(name).recover().prepare(1, 1)
    (file,) = (tmp_path / "kept").rglob("*.arrow")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FatalError, match=r"the kept output of checkpoint 1 is damaged"):
        start(name).recover(1, receipts)
    file.unlink()
    with pytest.raises(FatalError, match=r"1 messages of checkpoint 1 were not published, and the file .* is gone"):
        start(name).recover(1, receipts)
    file.write_bytes(content)
    start(name).recover(1, receipts)
    assert ids_in(kafka, name) == [1]
    assert not file.exists()


def test_a_job_that_begins_anew_adds_to_the_topic(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    options: dict[str, Any] = {"checkpoint_dir": tmp_path / "c", "directory": tmp_path / "job"}

    def run(rows: int, **more: Any) -> None:
        numbers_to(kafka, name, rows).job.run("numbers", checkpoint_interval="50ms", **options, **more)

    run(100)
    run(100)
    assert ids_in(kafka, name) == list(range(200))
    run(150, restore="none")
    assert ids_in(kafka, name) == sorted([*range(200), *range(300)])


def test_an_older_savepoint_is_refused_unless_duplicates_are_accepted(
    kafka: str, topic: MakeTopic, tmp_path: Path
) -> None:
    name = topic()
    options: dict[str, Any] = {"checkpoint_dir": tmp_path / "c", "directory": tmp_path / "job"}
    handle = numbers_to(kafka, name, 20_000, 3.0).job.start("numbers", checkpoint_interval="50ms", **options)
    handle.savepoint("early", 30.0)
    handle.wait(60.0)
    assert ids_in(kafka, name) == list(range(40_000))
    again = numbers_to(kafka, name, 20_000).job
    with pytest.raises(FatalError, match=r"is published under transactional id .* --accept-duplicates"):
        again.run("numbers", restore="early", **options)
    accepting = numbers_to(kafka, name, 20_000, 3.0).job
    handle = accepting.start("numbers", restore="early", accept_duplicates=True, checkpoint_interval="50ms", **options)
    handle.savepoint("late", 30.0)
    handle.stop()
    # What goes on from here is exact again.
    numbers_to(kafka, name, 20_000).job.run("numbers", **options)
    found = Counter(ids_in(kafka, name))
    assert set(found) == set(range(40_000)) and set(found.values()) == {1, 2}
