"""The parallelism of an exactly-once sink changes while its job runs, and a task manager is killed: each row once."""

import secrets
from pathlib import Path
from typing import Any

import pytest

from penstock.dsl.handle import Handle
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.chaos.kafka_outputs import KEEP
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, task_managers, until
from tests.contracts.executors.test_coming_and_going import drain
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.ways import PROCESSES
from tests.kafka.metered_topic import check_topic, metered_topic

pytestmark = pytest.mark.slow


def started(metered: MeteredJob, kafka: str, topic: str, folder: Path, **options: Any) -> Handle:
    """Start the job of a topic, of two writers, before there are rows."""
    metered.give(0)
    given: dict[str, Any] = {
        **PROCESSES,
        "parallelism": 2,
        "directory": folder / "job",
        "checkpoint_dir": folder / "checkpoints",
        "checkpoint_interval": "100ms",
        "restart_delay": "1ms",
    }
    return metered_topic(metered, kafka, topic).start("steered", **{**given, **options})


def read(metered: MeteredJob, handle: Handle, rows: int) -> None:
    """Give a job so many rows of each partition, and wait until it has read them."""
    metered.give(rows)
    until(lambda: handle.metrics().source_rows >= PARTITIONS * rows, handle)


def test_rows_are_there_once_though_writers_come_and_go(kafka: str, tmp_path: Path) -> None:
    settings, topic, metered = KafkaSettings(kafka), f"rescaled-{secrets.token_hex(4)}", MeteredJob(tmp_path)
    create_topic(settings, topic, PARTITIONS, KEEP)
    handle = started(metered, kafka, topic, tmp_path)
    read(metered, handle, 1_000)
    # One more writer has to take its transactional id, two have to leave theirs.
    assert handle.rescale("per key", 3).after == {"per key": 3, "totals": 3}
    read(metered, handle, 2_000)
    assert handle.rescale("rows", 1).after == {"rows": 1}
    restarts = handle.metrics().checkpoints
    assert restarts is not None
    kill(task_managers()[0].pid)
    until(lambda: (now := handle.metrics().checkpoints) is not None and now.restarts > restarts.restarts, handle)
    read(metered, handle, 3_000)
    assert handle.rescale("per key", 1).after == {"per key": 1, "totals": 1}
    metered.give(ROWS)
    handle.wait()
    check_topic(settings, topic)
    delete_topics(settings, [topic])


def test_rows_are_there_once_though_task_managers_are_drained(kafka: str, tmp_path: Path) -> None:
    settings, topic, metered = KafkaSettings(kafka), f"drained-{secrets.token_hex(4)}", MeteredJob(tmp_path)
    create_topic(settings, topic, PARTITIONS, KEEP)
    handle = started(metered, kafka, topic, tmp_path, task_managers=3, idle_timeout_ms=600_000)

    def restarts() -> int:
        counted = handle.metrics().checkpoints
        assert counted is not None
        return counted.restarts

    read(metered, handle, 1_000)
    until(lambda: len(running(handle).managers.known().live) == 3, handle)
    drain(handle, "tm-0")
    read(metered, handle, 2_000)
    drain(handle, "tm-1")
    assert restarts() == 0 and set(running(handle).places().values()) == {"tm-2"}
    read(metered, handle, 3_000)
    # Its writers have numbers that none of those has which follow.
    kill(task_managers()[0].pid)
    until(lambda: restarts() == 1, handle)
    metered.give(ROWS)
    handle.wait()
    check_topic(settings, topic)
    delete_topics(settings, [topic])
