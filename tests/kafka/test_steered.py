"""A job with exactly-once sinks is rescaled, moved, scaled and drained at random, and its task managers killed."""

import os
import secrets
from pathlib import Path

import pytest

from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.chaos.kafka_outputs import KEEP
from tests.chaos.steering import Steering, slow_down
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob
from tests.contracts.executors.ways import PROCESSES
from tests.kafka.metered_topic import check_topic, metered_topic

pytestmark = pytest.mark.slow

ROWS_PER_S = 4.0
"""So slowly are they read that they last longer than the orders take."""


@pytest.mark.long("25 orders and six kills; test_rescaling.py has some of each")
def test_each_row_is_there_once_behind_orders_and_kills(kafka: str, tmp_path: Path) -> None:
    """``PENSTOCK_ORDERS`` sets how many orders are given, 25 at least."""
    orders = max(25, int(os.environ.get("PENSTOCK_ORDERS", "25")))
    settings, topic, metered = KafkaSettings(kafka), f"steered-{secrets.token_hex(4)}", MeteredJob(tmp_path)
    create_topic(settings, topic, PARTITIONS, KEEP)
    metered.give(ROWS)
    job = metered_topic(metered, kafka, topic)
    hurry = tmp_path / "hurry"
    slow_down(job, ROWS_PER_S, hurry)
    handle = job.start(
        "steered",
        **PROCESSES,
        parallelism=2,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="100ms",
        restart_delay="1ms",
    )
    steering = Steering(handle, seed=orders)
    steering.give(orders, orders // 4)
    hurry.touch()
    handle.wait()
    print(dict(steering.done), dict(steering.refused))
    assert steering.done.total() == orders + orders // 4 and steering.done["rescale"] and steering.done["move"]
    check_topic(settings, topic)
    delete_topics(settings, [topic])
