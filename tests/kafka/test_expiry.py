"""Rows that a topic's retention would take away at once are told."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.connectors.kafka.encoded import MESSAGES
from penstock.engine.connectors.kafka.expiry import ExpiryWatch, time_retention_ms
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.kafka.conftest import MakeTopic

NOW_MS = 1_000_000
OLD = datetime(2015, 7, 15, tzinfo=UTC)


def messages(*times_ms: int | None) -> pa.RecordBatch:
    rows = [{"key": None, "value": b"", "timestamp_ms": time_ms, "headers": None} for time_ms in times_ms]
    return pa.RecordBatch.from_pylist(rows, MESSAGES)


def warnings_of(retention_ms: int | None, *batches: pa.RecordBatch) -> list[str]:
    said: list[str] = []
    watch = ExpiryWatch("bids", retention_ms, lambda: NOW_MS, said.append)
    for batch in batches:
        watch.look(batch)
    return said


def test_messages_older_than_the_retention_are_told_once() -> None:
    late = messages(NOW_MS - 101, None, NOW_MS)
    assert warnings_of(100, messages(None), messages(), messages(NOW_MS - 100, NOW_MS + 5)) == []
    (said,) = warnings_of(100, late, late)
    assert "ROWS MAY VANISH: topic 'bids'" in said and "timestamp=False" in said
    assert warnings_of(None, late) == []


def test_the_retention_of_a_topic_is_what_brokers_go_by(kafka: str, topic: MakeTopic) -> None:
    settings = KafkaSettings(kafka)
    assert time_retention_ms(settings, "test", topic(retention_ms="5000")) == 5_000
    assert time_retention_ms(settings, "test", topic(retention_ms="-1")) is None
    assert time_retention_ms(settings, "test", topic(retention_ms="5000", cleanup_policy="compact")) is None
    assert time_retention_ms(settings, "test", topic(retention_ms="5000", cleanup_policy="compact,delete")) == 5_000
    by_broker = topic(retention_ms="5000", message_timestamp_type="LogAppendTime")
    assert time_retention_ms(settings, "test", by_broker) is None


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("timestamp", [True, False])
def test_a_job_that_writes_old_times_says_so(
    kafka: str,
    topic: MakeTopic,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    guarantee: str,
    timestamp: bool,
) -> None:
    table = pa.table({"at": pa.array([OLD + timedelta(seconds=at) for at in range(10)], pa.timestamp("us", "UTC"))})
    name = topic(retention_ms="604800000")
    rows = ps.read_memory(table, time="at", job=Job()).name("rows")
    rows.write_kafka(name, kafka=kafka, guarantee=guarantee, timestamp=timestamp).name("out")
    with caplog.at_level(logging.WARNING, "penstock.kafka"):
        rows.job.run("old", checkpoint_dir=tmp_path / "c", directory=tmp_path / "job")
    told = [record.message for record in caplog.records if "ROWS MAY VANISH" in record.message]
    assert len(told) == int(timestamp)
    assert not timestamp or "keeps messages for 7 days" in told[0]
