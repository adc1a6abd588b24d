"""The fetcher on a real broker: it holds what it may, and a reader that rests holds nobody else up."""

import threading
from collections.abc import Callable

from confluent_kafka import Producer

from penstock.engine.connectors.kafka.fetcher import Fetcher
from penstock.engine.connectors.kafka.messages import OVERHEAD_BYTES
from penstock.engine.connectors.kafka.settings import KafkaSettings

MakeTopic = Callable[..., str]
VALUE = b"x" * 1_000
MESSAGE_BYTES = len(VALUE) + OVERHEAD_BYTES


def test_queues_stay_bounded_and_a_resting_reader_starves_nobody(kafka: str, topic: MakeTopic) -> None:
    name = topic(2)
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(8_000):
        producer.produce(name, VALUE, partition=0)
        if not number % 1_000:
            producer.flush(20)
    for _ in range(3_000):
        producer.produce(name, VALUE, partition=1)
    assert producer.flush(20) == 0
    settings = KafkaSettings({"bootstrap.servers": kafka, "queued.max.messages.kbytes": 1_000})
    most = 1_000 * MESSAGE_BYTES
    fetcher = Fetcher(settings, "test", "test", most)
    resting, reading = fetcher.attach(name, 0, 0), fetcher.attach(name, 1, 0)
    pause = threading.Event()
    taken = 0
    greatest = 0
    try:
        for _ in range(2_000):
            messages = fetcher.queues.take(reading, 300, 1 << 20).messages
            taken += 0 if messages is None else len(messages)
            greatest = max(greatest, fetcher.queues.bytes)
            if taken == 3_000:
                break
            pause.wait(0.005)
        assert taken == 3_000
        pause.wait(0.3)
        assert greatest <= 2 * most + 500 * MESSAGE_BYTES
        assert most // 4 <= fetcher.queues.bytes <= 2 * most
        rest = 0
        for _ in range(4_000):
            messages = fetcher.queues.take(resting, 300, 1 << 20).messages
            rest += 0 if messages is None else len(messages)
            if rest == 8_000:
                break
            pause.wait(0.005)
        assert rest == 8_000
    finally:
        fetcher.detach(resting)
        fetcher.detach(reading)
    assert not any(thread.name == "penstock-kafka-fetch" for thread in threading.enumerate())
