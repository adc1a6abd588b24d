"""Reads a topic of dead letters up to the ends it has at the start. Called by ``penstock dlq``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.engine.connectors.kafka import clients
from penstock.engine.connectors.kafka.letters import Headers, Provenance, split_headers
from penstock.engine.connectors.kafka.producing import check_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topics import check_name
from penstock.model.errors import RetryableError

CLIENT_ID = "penstock-dlq"
_BLOCK = 1_000
_WAIT_S = 0.2
_SILENCES = int(clients.ANSWER_S / _WAIT_S)

_Answer = TypeVar("_Answer")

Span = tuple[int, int]
"""Offsets from the first to behind the last."""


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A letter as it lies in a topic; ``headers`` are the record's own, ``written_ms`` is when it became a letter."""

    partition: int
    offset: int
    written_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    provenance: Provenance


class LetterReader:
    """Reads letters up to the ends that the topic has when it is made."""

    def __init__(self, settings: KafkaSettings, topic: str, group: str = CLIENT_ID) -> None:
        """Ask for the topic's bounds.

        Raises:
            UserError: the topic is not there, or may not be read.
            RetryableError: the cluster does not answer.
        """
        check_topic(settings, CLIENT_ID, check_name(topic))
        self._settings = settings
        self.topic = topic
        self._refusal: KafkaError | None = None
        self.consumer: Consumer = clients.make_consumer(settings, CLIENT_ID, group, self._hear)
        try:
            self.bounds: Mapping[int, Span] = self.ask(self._look)
        except BaseException:
            self.consumer.close()
            raise

    def newest(self, limit: int) -> list[StoredLetter]:
        """Return the last letters, oldest first."""
        spans = {number: (max(first, end - limit), end) for number, (first, end) in self.bounds.items()}
        letters = [letter for block in self.blocks(spans) for letter in block]
        letters.sort(key=lambda letter: (letter.written_ms or 0, letter.partition, letter.offset))
        return letters[-limit:]

    def blocks(self, spans: Mapping[int, Span]) -> Iterator[list[StoredLetter]]:
        """Yield letters by offsets of partitions, up to the end of each."""
        left = {number: end for number, (start, end) in spans.items() if start < end}
        self.consumer.assign([TopicPartition(self.topic, number, spans[number][0]) for number in left])
        silences = 0
        while left:
            block: list[StoredLetter] = []
            messages = self.ask(lambda: self.consumer.consume(_BLOCK, _WAIT_S))
            silences = 0 if messages else silences + 1
            if silences > _SILENCES:
                raise RetryableError(f"topic {self.topic!r} at {self._settings.bootstrap} gives nothing; try again")
            for message in messages:
                number, offset = message.partition(), message.offset()
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    if error.retriable() or error.code() in clients.UNREACHABLE:
                        continue
                    raise clients.failure(f"reading topic {self.topic!r}", error, self._settings)
                assert number is not None and offset is not None
                if number not in left:
                    continue
                if error is None and offset < left[number]:
                    block.append(_letter(message))
                if error is not None or offset >= left[number] - 1:
                    del left[number]
            if block:
                yield block

    def close(self) -> None:
        """Let go of the client."""
        self.consumer.close()

    def _look(self) -> dict[int, Span]:
        numbers = self.consumer.list_topics(self.topic, clients.ANSWER_S).topics[self.topic].partitions
        spans: dict[int, Span] = {}
        for number in numbers:
            bounds = self.consumer.get_watermark_offsets(TopicPartition(self.topic, number), clients.ANSWER_S)
            if bounds is None:
                raise RetryableError(f"the ends of topic {self.topic!r} were not told; try again")
            spans[number] = bounds
        return spans

    def ask(self, request: Callable[[], _Answer]) -> _Answer:
        """Ask the cluster, and say in a sentence what goes wrong."""
        try:
            answer = request()
        except KafkaException as raised:
            error = self._refusal or clients.error_of(raised)
            raise clients.failure(f"reading topic {self.topic!r}", error, self._settings) from None
        if self._refusal is not None:
            raise clients.failure(f"reading topic {self.topic!r}", self._refusal, self._settings)
        return answer

    def _hear(self, error: KafkaError) -> None:
        if error.code() in clients.LOGIN:
            self._refusal = error


def _letter(message: Message) -> StoredLetter:
    kind, time = message.timestamp()
    headers, provenance = split_headers(cast(Headers, message.headers() or ()))
    number, offset = message.partition(), message.offset()
    assert number is not None and offset is not None
    return StoredLetter(number, offset, time if kind else None, message.key(), message.value(), headers, provenance)
