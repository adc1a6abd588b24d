"""``penstock nexmark`` fills and reads a topic of a cluster that wants TLS and a login."""

import json
from pathlib import Path
from secrets import token_hex

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from tests.benchmarks.oracle import assert_same_rows, expected
from tests.command_line import penstock
from tests.kafka.secured_broker import PASSWORD, USER, SecuredBroker
from tests.kafka.test_security import grant

EVENTS = 2_003


@pytest.fixture
def address(secured: SecuredBroker) -> str:
    """A topic that is not there, which the user may make, write and read."""
    topic = f"nexmark-{token_hex(4)}"
    rule = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.ALL,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    grant(AdminClient({"bootstrap.servers": secured.broker.bootstrap, "log_level": 0}), [rule])
    return f"kafka://{secured.broker.address('SASL_SSL')}/{topic}"


def options(secured: SecuredBroker, **other: str) -> list[str]:
    """Return the settings of the cluster as options."""
    settings = {**secured.settings("SASL_SSL"), "sasl.password": "env:KAFKA_PASSWORD"}
    del settings["bootstrap.servers"]
    return [text for key, value in {**settings, **other}.items() for text in ("--kafka-setting", f"{key}={value}")]


@pytest.mark.long("a broker of its own; test_security sends rows through every listener")
def test_a_topic_behind_a_login_is_filled_and_read(
    secured: SecuredBroker,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    given = options(secured)
    assert penstock("nexmark", "--fill", address, "--events", str(EVENTS), *given) == 0
    assert penstock("nexmark", "--fill", address, *given) == 1
    assert "already" in capfd.readouterr().err
    read = ["--queries", "q0", "--source", address, "--out", str(tmp_path / "out"), "--json", *given]
    assert penstock("nexmark", *read) == 0
    said = capfd.readouterr()
    assert json.loads(said.out)["events"] == EVENTS and PASSWORD not in said.out + said.err
    write_dataset(tmp_path / "data", NexmarkConfig(EVENTS))
    assert_same_rows(pq.read_table(tmp_path / "out" / "q0.parquet"), expected("q0", tmp_path / "data"))


def test_what_is_wrong_is_said_in_a_sentence(
    secured: SecuredBroker, address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    given = options(secured)
    for arguments, code, sentence in (
        (["--source", address, *options(secured, **{"sasl.password": "hunter2"})], 2, "'env:NAME' or 'file:PATH'"),
        (["--source", address, "--kafka-setting", "linger"], 2, "a Kafka setting is KEY=VALUE"),
        (["--kafka-setting", "linger.ms=5"], 2, "--kafka-setting is for a topic"),
        (["--fill", f"{address}-other", *given], 1, "have CREATE, DESCRIBE, WRITE and READ on it allowed by ACLs"),
    ):
        assert penstock("nexmark", "--queries", "q0", *arguments) == code
        said = capfd.readouterr().err
        assert sentence in said and "Traceback" not in said and "hunter2" not in said
