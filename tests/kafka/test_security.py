"""TLS and logins: what is set goes through, what is wrong is said in a sentence, and no secret is left anywhere."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import penstock
import penstock as ps
from penstock.commands.failures import describe_failure
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import OptionError, UserError
from tests.certificates import make_authority
from tests.kafka.reading import ids_in
from tests.kafka.secured_broker import PASSWORD, USER, SecuredBroker

ROOT = Path(penstock.__file__).parents[1]
PATIENCE_S = 60.0
ROWS = [{"id": at} for at in range(5)]
WRONG = "not the password"

Allow = Callable[..., str]


@pytest.fixture
def allowed(secured: SecuredBroker) -> Iterator[Allow]:
    """``allowed("READ", ...)`` makes a topic on which the user may do so, and returns its name."""
    admin = AdminClient({"bootstrap.servers": secured.broker.bootstrap, "log_level": 0})

    def make(*operations: str) -> str:
        name = f"guarded-{token_hex(4)}"
        create_topic(KafkaSettings(secured.broker.bootstrap), name, 1)
        rules = [
            AclBinding(
                ResourceType.TOPIC, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]  # fmt: skip
        if rules:
            grant(admin, rules)
        return name

    yield make


def grant(admin: AdminClient, rules: list[AclBinding]) -> None:
    """Create ACLs, and wait until the broker heeds them."""
    for granted in admin.create_acls(rules).values():
        granted.result(PATIENCE_S)
    for rule in rules:
        wanted = AclBindingFilter(
            rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host, rule.operation,
            rule.permission_type,
        )  # fmt: skip
        while not admin.describe_acls(wanted).result(PATIENCE_S):
            time.sleep(0.02)


def write(topic: str, settings: dict[str, Any], folder: Path, **options: Any) -> None:
    job = Job()
    rows = ps.read_memory(ROWS, job=job).name("rows")
    rows.write_kafka(topic, kafka=settings, **options).name("out")
    job.run("writing", directory=folder)


def read(topic: str, settings: dict[str, Any], folder: Path) -> list[Any]:
    job = Job()
    rows = read_kafka(topic, kafka=settings, schema={"id": int}, until="latest", job=job).name("in").collect()
    job.run("reading", directory=folder)
    return [row["id"] for row in rows.rows()]


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL", "SASL_PLAINTEXT"])
def test_rows_go_through_every_kind_of_listener(
    secured: SecuredBroker, allowed: Allow, tmp_path: Path, protocol: str
) -> None:
    topic = allowed("READ", "WRITE")
    settings = secured.settings(protocol)
    write(topic, settings, tmp_path)
    assert read(topic, {f"kafka.{key}": value for key, value in settings.items()}, tmp_path) == [0, 1, 2, 3, 4]
    assert ids_in(secured.broker.bootstrap, topic) == [0, 1, 2, 3, 4]


def test_secrets_come_from_the_environment_too(
    secured: SecuredBroker, allowed: Allow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = allowed("READ")
    settings = {**secured.settings("SASL_SSL"), "sasl.password": "env:KAFKA_PASSWORD"}
    with pytest.raises(UserError, match=r"'sasl.password' is to come from the environment variable KAFKA_PASSWORD"):
        read(topic, settings, tmp_path)
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    assert read(topic, settings, tmp_path) == []


def test_what_is_wrong_is_said_in_a_sentence(secured: SecuredBroker, allowed: Allow, tmp_path: Path) -> None:
    topic, hidden, read_only, write_only = allowed("READ", "WRITE"), allowed(), allowed("READ"), allowed("WRITE")
    right = secured.settings("SASL_SSL")
    write(write_only, right, tmp_path)
    (tmp_path / "wrong").write_text(WRONG)
    stranger = make_authority(tmp_path / "stranger.pem").file
    login = {**right, "sasl.password": f"file:{tmp_path / 'wrong'}"}
    untrusted = {**right, "ssl.ca.location": str(stranger)}
    missing = {**right, "ssl.ca.location": str(tmp_path / "nowhere.pem")}
    gone = {**right, "sasl.password": f"file:{tmp_path / 'nowhere'}"}
    for run, name, settings, sentence in (
        (read, topic, login, "refused the login .* check sasl.username, sasl.password and sasl.mechanism"),
        (write, topic, login, "refused the login .* check sasl.username, sasl.password and sasl.mechanism"),
        (read, topic, untrusted, "is not trusted.*certificate.*check security.protocol, ssl.ca.location"),
        (write, topic, untrusted, "is not trusted.*certificate.*check security.protocol, ssl.ca.location"),
        (read, topic, missing, "librdkafka does not accept .*nowhere.pem"),
        (read, topic, gone, "'sasl.password' is to come from .*nowhere', which cannot be read"),
        (read, hidden, right, f"looking at topic '{hidden}': .* denies it .* ACL"),
        (write, hidden, right, f"looking for topic '{hidden}': .* denies it .* ACL"),
        (read, write_only, right, f"reading '{write_only}/0': .* denies it .* ACL"),
        (write, read_only, right, f"topic '{read_only}': .* denies it .* ACL"),
    ):
        with pytest.raises(UserError, match=sentence) as failed:
            run(name, settings, tmp_path)
        said = describe_failure(failed.value)
        assert PASSWORD not in said and WRONG not in said


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password", "kafka.sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem",
        "sasl.oauthbearer.client.secret", "sasl.passwd", "ssl.truststore.password", "sasl.jaas.config",
        "basic.auth.user.info",
    ],
)  # fmt: skip
def test_secrets_in_the_open_are_refused_unseen(key: str) -> None:
    with pytest.raises(OptionError, match="say where it is instead: 'env:NAME' or 'file:PATH'") as refused:
        KafkaSettings({"bootstrap.servers": "b:1", key: "hunter2"})
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(KafkaSettings({"bootstrap.servers": "b:1", key: "file:hunter2"}))


@pytest.mark.parametrize(
    "key", ["ssl.key.location", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.id"]
)
def test_what_is_no_secret_may_stand_there(key: str) -> None:
    assert "plain" in repr(KafkaSettings({"bootstrap.servers": "b:1", key: "plain"}))


def test_what_librdkafka_says_of_a_referenced_value_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.engine.connectors.kafka.clients import make_admin

    monkeypatch.setenv("MECHANISM", "hunter2")
    with pytest.raises(OptionError, match=r"librdkafka does not accept .*security.protocol.*\[redacted\]") as refused:
        make_admin(KafkaSettings({"bootstrap.servers": "b:1", "security.protocol": "env:MECHANISM"}), "x")
    assert "hunter2" not in str(refused.value)


PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
import penstock as ps
from penstock.dsl.kafka import read_kafka
settings = {settings!r}
rows = read_kafka({topic!r}, kafka=settings, schema={{"id": int}}, until="latest", dead_letter_topic={dead!r})
rows.name("in").write_kafka({out!r}, kafka=settings, guarantee="exactly_once").name("out")
ps.run("secret", directory="job", checkpoint_dir="checkpoints", checkpoint_interval="50ms", metrics_port=0)
"""


def test_nothing_that_a_run_leaves_behind_has_the_secret(
    secured: SecuredBroker, allowed: Allow, tmp_path: Path
) -> None:
    topic, dead, out = (allowed("READ", "WRITE") for _ in range(3))
    admin = AdminClient({"bootstrap.servers": secured.broker.bootstrap, "log_level": 0})
    for kind in (ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP):
        rule = AclBinding(
            kind, "penstock-", ResourcePatternType.PREFIXED, f"User:{USER}", "*", AclOperation.ALL,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        grant(admin, [rule])
    settings = secured.settings("SASL_SSL")
    write(topic, settings, tmp_path / "first")
    chatty = {**settings, "debug": "security,broker,conf,protocol"}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(settings=chatty, topic=topic, dead=dead, out=out))

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3_000:]
        return done.stdout + done.stderr

    said = run("run", "program.py")
    assert ids_in(secured.broker.bootstrap, out) == [0, 1, 2, 3, 4]
    assert "SASL" in said
    said += run("explain", "program.py", "--svg", "plan.svg") + run("explain", "program.py", "--json")
    said += run("state", "ls", "checkpoints")
    given = [text for key, value in chatty.items() for text in ("--kafka-setting", f"{key}={value}")]
    said += run("dlq", "show", dead, "--kafka", settings["bootstrap.servers"], *given)
    for secret in (PASSWORD, json.dumps(PASSWORD)[1:-1]):
        assert secret not in said
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {path.relative_to(tmp_path).parts[0] for path in left} >= {"plan.svg", "checkpoints"}
        assert [path for path in left if secret.encode() in path.read_bytes()] == []
