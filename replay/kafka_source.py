"""Kafka in Spark without a jar: exact ranges of offsets, read by workers of Python (docs/design/replay.md 3).

Rows are made by the reader and the decoders of the stream's own source; a task reads one slice and ends by position
(docs/design/kafka.md 2). Secrets travel as references and are looked up where the reading is done. Called by
`kafka_reading`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.connectors.kafka.cluster import Cluster
from penstock.engine.connectors.kafka.reader import KafkaPosition, KafkaReader
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topic_places import EARLIEST, TopicPlace
from penstock.engine.connectors.kafka.topics import parse_topics, partition_name
from penstock.engine.core.clock import SystemClock
from penstock.model.connectors import RawRecord
from penstock.model.errors import RetryableError, UserError
from penstock.replay.kafka_batches import scan_batch, scan_schema
from penstock.replay.kafka_slices import Slice
from penstock.replay.row_sampling import SampledRowMaker
from penstock.replay.slices_source import UnsendableError, scan
from penstock.replay.spark_types import spark_schema

__all__ = ["PATIENCE_S", "TopicScan", "scan_topics"]

BATCH_ROWS = 32_768
PATIENCE_S = 60.0
"""Time that a task waits without any message before it fails, for Spark to try it again."""

_PAUSE_S, _RETRY_S = 0.002, 0.5
_READ_AHEAD: Mapping[str, Any] = {"queued.max.messages.kbytes": 8_192}
"""A slice ends soon, and what was fetched behind its end was for nothing."""


@dataclass(frozen=True)
class TopicScan:
    """One scan, as it is sent to the workers. ``topic_ids`` are those of the topics that are meant."""

    settings: KafkaSettings
    maker: RowMaker
    slices: tuple[Slice, ...]
    topic_ids: Mapping[str, str | None]
    errors: bool = False

    def read(self, piece: Slice) -> Iterator[pa.RecordBatch]:
        """Read one slice, in a worker.

        Raises:
            UserError: messages are gone, the topic is another one now, or the cluster refuses.
            RetryableError: the cluster did not answer for too long.
        """
        fields = self.maker.schema
        settings = self.settings.with_defaults(_READ_AHEAD)
        cluster = Cluster(settings, parse_topics(piece.topic), TopicPlace(name=EARLIEST), None)
        name, topic_id = partition_name(piece.topic, piece.partition), self.topic_ids.get(piece.topic)
        maker = self.maker.begun() if isinstance(self.maker, SampledRowMaker) else self.maker
        if isinstance(maker, SampledRowMaker) and piece.lead is not None and piece.lead < piece.start:
            lead = replace(piece, start=piece.lead, stop=piece.start, skip=0, most=None)
            reader = cluster.open(name, KafkaPosition(lead.start, 0, topic_id), maker.looking_only(), lead.stop)
            try:
                for _ in _reads(reader, lead):
                    pass
            finally:
                reader.close()
        reader = cluster.open(name, KafkaPosition(piece.start, piece.skip, topic_id), maker, piece.stop)
        try:
            for rows, rejected in _reads(reader, piece):
                batch = scan_batch(rows, [record.error for record in rejected], fields, errors=self.errors)
                if batch is not None:
                    yield batch
        finally:
            reader.close()


def scan_topics(session: SparkSession, reading: TopicScan) -> DataFrame:
    """Return what the slices have, a task each; nothing is read yet.

    Raises:
        UserError: a decoder of the user's cannot be sent to workers.
    """
    columns = spark_schema(scan_schema(reading.maker.schema, errors=reading.errors))
    try:
        return scan(session, reading, columns, reading.slices)
    except UnsendableError as error:
        raise UserError(
            f"what reads the messages cannot be sent to Spark's workers ({error}): define its classes in a module that "
            "workers can import"
        ) from error


def _reads(reader: KafkaReader, piece: Slice) -> Iterator[tuple[pa.RecordBatch | None, Sequence[RawRecord]]]:
    """Yield rows and what cannot be read, until the slice is over."""
    patience, left = _Patience(piece), piece.most
    while left is None or left > 0:
        try:
            read = reader.read(BATCH_ROWS)
        except RetryableError as error:
            patience.wait(error)
            continue
        rows = read.rows if left is None or read.rows is None else read.rows.slice(0, left)
        if rows is not None or read.rejected or read.skipped:
            patience.begin_again()
            yield rows, read.rejected
        elif not read.ended:
            patience.wait()
        if read.ended:
            return
        if left is not None and rows is not None:
            left -= rows.num_rows


class _Patience:
    """Waits for what is to come of a slice, for a while."""

    def __init__(self, piece: Slice) -> None:
        self._piece = piece
        self._clock, self._pause = SystemClock(), threading.Event()
        self.begin_again()

    def begin_again(self) -> None:
        """Something came."""
        self._since_ns = self._clock.monotonic_ns()

    def wait(self, why: RetryableError | None = None) -> None:
        """Wait for a moment; raise ``why``, or that nothing came, if that has gone on for too long."""
        if self._clock.monotonic_ns() - self._since_ns > PATIENCE_S * 1e9:
            raise why or RetryableError(
                f"nothing came of partition {partition_name(self._piece.topic, self._piece.partition)!r} between "
                f"offsets {self._piece.start} and {self._piece.stop} for {PATIENCE_S:.0f} s: check that its broker "
                "answers"
            )
        self._pause.wait(_PAUSE_S if why is None else _RETRY_S)
