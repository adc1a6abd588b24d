"""The proxy does to real clients of a real broker what it says."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.kafka.admin import create_topic, is_ready
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.chaos.link_shape import Shape
from tests.chaos.tcp_proxy import END_TXN, PRODUCE, TcpProxy, point_at, proxied_listener
from tests.kafka.reading import read_topic

PATIENCE_S = 30.0
LITTLE_S = 0.3


pytestmark = pytest.mark.long("the proxy of test_delayed_end_txn, which is long; test_request_errors has errors")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TcpProxy]:
    """A proxy that leads to a broker of its own, with a topic ``t``."""
    with TcpProxy() as made:
        folder = tmp_path_factory.mktemp("proxied")
        with LocalBroker(folder / "broker", listeners=[proxied_listener(made)]) as broker:
            create_topic(KafkaSettings(point_at(made, broker)), "t", 1)
            yield made


@pytest.fixture(autouse=True)
def healed(proxy: TcpProxy) -> Iterator[None]:
    yield
    proxy.heal()


def producer(proxy: TcpProxy, **settings: str) -> Producer:
    quick = {"reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "50", "linger.ms": "0", "log_level": "0"}
    return Producer({"bootstrap.servers": proxy.address, **quick, **settings})


def seconds_to_send(client: Producer, value: bytes) -> float:
    began = time.perf_counter()
    client.produce("t", value)
    assert client.flush(PATIENCE_S) == 0
    return time.perf_counter() - began


def test_clients_stay_behind_it(proxy: TcpProxy) -> None:
    client = producer(proxy)
    # The first one may come before the partition has its leader, and again.
    seconds_to_send(client, b"warm")
    before = proxy.requests[PRODUCE], proxy.transferred("requests")
    seconds_to_send(client, b"through" * 1_000)
    assert proxy.requests[PRODUCE] == before[0] + 1
    assert proxy.transferred("requests") > before[1] + 1_000 and proxy.transferred("answers")
    assert proxy.connections
    assert read_topic(proxy.address, "t")[-1].value == b"through" * 1_000


def test_it_delays_throttles_and_holds(proxy: TcpProxy) -> None:
    client = producer(proxy)
    seconds_to_send(client, b"warm")
    proxy.bend(Shape(delay_s=0.2))
    assert seconds_to_send(client, b"late") >= 0.4
    proxy.bend(Shape(loss=1.0, stall_s=(0.1, 0.1)))
    assert seconds_to_send(client, b"lost") >= 0.2
    proxy.bend(Shape(bytes_per_s=100_000))
    assert seconds_to_send(client, bytes(50_000)) >= 0.5
    proxy.bend(Shape())
    for direction in ("requests", "answers"):
        proxy.hold(direction)
        client.produce("t", direction.encode())
        assert client.flush(LITTLE_S) == 1
        proxy.release(direction)
        assert client.flush(PATIENCE_S) == 0


def test_it_breaks_connections(proxy: TcpProxy) -> None:
    client = producer(proxy)
    seconds_to_send(client, b"before")
    proxy.reset()
    seconds_to_send(client, b"after a reset")
    proxy.cut()
    assert not is_ready(proxy.address, LITTLE_S)
    client.produce("t", b"after a cut")
    assert client.flush(LITTLE_S) == 1 and not proxy.connections
    proxy.heal()
    assert client.flush(PATIENCE_S) == 0
    assert read_topic(proxy.address, "t")[-1].value == b"after a cut"


@pytest.mark.parametrize("what", ["request", "answer"])
def test_it_keeps_one_request_or_its_answer(proxy: TcpProxy, what: str) -> None:
    client = producer(proxy, **{"transactional.id": what})
    client.init_transactions(PATIENCE_S)
    client.begin_transaction()
    seconds_to_send(client, what.encode())
    held = proxy.hold_next(END_TXN, 60.0, what)
    with pytest.raises(KafkaException):
        client.commit_transaction(1.0)
    assert held.caught.is_set() and not held.passed.is_set()
    committed = [message.value for message in read_topic(proxy.target, "t")] if what == "answer" else []
    assert (what.encode() in committed) == (what == "answer")
    proxy.let_go(held)
    client.commit_transaction(PATIENCE_S)
    assert held.passed.wait(1.0)
    assert read_topic(proxy.address, "t")[-1].value == what.encode()
