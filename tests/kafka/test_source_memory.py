"""The fetcher on a real broker: it holds what it may, and a reader that rests holds nobody else up."""

import threading
import time
from collections.abc import Callable

from confluent_kafka import Producer

from penstock.engine.connectors.kafka.fetcher import Fetcher
from penstock.engine.connectors.kafka.messages import OVERHEAD_BYTES
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.contracts.executors.metered import LONG_S, until

MakeTopic = Callable[..., str]
VALUE = b"x" * 1_000
MESSAGE_BYTES = len(VALUE) + OVERHEAD_BYTES


def test_queues_stay_bounded_and_a_resting_reader_starves_nobody(kafka: str, topic: MakeTopic) -> None:
    name = topic(2)
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(8_000):
        producer.produce(name, VALUE, partition=0)
        if not number % 1_000:
            producer.flush(60)
    for _ in range(3_000):
        producer.produce(name, VALUE, partition=1)
    assert producer.flush(60) == 0
    settings = KafkaSettings({"bootstrap.servers": kafka, "queued.max.messages.kbytes": 1_000})
    most = 1_000 * MESSAGE_BYTES
    fetcher = Fetcher(settings, "test", "test", most)
    resting, reading = fetcher.attach(name, 0, 0), fetcher.attach(name, 1, 0)
    pause = threading.Event()
    taken = 0
    greatest = 0
    try:
        until_s = time.monotonic() + LONG_S
        while taken < 3_000:
            assert time.monotonic() < until_s
            messages = fetcher.queues.take(reading, 300, 1 << 20).messages
            taken += 0 if messages is None else len(messages)
            greatest = max(greatest, fetcher.queues.bytes)
            pause.wait(0.005)
        assert taken == 3_000
        assert greatest <= 2 * most + 500 * MESSAGE_BYTES
        until(lambda: fetcher.queues.bytes >= most // 4)
        # What more may come comes meanwhile.
        pause.wait(0.3)
        assert most // 4 <= fetcher.queues.bytes <= 2 * most
        rest = 0
        until_s = time.monotonic() + LONG_S
        while rest < 8_000:
            assert time.monotonic() < until_s
            messages = fetcher.queues.take(resting, 300, 1 << 20).messages
            rest += 0 if messages is None else len(messages)
            pause.wait(0.005)
        assert rest == 8_000
    finally:
        fetcher.detach(resting)
        fetcher.detach(reading)
    assert not any(thread.name == "penstock-kafka-fetch" for thread in threading.enumerate())
