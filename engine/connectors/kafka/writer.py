"""The writers of the Kafka sink: one keeps an epoch until its checkpoint is complete, one sends at once."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.kafka.encoded import MessageEncoder
from penstock.engine.connectors.kafka.expiry import ExpiryWatch
from penstock.engine.connectors.kafka.kept_epochs import EpochFile, KeptEpochs
from penstock.engine.connectors.kafka.lasting_messenger import LastingMessenger
from penstock.engine.connectors.kafka.producing import sending_explained
from penstock.engine.connectors.kafka.receipts import Marker, to_receipt
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.connectors import Writer
from penstock.model.errors import BugError
from penstock.model.outstanding import Outstanding

_ALL = object()


class KeepingWriter(Writer):
    """Exactly once: messages of an epoch go into a kept file at its barrier, and to the broker by `Sink.commit`."""

    def __init__(
        self,
        encoder: MessageEncoder,
        kept: KeptEpochs,
        claim: Marker,
        transactional_id: str,
        closed: Callable[[], None],
        expiry: ExpiryWatch,
    ) -> None:
        """``claim`` is what the sink left under its ids when it began; ``closed`` is called when this one has ended."""
        self._encoder = encoder
        self._kept = kept
        self._claim = claim
        self._id = transactional_id
        self._closed = closed
        self._expiry = expiry
        self._messages = EpochFile()

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode rows and put them aside."""
        messages = self._encoder.encode(rows)
        self._expiry.look(messages)
        self._messages.add(messages)

    def prepare(self, epoch: int) -> Any:
        """Keep what came since the last barrier; there is a receipt also if nothing did."""
        return to_receipt(self._kept.keep(self._claim, self._id, epoch, self._messages))

    def close(self) -> None:
        """End behind the last checkpoint.

        Raises:
            BugError: rows came after it, which nobody would see.
        """
        rows = self._messages.rows
        self.abort()
        if rows:
            raise BugError(f"{rows} rows were written after the last checkpoint, and the Kafka sink was closed")

    def abort(self) -> None:
        """Forget what no checkpoint holds."""
        self._messages.discard()
        self._closed()


class SendingWriter(Writer):
    """At least once: messages leave at once, and barriers wait until the broker has all of them.

    Whoever asks `has_room` and `outstanding` first is never made to wait.
    """

    def __init__(
        self,
        encoder: MessageEncoder,
        settings: KafkaSettings,
        topic: str,
        client_id: str,
        expiry: ExpiryWatch,
    ) -> None:
        """Make the producer; the topic is there.

        Raises:
            UserError: a setting is wrong.
        """
        self._encoder = encoder
        self._settings = settings
        self._topic = topic
        self._expiry = expiry
        self._messenger = LastingMessenger(settings, topic, client_id)
        self._handing_over: Iterator[None] = iter(())
        self._is_full = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Encode rows and hand them to the producer, as far as it has room."""
        messages = self._encoder.encode(rows)
        self._expiry.look(messages)
        with sending_explained(self._topic, self._settings):
            self._finish_handing_over()
        self._handing_over = self._messenger.handing_over(messages)
        self._hand_over()

    def has_room(self) -> bool:
        """Return whether the producer has taken everything.

        Raises:
            RetryableError: a message was not delivered, in message.timeout.ms.
        """
        if self._is_full:
            self._hand_over()
        return not self._is_full

    def outstanding(self) -> Outstanding | None:
        """Return what is not delivered; None: all is, or something will never be, which `flush` raises."""
        if self._is_full and self._messenger.undelivered is None:
            self._hand_over()
        with sending_explained(self._topic, self._settings):
            return self._messenger.outstanding()

    def flush(self) -> None:
        """Wait until everything is delivered.

        Raises:
            RetryableError: something was not, in message.timeout.ms.
        """
        with sending_explained(self._topic, self._settings):
            self._finish_handing_over()
            self._messenger.flush()

    def close(self) -> None:
        """Deliver everything and end."""
        self.flush()
        self._messenger.close()

    def abort(self) -> None:
        """Let go of what is not delivered: it comes again."""
        self._messenger.abandon()

    def _hand_over(self) -> None:
        """Hand over what there is room for."""
        with sending_explained(self._topic, self._settings):
            self._is_full = next(self._handing_over, _ALL) is not _ALL

    def _finish_handing_over(self) -> None:
        for _ in self._handing_over:
            self._messenger.wait_for_room()
        self._is_full = False
