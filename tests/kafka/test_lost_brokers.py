"""Clients that have lost all brokers for good get successors, which go on where they were; on a real broker."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException

from penstock.engine.connectors.kafka.fetcher import Fetcher
from penstock.engine.connectors.kafka.letters import messages_of
from penstock.engine.connectors.kafka.lost_brokers import BrokerWatch
from penstock.engine.connectors.kafka.messenger import Messenger
from penstock.engine.connectors.kafka.queues import PartitionQueue
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.kafka.reading import Message, read_topic
from tests.kafka.test_source import produce

MakeTopic = Callable[..., str]

NO_BROKER = '{"name": "p", "type": "producer", "msg_cnt": 1, "brokers": {}, "topics": {}}'
PLACES_ONLY = '{"brokers": {":0/internal": {"source": "internal"}, "GroupCoordinator": {"source": "logical"}}}'
KNOWN = '{"brokers": {"b:9092/1": {"source": "learned", "nodeid": 1}}}'
NAMED = '{"brokers": {"b:9092/bootstrap": {"source": "configured"}}}'


def test_a_client_is_lost_that_knows_no_broker_twice_in_a_row() -> None:
    for none in (NO_BROKER, PLACES_ONLY):
        for one in (KNOWN, NAMED):
            watch = BrokerWatch()
            heard = []
            for statistics in (one, none, one, none, none, none):
                watch.hear(statistics)
                heard.append(watch.has_none)
            assert heard == [False, False, False, False, True, True]


def lose(watch: BrokerWatch) -> None:
    """Say what a client says that a cluster has left without brokers."""
    for _ in range(2):
        watch.hear(NO_BROKER)


def waiting(kafka: str, topic: str, transactional_id: str | None = None) -> Messenger:
    """Return a messenger with five messages that wait for more before they leave."""
    messenger = Messenger(
        KafkaSettings({"bootstrap.servers": kafka, "linger.ms": 50_000}), topic, "m", transactional_id
    )
    if transactional_id is not None:
        messenger.producer.init_transactions(30.0)
        messenger.producer.begin_transaction()
    messenger.put(
        messages_of(
            [b"k"] * 5,
            [b"%d" % number for number in range(4)] + [None],
            [1_000 + number for number in range(5)],
            [[("h", b"%d" % number), ("h", None)] if number % 2 else [] for number in range(5)],
        )
    )
    return messenger


def test_what_was_not_delivered_is_sent_by_the_next_client_in_order(kafka: str, topic: MakeTopic) -> None:
    name = topic()
    messenger = waiting(kafka, name)
    first = messenger.producer
    lose(messenger._watch)
    left = messenger.outstanding()
    assert left is not None and left.left == 5
    assert messenger.producer is not first
    messenger.flush()
    messenger.close()
    assert read_topic(kafka, name) == [
        Message(
            b"k",
            b"%d" % number if number < 4 else None,
            0,
            1_000 + number,
            (("h", b"%d" % number), ("h", None)) if number % 2 else (),
        )
        for number in range(5)
    ]


@pytest.mark.parametrize("losses", [1, 3])
def test_a_full_queue_is_handed_over_again_before_what_follows(kafka: str, topic: MakeTopic, losses: int) -> None:
    name, rows = topic(), 200
    settings = {"bootstrap.servers": kafka, "queue.buffering.max.messages": 7, "linger.ms": 50}
    messenger = Messenger(KafkaSettings(settings), name, "m")
    lost = 0
    for first in range(0, rows, 20):
        numbers = range(first, first + 20)
        for _ in messenger.handing_over(
            messages_of([b"k"] * 20, [b"%d" % number for number in numbers], [None] * 20, [()] * 20)
        ):
            if lost < losses and first >= 40 * (lost + 1):
                lose(messenger._watch)
                lost += 1
            left = messenger.outstanding()
            assert left is not None and 0 <= left.arrived <= first + 20 + 40 * lost
            messenger.wait_for_room()
    assert lost == losses
    while messenger.outstanding() is not None:
        time.sleep(0.001)
    messenger.close()
    values = [int(message.value or b"") for message in read_topic(kafka, name)]
    assert list(dict.fromkeys(values)) == list(range(rows))
    assert rows <= len(values) <= rows + 27 * losses


def test_a_transaction_is_given_up_with_its_client(kafka: str, topic: MakeTopic) -> None:
    messenger = waiting(kafka, topic(), "lost")
    lose(messenger._watch)
    with pytest.raises(KafkaException, match="knows no broker"):
        messenger.flush()
    messenger.abandon()


def test_reading_goes_on_where_it_was(kafka: str, topic: MakeTopic) -> None:
    name = topic(2)
    for partition in (0, 1):
        produce(kafka, name, list(range(100)), partition)
    fetcher = Fetcher(KafkaSettings(kafka), "lost", "lost")
    # Nothing is there yet of the second one from where it begins.
    queues = [fetcher.attach(name, 0, 40), fetcher.attach(name, 1, 100)]
    try:
        offsets = taken(queues[0], fetcher, 60)
        consumer = fetcher._consumer
        lose(fetcher._watch)
        while fetcher._consumer is consumer or not fetcher.reachable:
            time.sleep(0.01)
        for partition in (0, 1):
            produce(kafka, name, list(range(50)), partition)
        offsets += taken(queues[0], fetcher, 50)
        assert offsets == list(range(40, 150))
        assert taken(queues[1], fetcher, 50) == list(range(100, 150))
    finally:
        for queue in queues:
            fetcher.detach(queue)


def taken(queue: PartitionQueue, fetcher: Fetcher, count: int) -> list[int]:
    offsets: list[int] = []
    while len(offsets) < count:
        part = fetcher.queues.take(queue, count, 1 << 20).messages
        offsets += [] if part is None else part.offsets.tolist()
    return offsets
