"""The parallelism of an exactly-once sink changes while its job runs, and a task manager is killed: each row once."""

import json
import secrets
from collections import Counter
from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.chaos.kafka_outputs import KEEP, committed_messages
from tests.contracts.executors.metered import PARTITIONS, ROWS, Metered, MeteredJob, task_managers, until
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.ways import PROCESSES

pytestmark = pytest.mark.slow


def test_rows_are_there_once_though_writers_come_and_go(kafka: str, tmp_path: Path) -> None:
    settings, topic, metered = KafkaSettings(kafka), f"rescaled-{secrets.token_hex(4)}", MeteredJob(tmp_path)
    create_topic(settings, topic, PARTITIONS, KEEP)
    metered.give(0)
    job = ps.Job()
    numbers = ps.read(Metered(tmp_path / "meter"), time="at", job=job).name("numbers")
    totals = numbers.key_by("key").agg(n=ps.count()).name("per key")
    totals.write_kafka(topic, kafka=kafka, guarantee="exactly_once", mode="changelog").name("totals")
    numbers.write_kafka(topic, kafka=kafka, guarantee="exactly_once").name("rows")
    handle = job.start(
        "rescaled",
        **PROCESSES,
        parallelism=2,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="100ms",
        restart_delay="1ms",
    )

    def read(rows: int) -> None:
        metered.give(rows)
        until(lambda: handle.metrics().source_rows >= PARTITIONS * rows, handle)

    read(1_000)
    # One more writer has to take its transactional id, two have to leave theirs.
    assert handle.rescale("per key", 3).after == {"per key": 3, "totals": 3}
    read(2_000)
    assert handle.rescale("rows", 1).after == {"rows": 1}
    restarts = handle.metrics().checkpoints
    assert restarts is not None
    kill(task_managers()[0].pid)
    until(lambda: (now := handle.metrics().checkpoints) is not None and now.restarts > restarts.restarts, handle)
    read(3_000)
    assert handle.rescale("per key", 1).after == {"per key": 1, "totals": 1}
    metered.give(ROWS)
    handle.wait()
    ids: Counter[int] = Counter()
    standing: Counter[tuple[int, int]] = Counter()
    for _, value in committed_messages(settings, topic, PARTITIONS):
        row = json.loads(value or b"null")
        if "id" in row:
            ids[row["id"]] += 1
        else:
            standing[row["key"], row["n"]] += row["weight"]
    delete_topics(settings, [topic])
    assert ids == Counter(range(PARTITIONS * ROWS))
    keys = Counter(number * 7 % 17 for number in range(PARTITIONS * ROWS))
    assert +standing == Counter(dict.fromkeys(keys.items(), 1)) and not -standing
