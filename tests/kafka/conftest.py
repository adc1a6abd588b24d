"""A real Kafka broker for the tests here, one for all; never skipped: no broker is a failure.

``KAFKA_BOOTSTRAP`` names another one to use.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.dev.kafka_broker import BrokerError, LocalBroker
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics, is_ready
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.kafka.secured_broker import SecuredBroker, secured_broker
from tests.kafka.shared_broker import shared_broker

HERE = Path(__file__).parent
VARIABLE = "KAFKA_BOOTSTRAP"

MakeTopic = Callable[..., str]
"""``topic(partitions=1, **settings of the topic)`` creates one and returns its name."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have the tests here: they share a broker."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("kafka"))


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap address of a broker that serves."""
    other = os.environ.get(VARIABLE)
    if other:
        if not is_ready(other, 10.0):
            pytest.fail(f"no broker answers at {VARIABLE}={other}: start it, or unset the variable", pytrace=False)
        yield other
        return
    own = tmp_path_factory.getbasetemp()
    run = own.parent if hasattr(request.config, "workerinput") else own
    try:
        with shared_broker(run / "kafka") as address:
            yield address
    except BrokerError as error:
        pytest.fail(f"these tests need a Kafka broker: {error} {VARIABLE}=HOST:PORT uses another.", pytrace=False)


@pytest.fixture
def topic(kafka: str, request: pytest.FixtureRequest) -> Iterator[MakeTopic]:
    """Create topics with names of their own, which are deleted afterwards."""
    settings = KafkaSettings(kafka)
    made: list[str] = []

    def make(partitions: int = 1, **config: str) -> str:
        name = f"{request.node.originalname[:60]}-{secrets.token_hex(4)}"
        # Event times in tests are old, and the broker would delete such messages.
        given = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in config.items()}}
        create_topic(settings, name, partitions, given)
        made.append(name)
        return name

    yield make
    delete_topics(settings, made)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker of the test's own, which it may stop and kill; started."""
    broker = LocalBroker(tmp_path / "broker")
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with SSL, SASL_SSL and SASL_PLAINTEXT listeners, an authority and ACLs of its own."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker
