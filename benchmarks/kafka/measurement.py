"""One measurement of the Kafka benchmark, in a process of its own: prints what it counted and took as one JSON line.

Started by `bench`. CPU time is that of all threads of the process, without start and warm-up.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from penstock.benchmarks.nexmark.messages import NexmarkValues, event_messages
from penstock.benchmarks.nexmark.run import run_query
from penstock.benchmarks.nexmark.topic import EventTopic, parse_address
from penstock.engine.connectors.nexmark.generator import SCHEMAS, NexmarkConfig
from penstock.engine.connectors.text.json_decode import JsonDecoder

CONSUMER, DECODER, GENERAL = "consumer", "decoder", "pyarrow"
"""Measurements beside queries: a consumer that only counts, our decoder, and pyarrow's on the same fields."""

Q0_FIELDS = ("auction", "bidder", "price", "dateTime", "extra")
_DECODED_MESSAGES = 400_000
_BATCH = 16_384
_TAKEN = 500
_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class ConsumerMeasurement:
    """Counts of one process: seconds of its CPU time, and by the clock."""

    messages: int
    cpu_s: float
    wall_s: float


class _Watch:
    """Tells the time since `start`."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def stop(self, messages: int) -> ConsumerMeasurement:
        return ConsumerMeasurement(messages, time.process_time() - self._cpu, time.perf_counter() - self._wall)


def measure(what: str, topic: EventTopic) -> ConsumerMeasurement:
    """Measure a query, or one of `CONSUMER`, `DECODER`, `GENERAL`, on a topic or messages like its."""
    others: dict[str, Callable[[], ConsumerMeasurement]] = {
        CONSUMER: lambda: _consume(topic),
        DECODER: lambda: _decode(_by_shape()),
        GENERAL: lambda: _decode(_by_pyarrow()),
    }
    return others[what]() if what in others else _query(what, topic)


def _query(name: str, topic: EventTopic) -> ConsumerMeasurement:
    watch = _Watch()
    result = run_query(name, topic, wait=watch.start)
    return watch.stop(result.events)


def _consume(topic: EventTopic) -> ConsumerMeasurement:
    """Count the messages of a topic with a consumer of the source's settings."""
    from confluent_kafka import KafkaError, TopicPartition

    from penstock.engine.connectors.kafka.clients import make_consumer
    from penstock.engine.connectors.kafka.settings import KafkaSettings
    from penstock.engine.connectors.kafka.topics import partition_name

    partitions = range(len(topic.bounded().until))
    assert set(topic.bounded().until) == {partition_name(topic.topic, partition) for partition in partitions}
    consumer = make_consumer(KafkaSettings(topic.bootstrap), "penstock-bench", "penstock-bench", lambda error: None)
    watch = _Watch()
    consumer.assign([TopicPartition(topic.topic, partition, 0) for partition in partitions])
    count, ended = 0, 0
    while ended < len(partitions):
        for message in consumer.consume(_TAKEN, _WAIT_S):
            error = message.error()
            if error is None:
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
    measured = watch.stop(count)
    consumer.close()
    return measured


def _decode(decode: Callable[[Sequence[bytes]], int]) -> ConsumerMeasurement:
    """Decode messages as they come from a generator, in batches."""
    messages = event_messages(NexmarkConfig(events=_DECODED_MESSAGES), 0, _DECODED_MESSAGES).to_pylist()
    batches = [messages[first : first + _BATCH] for first in range(0, len(messages), _BATCH)]
    decode(batches[0])
    watch = _Watch()
    return watch.stop(sum(decode(batch) for batch in batches))


def _by_shape() -> Callable[[Sequence[bytes]], int]:
    decoder = NexmarkValues(("dateTime", *(f"bid_{name}" for name in Q0_FIELDS if name != "dateTime")))
    return lambda messages: decoder.decode(messages).rows.num_rows


def _by_pyarrow() -> Callable[[Sequence[bytes]], int]:
    bid = pa.struct([SCHEMAS["bid"].field(name) for name in Q0_FIELDS])
    decoder = JsonDecoder(pa.schema([pa.field("event_type", pa.int64()), pa.field("bid", bid)]))

    def decode(messages: Sequence[bytes]) -> int:
        rows = decoder.decode_framed(b"\n".join([*messages, b""]), len(messages))
        assert rows is not None
        return len(messages)

    return decode


def main(argv: Sequence[str]) -> int:
    """Measure ``argv[0]`` on the topic at ``argv[1]``."""
    what, address = argv
    print(json.dumps(asdict(measure(what, parse_address(address)))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
