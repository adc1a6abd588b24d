"""Exactly-once writers come and go, and processes are killed as ids are taken, and given up: each row is there once."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.core.failpoint_settings import ONCE, SAID, VARIABLE
from tests.chaos.kafka_outputs import KEEP
from tests.contracts.executors.metered import LONG_S, PARTITIONS
from tests.kafka.metered_topic import check_topic

pytestmark = pytest.mark.slow

KILLED = -9


class Lives:
    """Runs of one job that writes to one topic."""

    def __init__(self, kafka: str, folder: Path) -> None:
        self.settings, self.topic = KafkaSettings(kafka), f"lives-{secrets.token_hex(4)}"
        self._kafka, self._folder = kafka, folder
        create_topic(self.settings, self.topic, PARTITIONS, KEEP)

    def live(self, instances: str, failpoint: str = "") -> tuple[int, dict[str, Any]]:
        """Run it with these numbers of writers, one after the other, and return its exit code and what it prints."""
        once = self._folder / "once"
        once.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tests.kafka.rescaled_job", self._kafka, self.topic, self._folder, instances]
        environment = {**os.environ, VARIABLE: failpoint, ONCE: str(once)}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG_S)
        assert ran.returncode in (0, KILLED), ran.stderr
        assert (SAID in ran.stderr) == bool(failpoint), ran.stderr
        return ran.returncode, json.loads(ran.stdout or "{}")

    def check(self) -> None:
        """Hold what is committed against all rows."""
        check_topic(self.settings, self.topic)


@pytest.fixture
def lives(kafka: str, tmp_path: Path) -> Iterator[Lives]:
    made = Lives(kafka, tmp_path)
    yield made
    delete_topics(made.settings, [made.topic])


@pytest.mark.long("a job of its own; test_rescaling.py has writers that come and go")
def test_writers_come_and_go_and_nothing_begins_anew(lives: Lives) -> None:
    assert lives.live("3,4,2") == (0, {"live": [True, True, True], "restarts": 0})
    lives.check()


@pytest.mark.long("two lives for each point; test_rescaling.py has a task manager that is killed")
@pytest.mark.parametrize(
    ("instances", "failpoint"), [("3", "kafka.id.joined:1"), ("5", "kafka.id.joined:2"), ("3,2", "growth.left:1")]
)
def test_the_process_that_has_the_ids_is_killed(lives: Lives, instances: str, failpoint: str) -> None:
    assert lives.live(instances, failpoint)[0] == KILLED
    assert lives.live("") == (0, {"live": [], "restarts": 0})
    lives.check()


@pytest.mark.long("a job for each point; test_rescaling.py has a task manager that is killed")
@pytest.mark.parametrize(("instances", "failpoint"), [("3", "growth.built:1"), ("3,2", "instance.ended:1")])
def test_a_task_manager_of_the_writers_is_killed(lives: Lives, instances: str, failpoint: str) -> None:
    """The first that comes to the point: one with a new writer that has its id, or with one that gives it up."""
    code, said = lives.live(instances, f"tm-*/{failpoint}")
    assert code == 0 and said["restarts"] == 1 and said["live"] == [True] * (len(said["live"]) - 1) + [False]
    lives.check()
