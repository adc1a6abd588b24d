"""Nexmark bids as JSON, the same bytes as messages of a topic and as lines of files. Called by `rate`."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from penstock.benchmarks.nexmark.topic import EventTopic, send
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.generator import SCHEMAS, generate
from penstock.engine.connectors.text.row_text import encode_rows

PARTITIONS = 4
FIELDS = SCHEMAS["bid"]

_STEP = 50_000


def write_bids(bootstrap: str, topic: str, folder: Path, bids: int) -> dict[str, int]:
    """Write bids in turns into the partitions of a new topic, and into as many files of a folder.

    Return how many each partition has.

    Raises:
        FatalError: Kafka has not taken all of them.
    """
    create_topic(KafkaSettings(bootstrap), topic, PARTITIONS)
    counts = [0] * PARTITIONS
    with ExitStack() as stack:
        paths = [folder / f"bids-{partition}.jsonl" for partition in range(PARTITIONS)]
        files = [stack.enter_context(path.open("wb")) for path in paths]

        def batches() -> Iterator[Iterator[tuple[int, bytes]]]:
            for turn, first in enumerate(range(0, bids, _STEP)):
                partition = turn % PARTITIONS
                messages = encode_rows(generate(NexmarkConfig(), "bid", first, min(_STEP, bids - first)))
                files[partition].write(b"\n".join([*messages, b""]))
                counts[partition] += len(messages)
                yield ((partition, message) for message in messages)

        send(EventTopic(bootstrap, topic), batches())
    return {f"{topic}/{partition}": count for partition, count in enumerate(counts)}
