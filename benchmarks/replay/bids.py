"""Nexmark bids as JSON, the same bytes as messages of a topic and as lines of files. Called by `rate`."""

from collections.abc import Iterator
from pathlib import Path

from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.clients import make_producer
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.generator import SCHEMAS, generate
from penstock.engine.connectors.text.row_text import encode_rows
from penstock.model.errors import FatalError

PARTITIONS = 4
FIELDS = SCHEMAS["bid"]

_STEP = 50_000
_CLIENT = "penstock-bench"
_FULL_S, _ANSWER_S = 0.01, 60.0


def write_bids(bootstrap: str, topic: str, folder: Path, bids: int) -> dict[str, int]:
    """Write bids in turns into the partitions of a new topic, and into as many files of a folder.

    Return how many each partition has.
    """
    settings = KafkaSettings(bootstrap)
    create_topic(settings, topic, PARTITIONS)
    undelivered: list[object] = []
    producer = make_producer(settings, _CLIENT, lambda error: None, on_failure=undelivered.append)
    counts = [0] * PARTITIONS
    files = [(folder / f"bids-{partition}.jsonl").open("wb") for partition in range(PARTITIONS)]
    try:
        for turn, messages in enumerate(_messages(bids)):
            partition = turn % PARTITIONS
            for message in messages:
                while True:
                    try:
                        producer.produce(topic, message, partition=partition)
                        break
                    except BufferError:
                        producer.poll(_FULL_S)
            producer.poll(0)
            files[partition].write(b"\n".join([*messages, b""]))
            counts[partition] += len(messages)
    finally:
        for file in files:
            file.close()
    unsent = producer.flush(_ANSWER_S)
    if unsent or undelivered:
        raise FatalError(f"{unsent or len(undelivered):,} bids did not reach the topic: try again")
    return {f"{topic}/{partition}": count for partition, count in enumerate(counts)}


def _messages(bids: int) -> Iterator[list[bytes]]:
    config = NexmarkConfig()
    for first in range(0, bids, _STEP):
        yield encode_rows(generate(config, "bid", first, min(_STEP, bids - first)))
