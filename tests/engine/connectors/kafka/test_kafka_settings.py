"""What users say about clusters, topics and places: taken as it is, refused in a sentence, secrets never shown."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.dsl.kafka import read_kafka
from penstock.engine.connectors.kafka.settings import REDACTED, KafkaSettings
from penstock.engine.connectors.kafka.topic_places import EARLIEST, LATEST, TopicPlace, parse_place, resolve
from penstock.engine.connectors.kafka.topics import Topic, changed, parse_topics, split_name
from penstock.model.errors import OptionError, SchemaError, UserError


def test_settings_are_passed_on_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    monkeypatch.setenv("KAFKA_USER", "anna")
    given = {
        "kafka.bootstrap.servers": "one:9092",
        "sasl.username": "env:KAFKA_USER",
        "sasl.password": f"file:{tmp_path / 'password'}",
        "fetch.wait.max.ms": 7,
        "linger.ms": 3,
        "group.id": "mine",
        "isolation.level": "read_uncommitted",
        "enable.auto.commit": "false",
        "acks": -1,
    }
    settings = KafkaSettings(given)
    consumer = settings.consumer("client", "other")
    assert consumer["bootstrap.servers"] == "one:9092"
    assert (consumer["sasl.username"], consumer["sasl.password"]) == ("anna", "hunter2")
    assert (consumer["group.id"], consumer["client.id"]) == ("mine", "client")
    assert consumer["isolation.level"] == "read_uncommitted"
    assert consumer["auto.offset.reset"] == "error"
    assert consumer["fetch.wait.max.ms"] == 7
    assert "linger.ms" not in consumer
    producer = settings.producer("client", "penstock-job-sink-0")
    assert (producer["linger.ms"], producer["transactional.id"]) == (3, "penstock-job-sink-0")
    assert "group.id" not in producer
    assert {"group.id", "linger.ms", "acks"}.isdisjoint(settings.admin("client"))
    assert "hunter2" not in repr(settings)
    assert REDACTED in repr(settings)
    assert not settings.committed_only


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "names no broker"),
        ("", "names no broker"),
        ({"sasl.password": "hunter2"}, "env:NAME"),
        ({"ssl.key.password": "hunter2"}, "env:NAME"),
        ({"enable.auto.commit": True}, "needs false"),
        ({"acks": 1}, "needs all"),
        ({"auto.offset.reset": "earliest"}, "needs error"),
        ({"transactional.id": "x"}, "Penstock's to set"),
        ({1: 2}, "names of librdkafka settings"),
    ],
)
def test_contradictions_and_open_secrets_are_refused(given: Any, message: str) -> None:
    given = {"bootstrap.servers": "one:9092", **given} if isinstance(given, dict) and given else given
    with pytest.raises(OptionError, match=message) as raised:
        KafkaSettings(given)
    assert "hunter2" not in str(raised.value)


def test_missing_secrets_are_named() -> None:
    with pytest.raises(UserError, match="NOT_THERE"):
        KafkaSettings({"bootstrap.servers": "a:1", "sasl.password": "env:NOT_THERE"}).admin("c")
    with pytest.raises(UserError, match="/not/there"):
        KafkaSettings({"bootstrap.servers": "a:1", "sasl.password": "file:/not/there"}).admin("c")


def test_unknown_settings_are_refused_by_name() -> None:
    from penstock.engine.connectors.kafka.clients import make_admin

    with pytest.raises(OptionError, match=r'No such configuration property: "no.such"'):
        make_admin(KafkaSettings({"bootstrap.servers": "a:1", "no.such": "x"}), "c")


@pytest.mark.parametrize("topics", [[], "", "a b", "a/b", ".", "^(", [1]])
def test_topics_that_are_none_are_refused(topics: Any) -> None:
    with pytest.raises(OptionError):
        parse_topics(topics)


def test_places_are_names_times_and_offsets() -> None:
    topics = parse_topics("t")
    names = (EARLIEST, LATEST)
    assert parse_place("start", "latest", topics, names) == TopicPlace(name=LATEST)
    assert parse_place("start", "1970-01-01T00:00:02Z", topics, names).time_ms == 2_000
    assert parse_place("start", datetime.datetime(1970, 1, 1, 0, 0, 3), topics, names).time_ms == 3_000
    assert parse_place("start", {0: 5, "t/1": 6}, topics, names).offsets == {"t/0": 5, "t/1": 6}
    for wrong in ("soon", 5, {0: -1}, {0: True}, {"t": 1}, {"t/x": 1}):
        with pytest.raises(UserError):
            parse_place("start", wrong, topics, names)  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        parse_place("until", {0: 1}, parse_topics(["a", "b"]), (LATEST,))


def test_places_are_asked_for_at_once() -> None:
    asked: list[dict[str, TopicPlace]] = []

    def look_up(places: Any) -> dict[str, int]:
        asked.append(places)
        return dict.fromkeys(places, 7)

    offsets = TopicPlace(offsets={"t/1": 3})
    assert resolve(offsets, ["t/0", "t/1"], look_up, EARLIEST) == {"t/0": 7, "t/1": 3}
    assert asked == [{"t/0": TopicPlace(name=EARLIEST)}]


def test_a_topic_is_known_by_its_id() -> None:
    settings = KafkaSettings("a:1")
    listing = {"t": Topic("t", 1, "new")}
    assert changed("t", "new", listing, settings) is None
    assert changed("t", None, listing, settings) is None
    assert "created again" in str(changed("t", "old", listing, settings))
    assert "was deleted" in str(changed("u", "old", listing, settings))
    assert split_name("a-b.c/12") == ("a-b.c", 12)
    with pytest.raises(UserError):
        split_name("0")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, SchemaError),
        ({"schema": {"a": int}, "format": "xml"}, OptionError),
        ({"schema": {"a": int, "b": int}, "format": "raw"}, SchemaError),
        ({"schema": {"a": int}, "key": "a"}, SchemaError),
        ({"schema": {"a": int}, "metadata": {"offsets": "o"}}, OptionError),
        ({"schema": {"a": int}, "tombstones": "delete"}, OptionError),
        ({"schema": {"a": int}, "key": {"k": str, "l": str}}, OptionError),
        ({"schema": {"a": int}, "until": "earliest"}, OptionError),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        read_kafka("t", kafka="a:1", **options)


def test_columns_come_in_order() -> None:
    stream = read_kafka(
        "t", kafka="a:1", schema={"a": int}, key="k", metadata={"offset": "o", "timestamp": "at"}, time="at"
    )
    assert stream.schema.names == ["a", "k", "o", "at"]
