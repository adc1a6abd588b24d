"""What is replayed: as checkpoints, times or offsets say; and what is missing is said before anything is read."""

import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.checkpoint.reader import read_checkpoint
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topics import Topic
from penstock.model.errors import OptionError, UserError
from penstock.replay.kafka_slices import OffsetRange, RowPosition, offset_range
from penstock.replay.offsets import TopicState, check_there, checkpoint_places, choose
from tests.kafka.test_source import transaction
from tests.replay.conftest import MakeTopic
from tests.replay.kafka_rows import committed, produce, source_of

Fields = {"id": int, "name": str}
STATE = TopicState({("t", 0): 5}, {("t", 0): 20}, {"t": Topic("t", 1, "id")})


def cut_off(kafka: str, name: str, offset: int) -> None:
    """Delete the head of a topic, as retention does."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for answer in admin.delete_records([TopicPartition(name, 0, offset)]).values():
        answer.result(10)


@pytest.mark.parametrize(
    ("start", "stop", "kept", "said"),
    [
        (5, 20, [], None),
        (0, 20, [(0, 5)], None),
        (0, 20, [(0, 12)], None),
        (2, 20, [(0, 5), (7, 9)], None),
        (0, 20, [], r"offsets 0 to 4 of partition 't/0' are no longer there"),
        (0, 3, [], r"offsets 0 to 2 "),
        (0, 20, [(0, 3)], r"offsets 3 to 4 "),
        (0, 20, [(2, 8)], r"offsets 0 to 1 "),
        (5, 21, [], r"ends at offset 20, but is to be read up to 21"),
        (5, 30, [(0, 25)], r"ends at offset 20, but is to be read up to 30"),
        (5, 25, [(0, 25)], None),
    ],
)
def test_every_message_is_there_or_named(start: int, stop: int, kept: list[tuple[int, int]], said: str | None) -> None:
    item = offset_range("t", 0, start, stop)
    if said is None:
        check_there(item, STATE, kept)
        return
    with pytest.raises(UserError, match=said):
        check_there(item, STATE, kept)


def test_a_message_that_is_begun_behind_the_end_is_not_there() -> None:
    check_there(OffsetRange("t", 0, RowPosition(5), RowPosition(19, 3)), STATE)
    with pytest.raises(UserError, match="ends at offset 20"):
        check_there(OffsetRange("t", 0, RowPosition(5), RowPosition(20, 1)), STATE)


def test_offsets_and_times(kafka: str, topic: MakeTopic) -> None:
    name = topic(2)
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    for minute in range(10):
        at = noon + datetime.timedelta(minutes=minute)
        produce(kafka, name, [minute], 0, timestamp=int(at.timestamp() * 1_000))
    source = source_of(name, kafka, schema=Fields)

    def chosen(**where: Any) -> list[tuple[int, int, int]]:
        ranges = choose(source, "s", **where).ranges
        return [(item.partition, item.start.offset, item.stop.offset) for item in ranges]

    assert chosen(stop={f"{name}/0": 7}) == [(0, 0, 7)]
    assert chosen(start={f"{name}/0": 2}, stop={f"{name}/0": 7, f"{name}/1": 0}) == [(0, 2, 7)]
    assert chosen(start="2026-01-01T12:03:00Z", stop=noon + datetime.timedelta(minutes=6)) == [(0, 3, 6)]
    assert chosen(start="earliest", stop="2026-01-01T13:00:00Z") == [(0, 0, 10)]
    with pytest.raises(OptionError, match="cannot be 'latest', which is another place every time"):
        chosen(stop="latest")
    with pytest.raises(UserError, match="ends at offset 10, but is to be read up to 11"):
        chosen(stop={f"{name}/0": 11})
    with pytest.raises(UserError, match=f"partition '{name}/7', where a replay is to end, is not there"):
        chosen(stop={f"{name}/7": 11})


def test_what_is_not_committed_is_not_replayed(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, range(3))
    still_open = transaction(kafka, name, range(5), "open")
    source = source_of(name, kafka, schema=Fields)
    assert committed(source) == {f"{name}/0": 3}
    with pytest.raises(UserError, match="belongs to a transaction that is open"):
        choose(source, "s", stop={f"{name}/0": 5})
    still_open.abort_transaction(20)


def test_a_head_that_is_gone_is_not_passed_over(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, range(10))
    cut_off(kafka, name, 6)
    source, stop = source_of(name, kafka, schema=Fields), {f"{name}/0": 9}
    with pytest.raises(UserError, match=r"offsets 0 to 5 .* replay from an archive that has them, or begin later"):
        choose(source, "s", stop=stop)
    assert choose(source, "s", start="earliest", stop=stop).ranges == (offset_range(name, 0, 6, 9),)
    kept = {(name, 0): [(2, 8)]}
    assert choose(source, "s", start="earliest", stop=stop, kept=kept).ranges == (offset_range(name, 0, 2, 9),)


def test_where_a_source_began_is_where_a_replay_begins(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka, name, range(10))
    stop = {f"{name}/0": 9}
    given = source_of(name, kafka, schema=Fields, start={f"{name}/0": 4})
    assert choose(given, "s", stop=stop).ranges == (offset_range(name, 0, 4, 9),)
    latest = source_of(name, kafka, schema=Fields, start="latest")
    with pytest.raises(OptionError, match="began at the ends its topics had when the job began"):
        choose(latest, "s", stop=stop)


def test_a_checkpoint_says_where_a_job_was(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic(2)
    for start in range(0, 30, 10):
        content = BytesIO()
        rows = pa.RecordBatch.from_pydict({"id": list(range(start, start + 10))})
        with pa.ipc.new_stream(content, rows.schema) as writer:
            writer.write_batch(rows)
        produce(kafka, name, [content.getvalue()], 1)
    options: dict[str, Any] = {"schema": {"id": int}, "format": "arrow"}
    job = Job()
    stream = read_kafka(name, kafka=kafka, until="latest", job=job, **options).name("ids")
    stream.collect().name("kept")
    job.run("checkpointed", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job")
    source, checkpoint = source_of(name, kafka, **options), read_checkpoint(tmp_path / "checkpoints")
    places = checkpoint_places(source, "ids", checkpoint)
    assert {key: position.offset for key, position in places.items()} == {(name, 0): 0, (name, 1): 3}
    produce(kafka, name, [b"later"], 1)
    chosen = choose(source, "ids", stop=checkpoint)
    assert chosen.ranges == (offset_range(name, 1, 0, 3),)
    assert list(chosen.topic_ids) == [name] and chosen.topic_ids[name]
    with pytest.raises(OptionError, match="has no source 'other'; its sources are 'ids'"):
        choose(source, "other", stop=checkpoint)
    settings = KafkaSettings(kafka)
    delete_topics(settings, [name])
    create_topic(settings, name, 2)
    with pytest.raises(UserError, match="was deleted and created again"):
        choose(source, "ids", stop=checkpoint)
