"""Clients that have lost all brokers for good get successors, which go on where they were; on a real broker."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaException

from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.kafka import lost_brokers
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.fetcher import Fetcher
from penstock.engine.connectors.kafka.lasting_messenger import LastingMessenger
from penstock.engine.connectors.kafka.letters import messages_of
from penstock.engine.connectors.kafka.lost_brokers import ASK_NS, MISSES, BrokerWatch, has_broker
from penstock.engine.connectors.kafka.messenger import Messenger
from penstock.engine.connectors.kafka.queues import PartitionQueue
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.contracts.executors.metered import until
from tests.kafka.reading import Message, read_topic
from tests.kafka.test_source import produce


def test_a_client_is_lost_that_has_no_broker_and_does_not_say_why() -> None:
    watch = BrokerWatch(0)
    assert not watch.is_due(ASK_NS - 1)
    assert watch.is_due(ASK_NS) and not watch.is_due(ASK_NS + 1) and watch.is_due(2 * ASK_NS)
    for _ in range(2):
        for _ in range(MISSES - 1):
            watch.miss()
        assert not watch.is_lost
        watch.hear(3 * ASK_NS)
    assert not watch.is_due(4 * ASK_NS - 1) and watch.is_due(4 * ASK_NS)
    for _ in range(MISSES):
        watch.miss()
    assert watch.is_lost


def test_a_client_has_a_broker_while_one_answers(own_broker: LocalBroker) -> None:
    messenger = Messenger(KafkaSettings(own_broker.bootstrap), made(own_broker), "m")
    until(lambda: has_broker(messenger.producer, "lost"))
    own_broker.kill()
    until(lambda: not has_broker(messenger.producer, "lost"))
    own_broker.start()
    until(lambda: has_broker(messenger.producer, "lost"))
    messenger.abandon()


@contextmanager
def in_haste() -> Iterator[None]:
    """Let every client count as lost that has no broker, whatever it says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lost_brokers, "ASK_NS", 0)
        patch.setattr(lost_brokers, "MISSES", 1)
        yield


def made(broker: LocalBroker, partitions: int = 1) -> str:
    create_topic(KafkaSettings(broker.bootstrap), "lost", partitions)
    return "lost"


def numbered(numbers: Sequence[int]) -> list[Message]:
    return [
        Message(b"k", b"%d" % number, 0, 1_000 + number, (("h", b"1"), ("h", None)) if number % 2 else ())
        for number in numbers
    ]


def put(messenger: Messenger, numbers: Sequence[int], keep_up: Callable[[], None] = lambda: None) -> None:
    rows = numbered(numbers)
    columns = ([row.key for row in rows], [row.value for row in rows], [row.timestamp for row in rows])
    for _ in messenger.handing_over(messages_of(*columns, [row.headers for row in rows])):
        keep_up()
        messenger.wait_for_room()


def successor(messenger: Messenger) -> Callable[[], bool]:
    """Return what says whether the messenger has another client than now, asking for what is outstanding."""
    first = messenger.producer
    return lambda: messenger.outstanding() is not None and messenger.producer is not first


def test_what_was_not_delivered_is_sent_by_the_next_client(own_broker: LocalBroker) -> None:
    messenger = LastingMessenger(KafkaSettings(own_broker.bootstrap), made(own_broker), "m")
    put(messenger, range(5))
    messenger.flush()
    own_broker.kill()
    for first in (5, 10):
        put(messenger, range(first, first + 5))
        with in_haste():
            until(successor(messenger))
    left = messenger.outstanding()
    # News of the client count as well.
    assert left is not None and left.left >= 10 and left.arrived <= 5
    own_broker.start()
    messenger.flush()
    assert messenger.outstanding() is None
    messenger.close()
    assert read_topic(own_broker.bootstrap, "lost") == numbered(range(15))


def test_a_full_queue_is_sent_again_before_what_follows(own_broker: LocalBroker) -> None:
    settings = KafkaSettings({"bootstrap.servers": own_broker.bootstrap, "queue.buffering.max.messages": 7})
    messenger = LastingMessenger(settings, made(own_broker), "m")
    lost = 0

    def lose() -> None:
        nonlocal lost
        if own_broker.running and first >= 40 * (lost + 1) and lost < 2:
            lost += 1
            own_broker.kill()
            for _ in range(2):
                with in_haste():
                    until(successor(messenger))
            own_broker.start()
        left = messenger.outstanding()
        assert left is None or left.arrived >= 0

    for first in range(0, 200, 20):
        put(messenger, range(first, first + 20), lose)
    assert lost == 2
    messenger.flush()
    messenger.close()
    values = [int(message.value or b"") for message in read_topic(own_broker.bootstrap, "lost")]
    # Each is there, and of two the later one comes last.
    assert list(dict.fromkeys(values)) == list(dict.fromkeys(reversed(values)))[::-1] == list(range(200))


def test_a_transaction_is_given_up_with_its_client(own_broker: LocalBroker) -> None:
    messenger = Messenger(KafkaSettings(own_broker.bootstrap), made(own_broker), "m", "lost")
    messenger.producer.init_transactions(60.0)
    messenger.producer.begin_transaction()
    own_broker.kill()
    put(messenger, range(5))
    with in_haste(), pytest.raises(KafkaException, match="knows no broker"):
        messenger.flush()
    messenger.abandon()


def test_reading_goes_on_where_it_was(own_broker: LocalBroker) -> None:
    kafka, name = own_broker.bootstrap, made(own_broker, 2)
    for partition in (0, 1):
        produce(kafka, name, list(range(100)), partition)
    fetcher = Fetcher(KafkaSettings(kafka), "lost", "lost")
    # Nothing is there yet of the second one from where it begins.
    queues = [fetcher.attach(name, 0, 40), fetcher.attach(name, 1, 100)]
    try:
        offsets = taken(queues[0], fetcher, 60)
        own_broker.kill()
        for _ in range(2):
            with in_haste():
                until(reopened(fetcher))
        own_broker.start()
        for partition in (0, 1):
            produce(kafka, name, list(range(50)), partition)
        offsets += taken(queues[0], fetcher, 50)
        assert offsets == list(range(40, 150))
        assert taken(queues[1], fetcher, 50) == list(range(100, 150))
        assert fetcher.reachable
    finally:
        for queue in queues:
            fetcher.detach(queue)


def reopened(fetcher: Fetcher) -> Callable[[], bool]:
    """Return what says whether the fetcher has another client than now."""
    first = fetcher._consumer
    return lambda: fetcher._consumer is not first


def taken(queue: PartitionQueue, fetcher: Fetcher, count: int) -> list[int]:
    offsets: list[int] = []

    def take() -> bool:
        part = fetcher.queues.take(queue, count, 1 << 20).messages
        offsets.extend([] if part is None else part.offsets.tolist())
        return len(offsets) >= count

    until(take)
    return offsets
