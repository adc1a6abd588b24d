"""Corrections as messages: rows in the format of a sink with headers of ours, sent in one transaction.

Called by `correction`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.engine.connectors.kafka.clients import error_of
from penstock.engine.connectors.kafka.encoded import MESSAGES, MessageEncoder
from penstock.engine.connectors.kafka.messenger import Messenger
from penstock.engine.connectors.kafka.producing import sending_failure
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.engine.operators.sink import sink_schema
from penstock.model.errors import RetryableError
from penstock.model.job_graph import SinkSpec
from penstock.model.schema import StreamSchema
from penstock.replay.comparison import STATUS
from penstock.replay.correction_headers import RETRACT, Headers
from penstock.replay.pending_corrections import CHANGE
from penstock.replay.spark_types import from_spark_batch, quoted_name
from penstock.replay.topic_formats import KEY

CLIENT = "penstock-validate"
"""Client ids and transactional ids begin with it."""

CALL_S = 30.0
"""Time limit for the cluster to begin or to end a transaction."""

AT_ONCE = 50_000
"""So many messages, about, are fetched from Spark at a time."""

_DEFAULT_MESSAGE_BYTES = 1_000_000


class CorrectionEncoder:
    """Turns rows to correct, as `pending_corrections.correction_changes` has them, into messages.

    They are written under the time of being sent: what a topic keeps for a week, it is to keep from now on.
    """

    def __init__(self, spec: SinkSpec, schema: StreamSchema, topic: str, about: Headers) -> None:
        """``schema`` is that of the rows that the sink gets."""
        sink = spec.sink
        assert isinstance(sink, KafkaSink)
        self._mode, self._fields, self._about = spec.mode, schema.fields, about
        self._encoder = MessageEncoder(
            sink_schema(spec, schema),
            # Upserts come with their keys: those of the messages that are wrong, whatever their values say.
            replace(sink.layout, timestamp=None, key=() if spec.mode == "upsert" else sink.layout.key),
            sink.format.make,
            alone=sink.format.alone,
            limit_bytes=int(sink.settings.producer(CLIENT).get("message.max.bytes", _DEFAULT_MESSAGE_BYTES)),
            where=f"topic {topic!r}",
        )

    def encode(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """Return a message for each row, in `MESSAGES`.

        Raises:
            BadRecordError: one is larger than may be.
        """
        changes = given.column(CHANGE).to_pylist()
        retracted = np.array([change == RETRACT for change in changes], np.bool_)
        rows = from_spark_batch(given.select(self._fields.names), self._fields)
        if self._mode == "changelog":
            weights = pa.array(np.where(retracted, -1, 1).astype(np.int8))
            rows = rows.append_column(pa.field("weight", pa.int8(), nullable=False), weights)
        elif self._mode == "upsert":
            rows = rows.append_column(pa.field("deleted", pa.bool_(), nullable=False), pa.array(retracted))
        messages = self._encoder.encode(rows)
        headers = [
            [*(fixed or ()), *({"key": name, "value": value} for name, value in self._about.all(status, change))]
            for fixed, status, change in zip(
                messages.column("headers").to_pylist(), given.column(STATUS).to_pylist(), changes, strict=True
            )
        ]
        keys = given.column(KEY) if self._mode == "upsert" else messages.column("key")
        columns = [keys, *messages.columns[1:-1], pa.array(headers, MESSAGES.field("headers").type)]
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)


def pieces(rows: DataFrame, by: Sequence[str], count: int) -> Iterator[pa.RecordBatch]:
    """Fetch rows from Spark, about `AT_ONCE` of ``count`` at a time; of rows alike ``by`` columns retractions first."""
    parts = -(-count // AT_ONCE)
    part = f.pmod(f.hash(*(f.col(quoted_name(name)) for name in by)), f.lit(parts))
    for number in range(parts):
        some = rows.where(part == number) if parts > 1 else rows
        yield from some.orderBy(f.col(CHANGE) == RETRACT, ascending=False).toArrow().to_batches()


@contextmanager
def sending(settings: KafkaSettings, topic: str) -> Iterator[Messenger]:
    """Open a producer that no other validation shares; what it has not committed in the end is never read.

    Raises:
        RetryableError: another one took its place, or the cluster does not answer.
        UserError: the cluster refuses.
    """
    messenger = Messenger(settings, topic, CLIENT, f"{CLIENT}-{topic}")
    try:
        messenger.producer.init_transactions(CALL_S)
        yield messenger
    except KafkaException as error:
        reason = error_of(error)
        if reason.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            raise RetryableError(
                f"corrections to topic {topic!r} were not published: another validation publishes to it, or they took "
                "longer than transaction.timeout.ms of kafka={...} allows; run it again"
            ) from None
        raise sending_failure(topic, reason, settings) from None
    finally:
        messenger.abandon()
