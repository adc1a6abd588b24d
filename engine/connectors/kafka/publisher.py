"""Publishes kept epochs under one transactional id: a transactional producer, and a consumer that reads the marker.

The shell below the state machine of the id, driven by `sink_commits`; it decides nothing but what an error means.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException

from penstock.engine.connectors.kafka.clients import error_of, make_marker_reader
from penstock.engine.connectors.kafka.kept_epochs import KeptEpochs, missing_files
from penstock.engine.connectors.kafka.markers import marker_offset, read_marker
from penstock.engine.connectors.kafka.messenger import Messenger
from penstock.engine.connectors.kafka.producing import REFUSED, sending_failure, topic_denied
from penstock.engine.connectors.kafka.receipts import Marker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.sink_commits import TroubleError
from penstock.engine.connectors.kafka.transactions import Broke, Fenced, Publish, Refused
from penstock.engine.core.clock import SystemClock
from penstock.model.errors import PenstockError, UserError
from penstock.model.failpoints import failpoint

CALL_S = 30.0
"""How long one call may take before the producer is thrown away."""

MARKER_S = 15.0
"""The same for the call that sends the marker: milliseconds, but several round trips of a new producer."""

LOOK_S = 5.0
"""How long the marker is waited for before the reader is asked whether the cluster refuses it."""

_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.PRODUCER_FENCED,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
_DEFAULT_TIMEOUT_MS = 60_000
_DENIED = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "WRITE and DESCRIBE on transactional ids",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "READ and DESCRIBE on consumer groups, for its markers,",
}


class KafkaPublisher:
    """A `Transport` to one topic of a cluster."""

    def __init__(
        self, settings: KafkaSettings, topic: str, client_id: str, transactional_id: str, kept: KeptEpochs
    ) -> None:
        """Nothing is opened yet."""
        self._settings = settings
        self._topic = topic
        self._client_id = client_id
        self._id = transactional_id
        self._kept = kept
        self._clock = SystemClock()
        self._messenger: Messenger | None = None
        self._reader: Consumer | None = None
        self._begun_ns: int | None = None

    def open(self) -> None:
        """Make a new producer and let it take the id."""
        self._drop()
        with self._troubles():
            messenger = self._messenger = Messenger(self._settings, self._topic, self._client_id, self._id)
            messenger.producer.init_transactions(CALL_S)

    def marker(self) -> Marker | None:
        """Ask for the marker."""
        with self._troubles():
            reader = self._marker_reader()
            try:
                return read_marker(reader, self._topic, min(LOOK_S, CALL_S))
            except KafkaException as error:
                if error_of(error).code() != KafkaError._TIMED_OUT:
                    raise
            # The call would wait for ever for a group that may not be seen; only its messages say so.
            while (message := reader.poll(0)) is not None:
                refusal = message.error()
                if refusal is not None and refusal.code() in _DENIED:
                    raise KafkaException(refusal)
            return read_marker(reader, self._topic, CALL_S)

    def send(self, publish: Publish) -> None:
        """Send every kept message that is due, then the marker."""
        messenger = self._opened()
        with self._troubles():
            self._begun_ns = self._clock.monotonic_ns()
            messenger.producer.begin_transaction()
            for receipt in publish.receipts:
                batches = self._kept.read(receipt)
                if batches is None:
                    if publish.may_be_gone:
                        continue
                    raise TroubleError(Fenced(missing_files([receipt])))
                for messages in batches:
                    messenger.put(messages)
            messenger.flush(self._check_time)
            failpoint("kafka.transaction.delivered")
            self._check_time()
        with self._troubles(self._marker_denied):
            producer, group = messenger.producer, self._marker_reader().consumer_group_metadata()
            offsets = [marker_offset(self._topic, publish.marker)]
            self._within(MARKER_S, lambda: producer.send_offsets_to_transaction(offsets, group, MARKER_S))

    def commit(self) -> None:
        """Commit; an answer that does not come in time leaves the outcome unknown."""
        messenger = self._opened()
        with self._troubles():
            messenger.producer.commit_transaction(CALL_S)
            self._begun_ns = None

    def close(self) -> None:
        """Close producer and consumer; an open transaction is given up."""
        self._drop()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _within(self, seconds: float, call: Callable[[], None]) -> None:
        """Make a call that may never return, whatever timeout it is given; its producer is left to it then.

        librdkafka forgets the timeout of what goes to a group's coordinator, and waits for ever for one that it knew
        before the broker restarted (its issues 5456 and 5511).
        """
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run, name="penstock-kafka-marker", daemon=True)
        thread.start()
        thread.join(seconds + 1.0)
        if thread.is_alive():
            raise TroubleError(
                Broke(
                    f"Kafka at {self._settings.bootstrap} did not take the marker of transactional id {self._id!r} "
                    f"within {seconds:.0f} s"
                )
            )
        if raised:
            raise raised[0]

    def _drop(self) -> None:
        messenger, self._messenger, self._begun_ns = self._messenger, None, None
        if messenger is not None:
            messenger.abandon()

    def _opened(self) -> Messenger:
        if self._messenger is None:
            raise TroubleError(Broke(f"the producer of transactional id {self._id!r} is closed"))
        return self._messenger

    def _marker_reader(self) -> Consumer:
        if self._reader is None:
            self._reader = make_marker_reader(self._settings, f"{self._client_id}-marker", self._id)
        return self._reader

    @contextmanager
    def _troubles(self, denied: Callable[[KafkaError], UserError] | None = None) -> Iterator[None]:
        """Say what errors mean; ``denied`` says it of a right to the topic that is missing."""
        try:
            yield
        except KafkaException as raised:
            error = error_of(raised)
            if denied is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise TroubleError(Refused(denied(error))) from None
            raise TroubleError(self._meaning(error)) from None

    def _marker_denied(self, error: KafkaError) -> UserError:
        what = f"committing the marker of {self._id!r}, an offset of topic {self._topic!r}"
        return topic_denied(what, "READ on the topic", error, self._settings)

    def _meaning(self, error: KafkaError) -> Broke | Fenced | Refused:
        """Say what an error stands for; what was not delivered, or what the client complained of, tells more."""
        messenger = self._messenger
        if messenger is not None:
            error = messenger.undelivered or error
            if error.code() in _GIVEN_UP:
                error = messenger.cause() or error
            if error.code() == KafkaError._TIMED_OUT and messenger.complaint is not None:
                error = messenger.complaint
        code, late = error.code(), self._late()
        if late is not None:
            return Broke(late)
        if code in _FENCED:
            return Fenced()
        named = self._named(error)
        return Refused(named) if isinstance(named, UserError) or code in REFUSED else Broke(str(named))

    def _named(self, error: KafkaError) -> PenstockError:
        code = error.code()
        if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return UserError(
                f"the broker does not allow transaction.timeout.ms={self._timeout_ms:,}: set it in kafka={{...}} to at "
                "most transaction.max.timeout.ms of the broker (by default 900,000)"
            )
        if code in _DENIED:
            text = self._settings.redacted(error.str())
            return UserError(
                f"Kafka at {self._settings.bootstrap} does not let this user publish under transactional id "
                f"{self._id!r} ({text}): grant {_DENIED[code]} with the prefix 'penstock-'"
            )
        return sending_failure(self._topic, error, self._settings)

    @property
    def _timeout_ms(self) -> int:
        return int(self._settings.producer(self._client_id).get("transaction.timeout.ms", _DEFAULT_TIMEOUT_MS))

    def _check_time(self) -> None:
        late = self._late()
        if late is not None:
            raise TroubleError(Broke(late))

    def _late(self) -> str | None:
        """Return what to say of a transaction that takes longer than the broker allows, None if there is none."""
        if self._begun_ns is None or self._clock.monotonic_ns() - self._begun_ns <= self._timeout_ms * 1_000_000:
            return None
        return (
            f"the transaction of {self._id!r} takes longer than transaction.timeout.ms={self._timeout_ms:,}, after "
            "which the broker ends it: raise it in kafka={...}, or take checkpoints more often"
        )
