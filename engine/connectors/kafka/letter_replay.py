"""Writes dead letters back as the records they were, and remembers which. Called by ``penstock dlq replay``."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

from confluent_kafka import OFFSET_INVALID, TopicPartition

from penstock.engine.connectors.kafka import clients
from penstock.engine.connectors.kafka.letter_reading import CLIENT_ID, LetterReader, Span, StoredLetter
from penstock.engine.connectors.kafka.letters import Provenance, messages_of
from penstock.engine.connectors.kafka.messenger import Messenger
from penstock.engine.connectors.kafka.producing import check_topic, sending_explained
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topics import check_name
from penstock.model.errors import OptionError, UserError

WHERE = tuple(item.name for item in fields(Provenance) if item.name != "traceback")
"""What `parse_where` can ask of a letter."""

Matches = Callable[[Provenance], bool]


@dataclass(frozen=True, slots=True)
class ReplayCounts:
    """Counts of replayed letters: written back, left out by ``where``, or without a topic to go back to."""

    written: int
    left_out: int
    homeless: int


class Replay:
    """Letters on their way back: those of a topic that were not replayed before, up to its ends now.

    What was replayed is remembered as offsets of a consumer group, so that another replay of the same topic to the
    same place, under the same condition, goes on from there. A replay that is interrupted writes some letters again.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        to: str | None,
        where: Mapping[str, str],
        *,
        group: str | None = None,
        again: bool = False,
    ) -> None:
        """``to`` None: each goes to the topic it came from. ``again``: also those that were replayed before.

        Raises:
            UserError: a topic is not there.
            RetryableError: the cluster does not answer.
        """
        if to == topic:
            raise OptionError(f"letters of {topic!r} cannot be replayed into {topic!r} itself")
        if to is not None:
            check_topic(settings, CLIENT_ID, check_name(to))
        self.group = group or _group(topic, to, where)
        self._settings, self._to = settings, to
        self._where = parse_where(where)
        self._messengers: dict[str, Messenger] = {}
        self._reader = LetterReader(settings.with_group(self.group), topic, self.group)
        self._spans = {number: self._span(number, bounds, again) for number, bounds in self._reader.bounds.items()}

    @property
    def waiting(self) -> int:
        """The greatest number of letters there may be."""
        return sum(end - start for start, end in self._spans.values())

    def run(self) -> ReplayCounts:
        """Write letters back.

        Raises:
            PenstockError: one cannot be written; those before it will not be written again.
        """
        written = left_out = homeless = 0
        for block in self._reader.blocks(self._spans):
            going: dict[str, list[StoredLetter]] = {}
            for letter in block:
                to = self._to or letter.provenance.topic
                if not self._where(letter.provenance):
                    left_out += 1
                elif not to:
                    homeless += 1
                else:
                    going.setdefault(to, []).append(letter)
            for to, letters in going.items():
                self._write(to, letters)
                written += len(letters)
            self._settle(block)
        return ReplayCounts(written, left_out, homeless)

    def close(self) -> None:
        """Let go of the clients."""
        self._reader.close()
        for messenger in self._messengers.values():
            messenger.abandon()

    def _span(self, number: int, bounds: Span, again: bool) -> Span:
        first, end = bounds
        if again:
            return bounds
        place = TopicPartition(self._reader.topic, number)
        [committed] = self._reader.ask(lambda: self._reader.consumer.committed([place], clients.ANSWER_S))
        start = first if committed.offset == OFFSET_INVALID else max(first, committed.offset)
        return min(start, end), end

    def _write(self, to: str, letters: Sequence[StoredLetter]) -> None:
        messenger = self._messengers.get(to)
        if messenger is None:
            if to == self._reader.topic:
                raise UserError(f"a letter of {to!r} came from {to!r} itself; say where it goes with --into")
            check_topic(self._settings, CLIENT_ID, to)
            messenger = self._messengers[to] = Messenger(self._settings, to, CLIENT_ID)
        times_ms = [letter.provenance.timestamp_ms for letter in letters]
        messages = messages_of(
            [letter.key for letter in letters],
            [letter.value for letter in letters],
            # Kafka has no times before 1970.
            [time if time is not None and time > 0 else None for time in times_ms],
            [letter.headers for letter in letters],
        )
        with sending_explained(to, self._settings):
            messenger.put(messages)

    def _settle(self, block: Sequence[StoredLetter]) -> None:
        """Wait until a block is written, and remember it."""
        for to, messenger in self._messengers.items():
            with sending_explained(to, self._settings):
                messenger.flush()
        reached = {letter.partition: letter.offset + 1 for letter in block}
        places = [TopicPartition(self._reader.topic, number, offset) for number, offset in reached.items()]
        self._reader.ask(lambda: self._reader.consumer.commit(offsets=places, asynchronous=False))


def parse_where(where: Mapping[str, str]) -> Matches:
    """Return what tells whether a letter fulfils all conditions, by fields of `Provenance`; values may have ``*``.

    Raises:
        OptionError: there is no such field.
    """
    names = {"class": "error_class", "timestamp": "timestamp_ms"}
    wanted = {names.get(name, name): pattern for name, pattern in where.items()}
    unknown = [name for name in wanted if name not in WHERE]
    if unknown:
        raise OptionError(f"--where knows {', '.join(WHERE)}, but not {unknown[0]!r}")
    return lambda origin: all(fnmatchcase(_text(origin, name), pattern) for name, pattern in wanted.items())


def _text(origin: Provenance, name: str) -> str:
    value = getattr(origin, name)
    return "" if value is None else str(value)


def _group(topic: str, to: str | None, where: Mapping[str, str]) -> str:
    conditions = "\n".join(f"{name}={value}" for name, value in sorted(where.items()))
    mark = f"-{hashlib.sha256(conditions.encode()).hexdigest()[:8]}" if where else ""
    return f"{CLIENT_ID}-{topic}-to-{to or 'where-it-came-from'}{mark}"
