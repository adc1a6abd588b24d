"""How many messages wait in a topic is a metric, from what the consumer has heard anyway."""

import threading
import time
from collections.abc import Callable
from typing import Any

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.jobs.metrics import SourceMetrics
from penstock.metrics.prometheus import exposition
from tests.kafka.test_source import Fields, MakeTopic, produce
from tests.penstock.metrics.prometheus_text import parse_metrics

PATIENCE_S = 60.0


def until(read: Callable[[], SourceMetrics], holds: Callable[[SourceMetrics], bool]) -> SourceMetrics:
    deadline = time.monotonic() + PATIENCE_S
    while not holds(found := read()):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def test_the_lag_of_every_partition_is_measured_and_goes_to_zero(kafka: str, topic: MakeTopic) -> None:
    name = topic(2)
    produce(kafka, name, range(300), 0)
    produce(kafka, name, range(50), 1)
    go_on = threading.Event()

    def hold(rows: Any) -> None:
        assert go_on.wait(PATIENCE_S)

    rows = read_kafka(name, kafka=kafka, schema=Fields, job=Job()).name("orders")
    rows.for_each_batch(hold)
    handle = rows.job.start("waiting", batch_rows=10, linger_ms=0, channel_bytes=1)
    try:

        def read() -> SourceMetrics:
            return handle.metrics().sources[0]

        held = until(read, lambda found: len(found.partitions) == 2 and found.lag_messages == 350 - found.rows)
        assert [item.partition for item in held.partitions] == [f"{name}/0", f"{name}/1"]
        assert 0 < (held.lag_messages or 0) <= 350
        assert parse_metrics(exposition(handle.metrics).decode()).sources[0].partitions == held.partitions
        go_on.set()
        done = until(read, lambda found: found.rows == 350)
        assert [item.messages for item in done.partitions] == [0, 0]
        produce(kafka, name, range(20), 1)
        until(read, lambda found: found.rows == 370 and found.lag_messages == 0)
    finally:
        go_on.set()
        handle.stop()


def test_sources_that_do_not_know_say_nothing() -> None:
    rows = ps.read_memory([{"a": 1}], job=Job())
    rows.write_black_hole()
    metrics = rows.job.run("memory")
    assert metrics.sources[0].partitions == () and metrics.sources[0].lag_messages is None
    assert b"lag_messages" not in exposition(lambda: metrics)
