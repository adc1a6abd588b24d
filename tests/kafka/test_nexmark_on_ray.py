"""Nexmark from a topic to a topic on a Ray cluster, exactly once, through kills of task managers and head actors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.chaos.child import spawn
from penstock.engine.connectors.kafka.admin import delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.chaos.kafka_attacks import Events, KafkaAttacker, make_events
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

EVENTS = 400_000
MODES = {"q4": "changelog", "q5": "append", "q8": "append", "q11": "append"}


@pytest.fixture(scope="module")
def events(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Events]:
    """Return events in a topic, and as files."""
    made = make_events(kafka, tmp_path_factory.mktemp("events"), EVENTS)
    yield made
    delete_topics(KafkaSettings(kafka), [made.topic.topic])


@pytest.mark.long("dozens of kills on a broker; test_chaos_on_ray.py has those into files")
@pytest.mark.parametrize(("query", "kills", "kill_head"), [
    ("q4", 3, False), ("q5", 3, False), ("q8", 3, False), ("q11", 3, False),
    ("q4", 2, True), ("q5", 1, True), ("q8", 1, True), ("q11", 1, True),
])  # fmt: skip
def test_queries_over_topics_are_exact_through_kills(
    tmp_path: Path, on_ray: RayCluster, events: Events, query: str, kills: int, kill_head: bool
) -> None:
    attacker = KafkaAttacker(tmp_path, spawn, events, query, MODES[query])
    report = attacker.on_ray(kills, seed=kills, address=on_ray.address, kill_head=kill_head)
    assert report.failure is None, report.failure
    assert report.kills == kills and report.rows
    assert (report.lost, report.duplicated) == (0, 0), report
