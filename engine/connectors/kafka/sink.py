"""Writes rows to one topic of Kafka. Built by `Stream.write_kafka`.

At least once by default; exactly once in jobs with checkpoints, for those who read committed messages only
(docs/design/kafka.md 3).
"""

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.kafka.encoded import MessageEncoder, MessageLayout
from penstock.engine.connectors.kafka.expiry import ExpiryWatch, time_retention_ms
from penstock.engine.connectors.kafka.formats.encoders import SinkFormat
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.kept_epochs import KeptEpochs
from penstock.engine.connectors.kafka.producing import check_topic
from penstock.engine.connectors.kafka.publisher import KafkaPublisher
from penstock.engine.connectors.kafka.receipts import Marker, from_claim, to_claim
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.sink_commits import SinkCommits, Transport
from penstock.engine.connectors.kafka.writer import KeepingWriter, SendingWriter
from penstock.engine.core.clock import SystemClock
from penstock.model.connectors import Sink, Writer
from penstock.model.errors import BugError, UserError
from penstock.model.sink_context import SinkContext

PREFIX = "penstock"
"""Client ids and transactional ids begin with it, so that ACLs can name them."""

_DEFAULT_MESSAGE_BYTES = 1_000_000


class KafkaSink(Sink):
    """A sink that writes to one topic.

    Exactly once: an epoch's messages are kept beside its checkpoint, and published in one transaction for each
    instance when that is complete; a marker in the transaction tells after a crash whether it was.
    """

    def __init__(
        self,
        topic: str,
        settings: KafkaSettings,
        layout: MessageLayout,
        format: SinkFormat,
        *,
        exactly_once: bool = False,
    ) -> None:
        """Nothing is opened yet."""
        self.topic = topic
        self.transactional = exactly_once
        self.takes_corrections = format.read is JsonValues
        self.settings = settings
        self.layout = layout
        self.format = format
        self._context: SinkContext | None = None
        self._commits: SinkCommits | None = None
        self._kept: KeptEpochs | None = None
        self._claim: Marker | None = None
        self._working = threading.Lock()
        self._open_writers = 0
        self._expiry: ExpiryWatch | None = None

    def with_checkpoints(self, context: SinkContext) -> "KafkaSink":
        """Return a sink that publishes by `commit` only."""
        copy = KafkaSink(self.topic, self.settings, self.layout, self.format, exactly_once=True)
        copy._context, copy._kept = context, KeptEpochs(context.kept)
        copy._commits = copy._make_commits(context.parallelism)
        return copy

    def resize(self, parallelism: int, *, running: bool = False) -> None:
        """Publish as so many writers; `recover` settles what those before have left, if they are not ``running``."""
        if self._commits is not None:
            with self._working:
                if running:
                    self._commits.grow(self._ids(parallelism))
                    return
                self._commits.close()
                self._commits = self._make_commits(parallelism)

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Open the writer of one instance.

        Raises:
            UserError: the columns do not fit, the topic is not there, or a guarantee cannot be given.
            RetryableError: the broker cannot be reached.
        """
        encoder = MessageEncoder(
            schema,
            self.layout,
            self.format.make,
            alone=self.format.alone,
            limit_bytes=int(self.settings.producer(PREFIX).get("message.max.bytes", _DEFAULT_MESSAGE_BYTES)),
            where=f"topic {self.topic!r}",
        )
        if not self.transactional:
            client_id = f"{PREFIX}-{self.topic}-{instance}"
            check_topic(self.settings, client_id, self.topic)
            return SendingWriter(encoder, self.settings, self.topic, client_id, self._watched())
        if self._context is None or self._kept is None:
            raise UserError(
                f"topic {self.topic!r} is to be written exactly once, which needs checkpoints: run the job with "
                "checkpoint_dir=... (--checkpoint-dir), or write with guarantee='at_least_once'"
            )
        name = transactional_id(self._context.job, self._context.operator, instance)
        self._open_writers += 1
        return KeepingWriter(encoder, self._kept, self._claimed(), name, self._writer_closed, self._watched())

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        """Publish what the receipts stand for, unless it is published; at least once, it was."""
        if not self.transactional:
            return
        with self._working:
            self._prepared().commit(epoch, receipts)

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """Fence whoever has the transactional ids, and publish what the checkpoint promises and was not published.

        What an earlier job wrote stays in the topic, also when this one begins anew.
        """
        if not self.transactional:
            return
        with self._working:
            commits = self._prepared()
            check_topic(self.settings, PREFIX, self.topic)
            commits.recover(epoch, receipts)

    def claim(self) -> Any:
        """Return the claim under which its writers keep messages."""
        claim = self._claim if self._commits is None else self._commits.last_claim
        return None if claim is None else to_claim(claim)

    def adopt(self, epoch: int, receipts: Sequence[Any], claim: Any) -> None:
        """Take the transactional ids, and publish from now on what writers that live keep, under their claim."""
        if not self.transactional:
            return
        with self._working:
            self._prepared().adopt(epoch, from_claim(claim))

    def describe(self) -> str:
        """Name the topic."""
        return f"kafka {self.topic}"

    def release(self) -> None:
        """Close the producers, unless they are at work."""
        if self._commits is not None and self._working.acquire(blocking=False):
            try:
                self._commits.close()
            finally:
                self._working.release()

    def __reduce__(self) -> tuple[Any, ...]:
        # Writers need the claim; producers, and the lock around them, stay with whoever commits.
        claim = self._claim if self._commits is None else self._commits.last_claim
        parts = (self.topic, self.settings, self.layout, self.format)
        return _for_writers, (parts, self.transactional, self._context, claim)

    def _claimed(self) -> Marker:
        """Return the claim of the last `recover`, also of one in the process that commits."""
        claim = self._claim if self._commits is None else self._commits.last_claim
        if claim is None:
            raise BugError(f"{self.describe()!r} writes before it was recovered")
        return claim

    def _make_commits(self, parallelism: int) -> SinkCommits:
        context, kept = self._context, self._kept
        assert context is not None and kept is not None
        ids = self._ids(parallelism)
        return SinkCommits(ids, self._publisher, kept, accept_duplicates=context.accept_duplicates)

    def _ids(self, parallelism: int) -> list[str]:
        context = self._context
        assert context is not None
        return [transactional_id(context.job, context.operator, instance) for instance in range(parallelism)]

    def _prepared(self) -> SinkCommits:
        if self._commits is None:
            raise BugError(f"{self.describe()!r} has no producers: it was opened without checkpoints, or is a copy")
        return self._commits

    def _watched(self) -> ExpiryWatch:
        """Return the one watch of all writers: it warns once."""
        if self._expiry is None:
            retention_ms = None
            if self.layout.timestamp is not None:
                retention_ms = time_retention_ms(self.settings, PREFIX, self.topic)
            self._expiry = ExpiryWatch(self.topic, retention_ms, lambda: SystemClock().wall_us() // 1_000)
        return self._expiry

    def _publisher(self, transactional_id: str) -> Transport:
        assert self._kept is not None
        return KafkaPublisher(self.settings, self.topic, transactional_id, transactional_id, self._kept)

    def _writer_closed(self) -> None:
        """Close the producers with the last writer, unless they are at work for a commit: `recover` closes those."""
        self._open_writers -= 1
        if self._open_writers == 0:
            self.release()


def _for_writers(
    parts: tuple[str, KafkaSettings, MessageLayout, SinkFormat],
    exactly_once: bool,
    context: SinkContext | None,
    claim: Marker | None,
) -> KafkaSink:
    """Return a sink that opens writers and has no producers: its original commits what they prepare."""
    sink = KafkaSink(*parts, exactly_once=exactly_once)
    if context is not None:
        sink._context, sink._kept, sink._claim = context, KeptEpochs(context.kept), claim
    return sink


def transactional_id(job: str, operator: str, instance: int) -> str:
    """Return the client id and transactional id of an instance."""
    return f"{PREFIX}-{job}-{operator}-{instance}"
