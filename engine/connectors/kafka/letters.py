"""Dead letters as messages of Kafka: the record's own key, value and headers, and headers of ours behind them.

The headers are listed in docs/design/kafka.md 5. Written by `letter_topic`, read by ``penstock dlq``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.kafka.encoded import MESSAGES
from penstock.model.dead_letters import DeadLetter

Headers = Sequence[tuple[str, bytes | None]]

PREFIX = "penstock.error."
_FIRST = PREFIX + "class"
_TEXTS = ("message", "stage", "operator", "topic", "job", "traceback")
_NUMBERS = ("partition", "offset", "epoch", "attempt")
_LONGEST = 8_192
"""The most characters of a message or a traceback."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of a letter, from our headers; what is not known is empty or None.

    ``stage`` is ``decode``, ``udf`` or ``sink``; ``timestamp_ms`` is the original message's.
    """

    error_class: str = ""
    message: str = ""
    stage: str = ""
    operator: str = ""
    topic: str = ""
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    job: str = ""
    epoch: int | None = None
    attempt: int | None = None
    traceback: str = ""


def to_messages(letters: Sequence[DeadLetter]) -> pa.RecordBatch:
    """Return a message for each letter, in `MESSAGES`; they are written under the time of being sent."""
    return messages_of(
        [letter.record.key for letter in letters],
        [None if letter.record.tombstone else letter.record.raw for letter in letters],
        [None] * len(letters),
        [[*letter.record.headers, *our_headers(letter)] for letter in letters],
    )


def messages_of(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    times_ms: Sequence[int | None],
    headers: Sequence[Headers],
) -> pa.RecordBatch:
    """Return messages in `MESSAGES`."""
    listed = [[{"key": name, "value": value} for name, value in item] or None for item in headers]
    columns = zip((keys, values, times_ms, listed), MESSAGES, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=MESSAGES)


def our_headers(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """Return the headers that are added, those that are not known left out; the class comes first."""
    record = letter.record
    values = {
        "class": letter.error_class,
        "message": letter.message[:_LONGEST],
        "stage": letter.stage,
        "operator": letter.operator,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "job": letter.job,
        "epoch": letter.epoch,
        "attempt": letter.attempt,
        "traceback": None if letter.traceback is None else letter.traceback[-_LONGEST:],
    }
    return [(PREFIX + name, _bytes(value)) for name, value in values.items() if value is not None]


def split_headers(headers: Headers) -> tuple[Headers, Provenance]:
    """Part a letter's headers into those of the record and what ours tell.

    Ours are the last block: a record that was a dead letter before keeps what it was given then.
    """
    begins = max((index for index, (name, _) in enumerate(headers) if name == _FIRST), default=len(headers))
    ours = {name.removeprefix(PREFIX): (value or b"").decode("utf-8", "replace") for name, value in headers[begins:]}
    origin: dict[str, Any] = {name: ours.get(name, "") for name in _TEXTS}
    origin |= {name: _number(ours.get(name)) for name in _NUMBERS}
    return headers[:begins], Provenance(
        error_class=ours.get("class", ""), timestamp_ms=_number(ours.get("timestamp")), **origin
    )


def _bytes(value: str | int) -> bytes:
    return str(value).encode("utf-8", "backslashreplace")


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
