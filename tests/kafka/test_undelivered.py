"""A sink that writes at least once while no broker answers: the job goes on, and a stop does not wait for it."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.kafka.reading import ids_in

PROGRAM = """
import sys
from tests.kafka.sink_job import numbers_to
address, topic, folder, checkpoints, small = sys.argv[1:]
kafka = {"bootstrap.servers": address} | ({"queue.buffering.max.messages": 500} if small else {})
options = {"checkpoint_dir": folder + "/c", "checkpoint_interval": "100ms"} if checkpoints else {}
sink = numbers_to(kafka, topic, 10**9, 20.0, guarantee="at_least_once")
sink.job.run("undelivered", directory=folder + "/job", **options)
"""
WAIT_S = 60
"""Far less than the 300 s after which the client gives a message up."""

ROOT = Path(__file__).parent.parent.parent


@contextmanager
def running(broker: LocalBroker, folder: Path, *, checkpoints: bool, small: bool) -> Iterator[subprocess.Popen[str]]:
    """Run the job in a process of its own; yield it once messages have arrived and the broker is gone."""
    create_topic(KafkaSettings(broker.bootstrap), "out", 1)
    arguments = [broker.bootstrap, "out", str(folder), "1" if checkpoints else "", "1" if small else ""]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        while not arrived(broker):
            assert process.poll() is None, process.communicate()[1]
        broker.stop()
        assert process.stderr is not None
        read_until(process.stderr, "waiting for one")
        yield process
    finally:
        process.kill()
        process.communicate()


def arrived(broker: LocalBroker) -> int:
    """Return how many messages there are; a broker that has just begun does not know yet."""
    until_s = time.monotonic() + WAIT_S
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
    try:
        while True:
            try:
                return int(consumer.get_watermark_offsets(TopicPartition("out", 0), 10.0)[1])
            except KafkaException:
                if time.monotonic() > until_s:
                    raise
    finally:
        consumer.close()


def read_until(stream: IO[str], text: str) -> str:
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


@pytest.mark.long("waits for a broker that is gone; test_nothing_is_lost_when_the_broker_comes_back")
@pytest.mark.parametrize(
    ("checkpoints", "small"), [(False, False), (True, False), (False, True)], ids=["plain", "checkpoints", "full queue"]
)
def test_a_stop_while_no_broker_answers_ends_soon_and_says_what_did_not_arrive(
    own_broker: LocalBroker, tmp_path: Path, checkpoints: bool, small: bool
) -> None:
    with running(own_broker, tmp_path, checkpoints=checkpoints, small=small) as process:
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=WAIT_S)[1]
        assert process.returncode == 1, said
        where = f"rows to topic 'out' of Kafka at {own_broker.bootstrap} nothing has arrived for 5 s"
        assert "the job was told to stop, and of " in said and where in said, said
        then = "the next start sends them again" if checkpoints else "they are lost to it"
        assert then in said, said


def test_nothing_is_lost_when_the_broker_comes_back(own_broker: LocalBroker, tmp_path: Path) -> None:
    with running(own_broker, tmp_path, checkpoints=False, small=True) as process:
        own_broker.start()
        assert process.stderr is not None
        read_until(process.stderr, "answers again")
        before = arrived(own_broker)
        # A stop gives up after 5 s without an arrival: on a busy machine a broker that just began takes longer.
        while arrived(own_broker) <= before:
            assert process.poll() is None, process.communicate()[1]
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=WAIT_S)[1]
        assert process.returncode == 0, said
        for parity in (0, 1):
            ids = sorted({number for number in ids_in(own_broker.bootstrap, "out") if number % 2 == parity})
            assert ids == list(range(parity, parity + 2 * len(ids), 2))
