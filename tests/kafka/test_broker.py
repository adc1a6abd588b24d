"""A broker from pip: what it keeps over restarts, how it ends, and the command that runs it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import penstock
from penstock.dev.kafka_broker import BrokerError, LocalBroker
from penstock.doctor.kafka import examine_kafka
from penstock.engine.connectors.kafka.admin import create_topic, is_ready, look
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.kafka.conftest import MakeTopic
from tests.kafka.secured_broker import USER, SecuredBroker
from tests.long_cases import but_for

ROOT = Path(penstock.__file__).parents[1]
PATIENCE_S = 60.0
QUIET = {"log_level": "0", "reconnect.backoff.ms": "50"}


def produce(settings: dict[str, str], topic: str, values: list[str]) -> None:
    producer = Producer({**settings, **QUIET, "acks": "all"})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def consume(settings: dict[str, str], topic: str, number: int) -> list[str]:
    """Return the first messages of partition 0."""
    consumer = Consumer({**settings, **QUIET, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(number, PATIENCE_S)
        assert [message.error() for message in messages] == [None] * len(messages)
        return [value.decode() for message in messages if isinstance(value := message.value(), bytes)]
    finally:
        consumer.close()


def test_a_topic_takes_and_gives_messages(kafka: str, topic: MakeTopic) -> None:
    settings = {"bootstrap.servers": kafka}
    name = topic(3, retention_ms="-1")
    assert [(view.partitions, view.problem) for view in look(KafkaSettings(kafka), [name]).topics] == [(3, "")]
    produce(settings, name, ["a", "b"])
    assert consume(settings, name, 2) == ["a", "b"]


@pytest.mark.long("three starts of a broker; test_undelivered starts one again")
def test_restarts_clean_or_not_keep_data_and_address(own_broker: LocalBroker) -> None:
    settings = {"bootstrap.servers": own_broker.bootstrap}
    create_topic(KafkaSettings(own_broker.bootstrap), "kept", 1)
    produce(settings, "kept", ["before"])
    for cleanly in (True, False):
        before = own_broker.pid
        own_broker.restart(cleanly=cleanly)
        assert {"bootstrap.servers": own_broker.bootstrap} == settings
        assert before is not None and not psutil.pid_exists(before)
        produce(settings, "kept", [f"after {cleanly}"])
    assert consume(settings, "kept", 3) == ["before", "after True", "after False"]

    second = LocalBroker(own_broker.directory)
    with pytest.raises(BrokerError, match=rf"process {own_broker.pid}, uses .* already"):
        second.start()
    process, port = own_broker.pid, int(own_broker.bootstrap.split(":")[1])
    with pytest.raises(BrokerError, match=f"port {port} of 127.0.0.1 is in use"):
        LocalBroker(own_broker.directory.parent / "other", port).start()
    assert process is not None and all(
        connection.laddr.ip.removeprefix("::ffff:") == "127.0.0.1"
        for connection in psutil.Process(process).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    )
    own_broker.stop()
    assert not psutil.pid_exists(process) and not is_ready(f"127.0.0.1:{port}", 0.2)


def test_listeners_want_tls_and_a_login(secured: SecuredBroker) -> None:
    create_topic(KafkaSettings(secured.broker.bootstrap), "guarded", 1)
    for protocol, problem in (("SSL", ""), ("SASL_SSL", "denied"), ("SASL_PLAINTEXT", "denied")):
        view = look(KafkaSettings({**secured.settings(protocol), **QUIET}), ["guarded"])
        assert view.problem == "" and view.brokers == (secured.broker.address(protocol),)
        assert [topic.problem for topic in view.topics] == [problem]
    wrong = {**secured.settings("SASL_SSL"), **QUIET, "sasl.username": "mallory"}
    assert "uthentication" in problem_with(wrong, "uthentication")
    stranger = {**secured.settings("SSL"), **QUIET, "ssl.ca.location": "probe"}
    assert "certificate" in problem_with(stranger, "certificate")


def problem_with(settings: dict[str, str], word: str) -> str:
    """Return the problem that a look at the cluster has; a busy one is looked at for longer."""
    for timeout_s in (2.0, 10.0, 30.0):
        problem = look(KafkaSettings(settings), timeout_s=timeout_s).problem
        if word in problem:
            break
    return problem


def test_doctor_says_which_right_is_lacking(secured: SecuredBroker) -> None:
    create_topic(KafkaSettings(secured.broker.bootstrap), "read-only", 2)
    settings = secured.settings("SASL_SSL")
    given = [f"{key}={value}" for key, value in settings.items()]

    def topic_check() -> tuple[str, str, str]:
        cluster, found = examine_kafka(settings["bootstrap.servers"], ["read-only"], given)
        assert cluster.status == "ok"
        return found.status, found.finding, found.advice

    assert topic_check()[:2] == ("fail", "may not be seen")
    rule = AclBinding(
        ResourceType.TOPIC, "read-only", ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": secured.broker.bootstrap})
    for granted in admin.create_acls([rule]).values():
        granted.result(PATIENCE_S)
    assert topic_check() == ("warn", "2 partitions, no WRITE", "a sink needs WRITE on it")


def dev_kafka(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", "dev", "kafka", "--port", "0", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(
    "ending", but_for([signal.SIGTERM, signal.SIGINT], [signal.SIGINT], "a broker for each signal; SIGINT stays")
)
def test_the_command_runs_until_it_is_told_to_stop(ending: signal.Signals, tmp_path: Path) -> None:
    kept = ["--dir", "here"] if ending is signal.SIGTERM else []
    command = dev_kafka(tmp_path, *kept)
    try:
        assert command.stdout is not None
        address = command.stdout.readline().strip()
        children = psutil.Process(command.pid).children()
        assert is_ready(address, PATIENCE_S), command.communicate()
        command.send_signal(ending)
        output, errors = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
    assert (command.returncode, output) == (0, ""), errors
    assert "Ctrl-C stops it" in errors
    assert len(children) == 1 and not children[0].is_running()
    assert [path.name for path in tmp_path.iterdir()] == (["here"] if kept else [])


@pytest.mark.long("two brokers of the command; it runs until it is told to stop, and refuses what cannot be")
def test_the_command_creates_topics_and_keeps_those_that_are_there(tmp_path: Path) -> None:
    wanted = ["--dir", "here", "--topic", "orders:3", "--topic", "dead"]
    for attempt, said in (
        (wanted, "topic orders created, 3 partitions"),
        (wanted, "Ctrl-C stops it"),
        ([*wanted[:3], "orders:4"], "is there with 3 partitions, not 4"),
    ):
        command = dev_kafka(tmp_path, *attempt)
        try:
            assert command.stdout is not None
            address = command.stdout.readline().strip()
            if address:
                views = look(KafkaSettings(address), ["orders", "dead"]).topics
                assert [(view.name, view.partitions) for view in views] == [("orders", 3), ("dead", 1)]
                command.send_signal(signal.SIGTERM)
            _, errors = command.communicate(timeout=PATIENCE_S)
        finally:
            command.kill()
        assert said in errors
        assert command.returncode == (0 if address else 1)


@pytest.mark.parametrize("text", ["orders:0", "orders:", "orders:x", "orders:-1", "or ders:3", ":3", "orders:100000"])
def test_a_topic_that_cannot_be_is_refused_before_anything_starts(text: str, tmp_path: Path) -> None:
    command = dev_kafka(tmp_path, "--topic", text)
    output, errors = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, output) == (2, "") and errors.startswith("error: ")


@pytest.mark.long("one more broker; test_the_command_runs_until_it_is_told_to_stop")
def test_the_command_says_so_when_the_broker_ends_by_itself(tmp_path: Path) -> None:
    command = dev_kafka(tmp_path)
    try:
        assert command.stdout is not None and command.stdout.readline()
        for broker in psutil.Process(command.pid).children():
            broker.kill()
        _, errors = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
    assert command.returncode == 1
    assert "error: the broker ended by itself: exit code -9" in errors


def test_doctor_asks_the_cluster(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    fine = doctor(kafka, name)
    assert fine.returncode == 0
    assert "1 partition, may be read and written" in fine.stdout and kafka in fine.stdout
    missing = doctor(kafka, name, "nowhere")
    assert missing.returncode == 3
    assert "topic nowhere" in missing.stdout and "create it" in missing.stdout


def doctor(address: str, *topics: str) -> subprocess.CompletedProcess[str]:
    asked = [text for topic in topics for text in ("--topic", topic)]
    command = [sys.executable, "-m", "penstock", "doctor", "--kafka", address, *asked]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
