"""What runs of the pipeline on Kafka write, read by a plain consumer of committed messages, and what they must write.

Called by `kafka_attacks` and the tests.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa

from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.peers.runner import answer
from penstock.chaos.compared_outputs import Outputs, Rows
from penstock.chaos.experiment import ChaosError
from penstock.dsl.job import Job
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topic_places import LATEST, TopicPlace, look_up
from penstock.engine.connectors.text.row_text import encode_rows
from penstock.model.job_graph import SinkSpec

PARTITIONS = 3
KEEP = {"retention.ms": "-1"}
"""Event times of 2015 are timestamps that a broker's usual retention of a week would delete at once."""

MARKERS_S = 90.0
UNCOMMITTED = "read_uncommitted"


class TopicOutputs(Outputs):
    """Every run writes a topic of its own, which is created for it."""

    def __init__(self, bootstrap: str) -> None:
        """Create nothing yet."""
        self.topics: dict[Path, str] = {}
        self._settings = KafkaSettings(bootstrap)
        self._prefix = f"out-{token_hex(4)}"

    def options(self, folder: Path) -> Sequence[str]:
        """Ask for checkpoints: there is no writing exactly once without them."""
        return [f"--checkpoint-dir={folder / 'checkpoints'}"]

    def arguments(self, folder: Path) -> Sequence[str]:
        """Name the topic and the job's directory."""
        from penstock.engine.connectors.kafka.admin import create_topic

        if folder not in self.topics:
            create_topic(self._settings, f"{self._prefix}-{folder.name}", PARTITIONS, KEEP)
            self.topics[folder] = f"{self._prefix}-{folder.name}"
        return [self.topics[folder], str(folder / "job")]

    def read(self, folder: Path, name: str, sink: SinkSpec) -> Rows:
        """Return what is committed in the run's topic."""
        return committed_rows(sink.mode, committed_messages(self._settings, self.topics[folder], PARTITIONS))

    def close(self) -> None:
        """Delete the topics."""
        from penstock.engine.connectors.kafka.admin import delete_topics

        delete_topics(self._settings, self.topics.values())
        self.topics.clear()


def committed_messages(
    settings: KafkaSettings, topic: str, partitions: int
) -> Sequence[tuple[bytes | None, bytes | None]]:
    """Return keys and values of all committed messages, in the order of each partition; no transaction is open.

    Raises:
        ChaosError: a transaction is still open after `MARKERS_S`.
    """
    from penstock.engine.connectors.kafka.letter_reading import LetterReader

    _await_markers(settings, topic, partitions)
    with closing(LetterReader(settings, topic)) as reader:
        found = [message for block in reader.blocks(reader.bounds) for message in block]
    found.sort(key=lambda message: (message.partition, message.offset))
    return [(message.key, message.value) for message in found]


def _await_markers(settings: KafkaSettings, topic: str, partitions: int) -> None:
    """Wait until all that was written may be read: brokers mark transactions after they say they are committed."""
    from penstock.engine.connectors.kafka.clients import make_admin

    everything = KafkaSettings({"bootstrap.servers": settings.bootstrap, "isolation.level": UNCOMMITTED})
    admin = make_admin(settings, "penstock-chaos")
    ends = {f"{topic}/{number}": TopicPlace(name=LATEST) for number in range(partitions)}
    until = time.monotonic() + MARKERS_S
    while look_up(admin, settings, ends) != look_up(admin, everything, ends):
        if time.monotonic() > until:
            raise ChaosError(f"a transaction in {topic!r} is still open after {MARKERS_S:.0f} s")
        time.sleep(0.05)


def committed_rows(mode: str, messages: Sequence[tuple[bytes | None, bytes | None]]) -> Rows:
    """Return the rows that keys and values, in the order of each partition, come to when they are written in a mode."""
    if mode == "upsert":
        last: dict[bytes | None, bytes] = {}
        for key, value in messages:
            if value is None:
                last.pop(key, None)
            else:
                last[key] = value
        return Counter(map(_plain, last.values()))
    if mode == "append":
        return Counter(_plain(value or b"null") for _, value in messages)
    weights: Rows = Counter()
    for _, value in messages:
        row = json.loads(value or b"null")
        weight = row.pop("weight")
        weights[json.dumps(row).encode()] += weight
    standing = +weights
    for row, weight in (-weights).items():
        standing[b"retracted too often: " + row] = weight
    return standing


def oracle_rows(query: str, directory: Path) -> Rows:
    """Return the rows of DuckDB's answer over a data set, as `committed_rows` does."""
    table = pa.Table.from_batches(answer("duckdb", query, directory))
    return table_rows(query, directory, table)


def table_rows(query: str, directory: Path, table: pa.Table) -> Rows:
    """Return an answer's rows as messages have them."""
    schema: Any = load(query)(Events(Job(), directory)).schema
    plain = pa.schema([pa.field(field.name, field.type) for field in schema])
    return Counter(_plain(row) for batch in table.cast(plain).to_batches() for row in encode_rows(batch))


def _plain(value: bytes) -> bytes:
    return json.dumps(json.loads(value)).encode()
