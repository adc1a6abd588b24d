"""What a user must be allowed for writing exactly once: each right that is missing is named in one sentence."""

import re
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

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

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import UserError
from tests.kafka.reading import ids_in
from tests.kafka.secured_broker import USER, SecuredBroker
from tests.kafka.test_security import PATIENCE_S, grant

KINDS = {"topic": ResourceType.TOPIC, "id": ResourceType.TRANSACTIONAL_ID, "group": ResourceType.GROUP}
PREFIX = "penstock-"
ENOUGH = {"topic": ("READ", "WRITE"), "id": ("WRITE",), "group": ("READ",)}
"""What an exactly-once sink needs, on its topic, and on ids and groups with the prefix; each brings DESCRIBE."""

ID = "transactional id 'penstock-writing-out-0'"


class Rights:
    """The rights of the one user there is, who has none at first."""

    def __init__(self, broker: SecuredBroker) -> None:
        self._broker = broker
        self._admin = AdminClient({"bootstrap.servers": broker.broker.bootstrap, "log_level": 0})

    def give(self, topic: str, rights: dict[str, tuple[str, ...]]) -> None:
        """Allow so much, and nothing else."""
        self.take_all()
        rules = [self._rule(kind, topic, operation) for kind, operations in rights.items() for operation in operations]
        grant(self._admin, rules)

    def take_all(self) -> None:
        """Allow nothing, once the broker heeds it."""
        every = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{USER}", None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        while self._admin.describe_acls(every).result(PATIENCE_S):
            for taken in self._admin.delete_acls([every]).values():
                taken.result(PATIENCE_S)

    def _rule(self, kind: str, topic: str, operation: str) -> AclBinding:
        name, pattern = (
            (topic, ResourcePatternType.LITERAL) if kind == "topic" else (PREFIX, ResourcePatternType.PREFIXED)
        )
        return AclBinding(
            KINDS[kind], name, pattern, f"User:{USER}", "*", AclOperation[operation], AclPermissionType.ALLOW
        )


@pytest.fixture
def rights(secured: SecuredBroker) -> Iterator[Rights]:
    given = Rights(secured)
    yield given
    given.take_all()


@pytest.fixture
def topic(secured: SecuredBroker) -> str:
    name = f"rights-{token_hex(4)}"
    create_topic(KafkaSettings(secured.broker.bootstrap), name, 1)
    return name


def write(secured: SecuredBroker, topic: str, folder: Path) -> None:
    """Write five rows exactly once."""
    job = Job()
    rows = ps.read_memory([{"id": at} for at in range(5)], job=job).name("rows")
    rows.write_kafka(topic, kafka=secured.settings("SASL_SSL"), guarantee="exactly_once").name("out")
    job.run("writing", directory=folder / "job", checkpoint_dir=folder / "checkpoints", restarts=0)


@pytest.mark.parametrize(
    ("kind", "instead", "sentence"),
    [
        ("topic", (), "looking for topic 'TOPIC': .* denies it .* grant WRITE on the topic, and READ for .* by an ACL"),
        ("topic", ("READ",), "writing to topic 'TOPIC': .* denies it .* grant WRITE on the topic .* by an ACL"),
        pytest.param(
            "topic", ("WRITE",), "marker .* topic 'TOPIC': .* denies it .* grant READ on the topic .* by an ACL",
            marks=pytest.mark.long("waits until the client gives up; five other rights stay"),
        ),
        ("id", (), f"under {ID} .* grant WRITE and DESCRIBE on transactional ids with the prefix 'penstock-'"),
        ("id", ("DESCRIBE",), f"under {ID} .* grant WRITE .* on transactional ids with the prefix 'penstock-'"),
        pytest.param(
            "group", (), f"under {ID} .* grant READ and DESCRIBE on consumer groups, .* with the prefix 'penstock-'",
            marks=pytest.mark.long("waits until the client gives up; five other rights stay"),
        ),
        ("group", ("DESCRIBE",), f"under {ID} .* grant READ .* on consumer groups, .* with the prefix 'penstock-'"),
    ],
    ids=[
        "no topic", "topic not written", "topic not read", "no id", "id not written", "no group", "group not read",
    ],
)  # fmt: skip
def test_a_right_that_is_missing_is_named(
    secured: SecuredBroker,
    rights: Rights,
    topic: str,
    tmp_path: Path,
    kind: str,
    instead: tuple[str, ...],
    sentence: str,
) -> None:
    rights.give(topic, {**ENOUGH, kind: instead})
    with pytest.raises(UserError, match=sentence.replace("TOPIC", topic)) as refused:
        write(secured, topic, tmp_path)
    assert len(re.findall(r"grant ", str(refused.value))) == 1 and "\n" not in str(refused.value)
    assert ids_in(secured.broker.bootstrap, topic) == []


def test_with_these_rights_it_writes(secured: SecuredBroker, rights: Rights, topic: str, tmp_path: Path) -> None:
    rights.give(topic, ENOUGH)
    write(secured, topic, tmp_path)
    assert ids_in(secured.broker.bootstrap, topic) == [0, 1, 2, 3, 4]
