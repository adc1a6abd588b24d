"""Dead letters in a topic: the record as it was, where it came from, at least once, and back again."""

import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

import penstock as ps
from penstock.commands.cli import app
from penstock.dev.kafka_broker import LocalBroker
from penstock.dsl.job import Job
from penstock.dsl.kafka import dead_letter_topic, read_kafka
from penstock.engine.connectors.dead_letter import FILE_NAME
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.letter_reading import LetterReader, StoredLetter
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import FatalError, OptionError, UserError
from penstock.model.function_sink import FunctionSink
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import read_topic

FIELDS = {"id": int, "price": float}
PATIENCE_S = 30.0
Record = tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]

BAD: Sequence[Record] = (
    (b"k1", b'{"id": 1', [("trace", b"\x00\xff"), ("trace", None), ("", b"")]),
    (None, b"", []),
    (b"", b"\xff\xfe\x00", [("penstock.error.class", b"of the record itself")]),
    (b"k2" * 1_000, b'{"id": "no number"}' + b" " * 50_000, []),
)


def fill(kafka: str, topic: str, records: Sequence[Record]) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for at, (key, value, headers) in enumerate(records):
        producer.produce(topic, value, key, partition=0, timestamp=1_000 + at, headers=headers)
    assert producer.flush(PATIENCE_S) == 0


def letters(kafka: str, topic: str) -> list[StoredLetter]:
    with closing(LetterReader(KafkaSettings(kafka), topic)) as reader:
        found = reader.newest(100_000)
    return sorted(found, key=lambda letter: letter.provenance.offset or 0)


def same_record(letter: StoredLetter, record: Record) -> bool:
    return (letter.key, letter.value, list(letter.headers)) == record


def command(*arguments: str, answer: str | None = None) -> str:
    done = CliRunner().invoke(app, ["dlq", *arguments], input=answer)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_messages_keep_key_value_and_headers_and_tell_where_they_came_from(
    kafka: str, topic: MakeTopic, tmp_path: Path
) -> None:
    source, dead = topic(), topic(2)
    fill(kafka, source, [(b"k", b'{"id": 7, "price": 1.5}', []), *BAD])
    job = Job()
    bids = read_kafka(source, kafka=kafka, schema=FIELDS, until="latest", dead_letter_topic=dead, job=job).name("bids")
    rows = bids.collect()
    metrics = job.run("auctions", directory=tmp_path)
    assert [row["id"] for row in rows.rows()] == [7]
    assert metrics.ledger.dead_lettered == len(BAD)
    assert not (tmp_path / FILE_NAME).exists()
    found = letters(kafka, dead)
    assert [same_record(letter, record) for letter, record in zip(found, BAD, strict=True)] == [True] * len(BAD)
    for at, letter in enumerate(found, 1):
        told = letter.provenance
        assert (told.topic, told.partition, told.offset, told.timestamp_ms) == (source, 0, at, 1_000 + at)
        assert (told.stage, told.operator, told.job, told.epoch, told.attempt) == ("decode", "bids", "auctions", 0, 1)
        assert told.error_class == "BadRecordError" and told.message
    names = [name for name, _ in read_topic(kafka, dead)[0].headers]
    assert {f"penstock.error.{name}" for name in ("class", "message", "stage", "operator", "offset")} <= set(names)


def test_a_tombstone_with_a_bad_key_stays_one(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    source, dead = topic(), topic()
    fill(kafka, source, [(b"no number", None, []), (b"no number", b"", [])])
    job = Job()
    keyed = read_kafka(
        source, kafka=kafka, format="raw", schema={"v": bytes}, key={"k": int}, tombstones="keep", until="latest",
        dead_letter_topic=dead, job=job,
    )  # fmt: skip
    keyed.name("keyed").collect()
    job.run("keys", directory=tmp_path, max_dead_letters="any")
    assert [letter.value for letter in letters(kafka, dead)] == [None, b""]


def test_rows_that_operators_reject_go_there_too(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    dead = topic()
    job = Job()

    def half(row: dict[str, Any]) -> dict[str, Any]:
        return {"half": 10 // row["n"]}

    numbers = ps.read_memory([{"n": 5}, {"n": 0}], job=job).name("numbers")
    halves = numbers.map(half, {"half": int}).name("halve")
    kept, read = halves.collect(), halves.side_output("dead_letter").collect()
    job.run("halving", directory=tmp_path, dead_letters=f"kafka://{kafka}/{dead}")
    assert kept.rows() == [{"half": 2}]
    assert [row["operator"] for row in read.rows()] == ["halve"]
    assert not (tmp_path / FILE_NAME).exists()
    [letter] = letters(kafka, dead)
    assert (letter.key, json.loads(letter.value or b""), list(letter.headers)) == (None, {"n": 0}, [])
    told = letter.provenance
    assert (told.error_class, told.stage, told.operator, told.topic) == ("ZeroDivisionError", "udf", "halve", "")
    assert told.message.startswith("ZeroDivisionError: ") and "in half" in told.traceback


def test_a_job_with_checkpoints_loses_none(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    source, dead = topic(3), topic()
    producer = Producer({"bootstrap.servers": kafka})
    for at in range(3_000):
        producer.produce(source, b"bad" if at % 3 == 0 else b'{"id": %d, "price": 0.5}' % at, b"%d" % at)
    assert producer.flush(PATIENCE_S) == 0
    taken = [0]

    def fail_once(rows: pa.RecordBatch) -> None:
        taken[0] += rows.num_rows
        time.sleep(0.01)
        if taken[0] - rows.num_rows < 1_000 <= taken[0]:
            raise ConnectionError("just once")

    job = Job()
    bids = read_kafka(source, kafka=kafka, schema=FIELDS, until="latest", dead_letter_topic=dead, job=job).name("bids")
    bids.write(FunctionSink(fail_once)).name("out")
    job.run(
        "hard", directory=tmp_path / "job", checkpoint_dir=str(tmp_path / "kept"), checkpoint_interval="30ms",
        batch_rows=100, restart_delay="10ms",
    )  # fmt: skip
    found = letters(kafka, dead)
    assert {letter.key for letter in found} == {b"%d" % at for at in range(0, 3_000, 3)}
    assert {letter.provenance.attempt for letter in found} == {1, 2}
    assert max(letter.provenance.epoch or 0 for letter in found) > 1


def test_a_topic_that_cannot_be_written_ends_the_job(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    source = topic()
    fill(kafka, source, BAD)

    def reading(dead: str, **more: Any) -> Job:
        job = Job()
        read_kafka(
            source, kafka=kafka, schema=FIELDS, until="latest", dead_letter_topic=dead, job=job, **more
        ).collect()
        return job

    with pytest.raises(UserError, match=r"dead letters cannot be written to topic 'nowhere': .* is not there"):
        reading("nowhere").run("a", directory=tmp_path, max_dead_letters="any")
    small = topic(max_message_bytes="1000")
    with pytest.raises(FatalError, match=f"dead letters cannot be written to topic '{small}': .* too large"):
        reading(small).run("b", directory=tmp_path, max_dead_letters="any")
    compacted = topic(cleanup_policy="compact")
    with pytest.raises(FatalError, match="takes only messages with a key, as it is compacted"):
        reading(compacted).run("c", directory=tmp_path, max_dead_letters="any")
    with pytest.raises(OptionError, match="is read itself"):
        reading(source)
    with pytest.raises(OptionError, match="needs on_error='dead_letter', not 'skip'"):
        reading(small, on_error="skip")
    with pytest.raises(OptionError, match="kafka://HOST:PORT/TOPIC, not 'dead'"):
        Job().run("d", dead_letters="dead")


def test_letters_are_shown_and_replayed(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    source, dead, other = topic(), topic(2), topic()
    fill(kafka, source, BAD)
    job = Job()
    read_kafka(source, kafka=kafka, schema=FIELDS, until="latest", dead_letter_topic=dead, job=job).name("b").collect()
    job.run("show", directory=tmp_path, max_dead_letters="any")
    table = command("show", dead, "--kafka", kafka)
    assert "decode" in table and "the message is empty" in table and f"4 dead letters of {dead}" in table
    lines = [
        json.loads(line) for line in command("show", dead, "--kafka", kafka, "--json", "--limit", "3").splitlines()
    ]
    assert len(lines) == 3 and all(line["error"]["topic"] == source for line in lines)

    def replayed(*arguments: str, answer: str | None = None) -> str:
        return command("replay", dead, "--kafka", kafka, *arguments, answer=answer)

    refused = CliRunner().invoke(app, ["dlq", "replay", dead, "--kafka", kafka, "--into", other], input="n\n")
    assert refused.exit_code == 1 and read_topic(kafka, other) == []
    assert "replayed 4 dead letters" in replayed("--into", other, answer="y\n")
    back = sorted(read_topic(kafka, other), key=lambda message: message.timestamp)
    assert [(message.key, message.value, list(message.headers)) for message in back] == list(BAD)
    assert [message.timestamp for message in back] == [1_000, 1_001, 1_002, 1_003]
    assert "replayed 0 dead letters" in replayed("--into", other, "--yes")
    assert "replayed 1 dead letters" in replayed("--into", other, "--yes", "--where", "offset=2", "--where", "stage=d*")
    done = json.loads(replayed("--yes", "--json", "--again"))
    assert (done["written"], done["left_out"], done["homeless"]) == (4, 0, 0)
    assert len(read_topic(kafka, source)) == 8 and len(read_topic(kafka, other)) == 5


def test_what_cannot_be_replayed_is_said(kafka: str, topic: MakeTopic) -> None:
    dead = topic()
    fill(kafka, dead, [(None, b"not from us", [])])
    assert "1 came from no topic: say where with --into" in command("replay", dead, "--kafka", kafka, "--yes")
    for arguments, code, sentence in (
        (("replay", dead, "--into", dead), 2, "into"),
        (("replay", dead, "--where", "colour=red"), 2, "--where knows"),
        (("replay", dead, "--into", "nowhere"), 1, "is not there"),
        (("show", "nowhere"), 1, "topic 'nowhere' is not there"),
    ):
        failed = CliRunner().invoke(app, ["dlq", *arguments, "--kafka", kafka])
        assert failed.exit_code == code and sentence in failed.output, failed.output


@pytest.mark.long("waits for a broker that is gone; test_undelivered waits for one too")
def test_a_broker_that_is_gone_ends_the_attempt_and_the_next_writes_again(
    own_broker: LocalBroker, tmp_path: Path
) -> None:
    kafka = own_broker.bootstrap
    settings = KafkaSettings(kafka)
    create_topic(settings, "dead", 1)
    quick = {"bootstrap.servers": kafka, "message.timeout.ms": 500, "reconnect.backoff.ms": 20}
    stopped = [False]

    def reject(row: dict[str, Any]) -> dict[str, Any]:
        if not stopped[0]:
            stopped[0] = True
            own_broker.kill()
        raise ValueError(row["n"])

    job = Job()
    numbers = ps.read_memory([{"n": at} for at in range(10)], job=job).name("numbers")
    numbers.map(reject).name("reject").write_json(tmp_path / "out").name("out")
    bad: dict[str, Any] = {"directory": tmp_path, "max_dead_letters": "any"}
    with pytest.raises(ps.RetryableError, match="dead letters cannot be written to topic 'dead': "):
        job.run("gone", dead_letters=dead_letter_topic("dead", kafka=quick), **bad)
    own_broker.start()
    job.run("gone", dead_letters=dead_letter_topic("dead", kafka=kafka), **bad)
    assert len(letters(kafka, "dead")) == 10
    delete_topics(settings, ["dead"])
