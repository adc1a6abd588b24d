"""A job with exactly-once sinks is rescaled, moved, scaled and drained at random, and its task managers killed."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.chaos.held_back import Gate, hold_back
from tests.chaos.kafka_outputs import KEEP
from tests.chaos.steering import Steering
from tests.contracts.executors.metered import BEGIN_US, PARTITIONS, ROWS, MeteredJob, task_managers
from tests.contracts.executors.ways import PROCESSES, RAY
from tests.end_to_end.test_steered import KILLS, ORDERS, SEED, check
from tests.kafka.metered_topic import check_topic, metered_topic
from tests.ray_cluster import GROUP, RayCluster

pytestmark = pytest.mark.slow

ROWS_PER_S = 20.0
"""The share of an order is read within two seconds."""


def steered(
    kafka: str,
    folder: Path,
    way: Mapping[str, Any] = PROCESSES,
    processes: Callable[[], Sequence[psutil.Process]] = task_managers,
    orders: int = ORDERS,
    kills: int = KILLS,
    parallelism: int = 2,
) -> Steering:
    """Change the job so many times, with kills in between, and hold its topic against its rows."""
    settings, topic, metered = KafkaSettings(kafka), f"steered-{secrets.token_hex(4)}", MeteredJob(folder)
    create_topic(settings, topic, PARTITIONS, KEEP)
    metered.give(ROWS)
    job = metered_topic(metered, kafka, topic)
    gate = Gate(folder / "gate", BEGIN_US, BEGIN_US + ROWS * 10_000)
    gate.open(0.0)
    hold_back(job, "at", ROWS_PER_S, gate)
    handle = job.start(
        "steered",
        **way,
        parallelism=parallelism,
        directory=folder / "job",
        checkpoint_dir=folder / "checkpoints",
        checkpoint_interval="100ms",
        restart_delay="1ms",
    )
    steering = Steering(handle, SEED, gate.open, processes)
    steering.give(orders, kills)
    handle.wait()
    check_topic(settings, topic)
    delete_topics(settings, [topic])
    return steering


def test_each_row_is_there_once_in_a_job_that_begins_with_single_instances(kafka: str, tmp_path: Path) -> None:
    steering = steered(kafka, tmp_path, orders=6, kills=1, parallelism=1)
    assert steering.done.total() == 7 and steering.done["rescale"] > 0


@pytest.mark.long("a hundred orders and 25 kills; test_each_row_is_there_once_in_a_job_that_begins has some")
def test_each_row_is_there_once_behind_orders_and_kills(kafka: str, tmp_path: Path) -> None:
    check(steered(kafka, tmp_path))


@pytest.mark.xdist_group(GROUP)
@pytest.mark.long("a hundred orders and 25 kills on Ray; test_nexmark_on_ray.py has exactly-once sinks there")
def test_each_row_is_there_once_behind_orders_and_kills_on_ray(kafka: str, tmp_path: Path, on_ray: RayCluster) -> None:
    check(steered(kafka, tmp_path, RAY, on_ray.task_managers))
