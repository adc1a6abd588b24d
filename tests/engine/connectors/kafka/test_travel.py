"""Sources and sinks of Kafka in another process: what is looked up goes along, clients and locks are made there."""

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.connectors.kafka import cluster as clusters
from penstock.engine.connectors.kafka.cluster import Cluster
from penstock.engine.connectors.kafka.encoded import MessageLayout
from penstock.engine.connectors.kafka.formats.encoders import sink_format
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.formats.schema_registry import SchemaRegistry
from penstock.engine.connectors.kafka.letter_topic import LetterTopic
from penstock.engine.connectors.kafka.receipts import Marker
from penstock.engine.connectors.kafka.rows import row_maker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.engine.connectors.kafka.source import KafkaSource, ReadBounds
from penstock.engine.connectors.kafka.topic_places import TopicPlace
from penstock.engine.connectors.kafka.topics import Listing, Topic
from penstock.model.errors import BugError
from penstock.model.sink_context import SinkContext
from penstock.state.files.local_files import LocalFiles

FIELDS = pa.schema({"a": pa.int64(), "b": pa.string()})


class Broker:
    """What a cluster says: topics with their partitions, and how far these are written."""

    def __init__(self, partitions: int, end: int) -> None:
        self.partitions, self.end = partitions, end
        self.questions = 0

    def look(self, cluster: Cluster) -> Listing:
        self.questions += 1
        cluster._listing = {"t": Topic("t", self.partitions, "id")}
        return cluster._listing

    def offsets(self, cluster: Cluster, places: Mapping[str, TopicPlace]) -> Mapping[str, int]:
        self.questions += 1
        return {name: 0 if place.name == "earliest" else self.end for name, place in places.items()}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    told = Broker(2, 10)
    monkeypatch.setattr(clusters.Cluster, "_look", lambda self: told.look(self))
    monkeypatch.setattr(clusters.Cluster, "_offsets", lambda self, places: told.offsets(self, places))
    yield told


def travelled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def source(**bounds: Any) -> KafkaSource:
    return KafkaSource("t", KafkaSettings("h:1"), row_maker(JsonValues(FIELDS)), ReadBounds(**bounds))


def start_of(it: KafkaSource, partition: str) -> int:
    it._cluster._look()
    return it._cluster._start_of(partition)


def test_all_copies_of_a_run_see_the_partitions_and_bounds_that_it_began_with(broker: Broker) -> None:
    original = source(start="latest", until="latest")
    original.fix_bounds()
    broker.partitions, broker.end = 3, 99
    for copy in (travelled(original), travelled(travelled(original))):
        assert copy.partitions(2) == ["t/0", "t/1"]
        assert [start_of(copy, name) for name in copy.partitions(2)] == [10, 10]
        assert [copy._cluster._end_of(name) for name in copy.partitions(2)] == [10, 10]
    asked = broker.questions
    original.fix_bounds()
    assert broker.questions == asked
    original.begin_run()
    original.fix_bounds()
    assert travelled(original).partitions(1) == ["t/0", "t/1", "t/2"]


def test_a_partition_that_no_run_before_knew_is_read_from_its_first_message(broker: Broker) -> None:
    original = source(start="latest")
    original.fix_bounds()
    copy = travelled(original)
    assert copy.partitions_after({"t/0": {}}) == ["t/1"]
    assert (start_of(copy, "t/0"), start_of(copy, "t/1")) == (10, 0)
    broker.partitions = 3
    # What came since is dealt out by its name, while the job runs.
    assert copy.partitions_after({"t/0": {}}) == ["t/1"]
    assert copy.partitions_since(["t/0", "t/1"]) == ["t/2"]
    assert start_of(copy, "t/2") == 0


def test_one_process_sees_new_partitions_at_every_start(broker: Broker) -> None:
    only = source()
    assert only.partitions_after({"t/0": {}}) == ["t/1"]
    broker.partitions = 3
    assert only.partitions_after({"t/0": {}}) == ["t/1", "t/2"]


def test_restricted_copies_still_share_their_clients() -> None:
    original = source()
    first, second = travelled((original.restrict(["a"], None), original.restrict(["b"], None)))
    assert first._cluster is second._cluster
    assert (first.schema.names, second.schema.names) == (["a"], ["b"])


def test_secrets_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "open sesame")
    settings = {"bootstrap.servers": "h:1", "sasl.password": "env:SOME_PASSWORD"}
    reading = KafkaSource("t", KafkaSettings(settings), row_maker(JsonValues(FIELDS)))
    data = pickle.dumps([reading, LetterTopic("letters", KafkaSettings(settings))])
    assert b"open sesame" not in data
    assert b"env:SOME_PASSWORD" in data
    copy, letters = pickle.loads(data)
    assert copy.settings.admin("me")["sasl.password"] == "open sesame"
    assert letters._settings.producer("me")["sasl.password"] == "open sesame"


def test_a_restricted_decoder_still_knows_what_was_declared() -> None:
    known = JsonValues(FIELDS).restrict(["a"])
    copy = travelled(known)
    assert copy.schema == known.schema
    for decoder in (known, copy):
        decoder.decode([b'{"b": "x"}'] * 10)
    assert copy.remark(last=True) == known.remark(last=True)


def test_a_registry_is_asked_anew() -> None:
    from penstock.engine.connectors.kafka.formats.registry_settings import RegistrySettings

    registry = SchemaRegistry(RegistrySettings({"url": "http://h:1", "basic.auth.user.info": "env:USER_INFO"}))
    assert travelled(registry).settings.url == "http://h:1"


def test_writers_elsewhere_have_the_claim_and_no_producers(tmp_path: Path) -> None:
    sink = KafkaSink("t", KafkaSettings("h:1"), MessageLayout(), sink_format("json"), exactly_once=True)
    bound = sink.with_checkpoints(SinkContext("job", "out", 2, LocalFiles(tmp_path)))
    assert bound._commits is not None
    bound._commits._claim = Marker("run", 3, "start")
    made, arguments = bound.__reduce__()
    other = made(*arguments)
    assert other._claimed() == Marker("run", 3, "start")
    assert (other.describe(), other.transactional) == (bound.describe(), True)
    with pytest.raises(BugError, match="no producers"):
        other.commit(4, ())
    other.release()


def test_nobody_writes_without_a_claim(tmp_path: Path) -> None:
    sink = KafkaSink("t", KafkaSettings("h:1"), MessageLayout(), sink_format("json"), exactly_once=True)
    bound = sink.with_checkpoints(SinkContext("job", "out", 2, LocalFiles(tmp_path)))
    with pytest.raises(BugError, match="before it was recovered"):
        bound._claimed()
