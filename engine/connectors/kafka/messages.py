"""Messages of one partition as columns: what the fetcher takes from librdkafka, and what `metadata=` can tell of it.

librdkafka's objects are let go of at once: kept by the ten thousand they cost more in garbage collection than to read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.formats.contract import Headers
from penstock.model.connectors import RawRecord
from penstock.state.keys.arrays import NO_INTEGERS

OVERHEAD_BYTES = 100
"""What a message takes in memory beside its value, about."""

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))

METADATA: Mapping[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "timestamp_type": pa.string(),
    "key": pa.binary(),
    "headers": HEADERS,
    "tombstone": pa.bool_(),
}
"""What a column can tell of a message beside its value. ``timestamp_type`` is ``create`` or ``append``."""

_T = TypeVar("_T")
_STAMP = np.dtype([("kind", np.int64), ("ms", np.int64)])
_KINDS = pa.array([None, "create", "append"], pa.string())


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages in order of offset, column by column.

    ``values`` are None for tombstones; ``keys`` and ``headers`` are None if no message has any. ``stamps`` are kind
    (0: none, 1: of the producer, 2: of the broker) and milliseconds.
    """

    topic: str
    partition: int
    values: Sequence[bytes | None]
    offsets: NDArray[np.int64]
    stamps: NDArray[Any]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Headers | None] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def bytes(self) -> int:
        """The memory of these messages, about."""
        return sum(map(len, filter(None, self.values))) + OVERHEAD_BYTES * len(self.values)

    @property
    def tombstones(self) -> NDArray[np.int64]:
        """The indices of messages without a value."""
        # What is not empty is not None: values are looked at one by one only where one is empty.
        if all(self.values):
            return NO_INTEGERS
        return np.array([index for index, value in enumerate(self.values) if value is None], np.int64)

    def slice(self, start: int, end: int) -> "Messages":
        """Return some of them."""
        return Messages(
            self.topic,
            self.partition,
            self.values[start:end],
            self.offsets[start:end],
            self.stamps[start:end],
            None if self.keys is None else self.keys[start:end],
            None if self.headers is None else self.headers[start:end],
        )

    def where(self, chosen: NDArray[np.bool_]) -> "Messages":
        """Return those that are chosen."""
        picks = chosen.tolist()
        return Messages(
            self.topic,
            self.partition,
            list(compress(self.values, picks)),
            self.offsets[chosen],
            self.stamps[chosen],
            None if self.keys is None else list(compress(self.keys, picks)),
            None if self.headers is None else list(compress(self.headers, picks)),
        )

    def before(self, end: int | None) -> "Messages":
        """Return those whose offset is below ``end``; None: all."""
        if end is None or self.offsets[-1] < end:
            return self
        return self.slice(0, int(np.searchsorted(self.offsets, end)))

    def headers_of(self, index: int) -> Headers:
        """Return the headers of a message."""
        return () if self.headers is None else self.headers[index] or ()

    def raw_record(self, index: int, error: str) -> RawRecord:
        """Return the dead letter of a message."""
        kind, ms = self.stamps[index]
        offset = int(self.offsets[index])
        return RawRecord(
            self.values[index] or b"",
            f"{self.topic}/{self.partition}@{offset}",
            error,
            topic=self.topic,
            partition=self.partition,
            offset=offset,
            timestamp_ms=int(ms) if kind else None,
            key=None if self.keys is None else self.keys[index],
            headers=tuple(self.headers_of(index)),
            tombstone=self.values[index] is None,
        )

    def latest_us(self, which: NDArray[np.int64]) -> int | None:
        """Return the greatest timestamp of some messages in microseconds, None if none of them has one."""
        stamps = self.stamps[which]
        times_ms = stamps["ms"][stamps["kind"] > 0]
        return int(times_ms.max()) * 1_000 if len(times_ms) else None

    def column(self, name: str) -> pa.Array:
        """Return one of `METADATA`."""
        return _COLUMNS[name](self)


def stamps_of(messages: Sequence[Message]) -> NDArray[Any]:
    """Return the kinds and times of messages; the kind of what is an error and no message is 0."""
    # A row at a time would take three times as long.
    flat = np.fromiter(chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * len(messages))
    return flat.view(_STAMP)


def columns_of(messages: Sequence[Message], stamps: NDArray[Any]) -> Messages:
    """Take messages of one partition, in order and without errors, apart; there is at least one."""
    count = len(messages)
    topic, partition = messages[0].topic(), messages[0].partition()
    assert topic is not None and partition is not None
    keys = list(map(Message.key, messages))
    headers: list[Any] = list(map(Message.headers, messages))
    values = list(map(Message.value, messages))
    return Messages(
        topic,
        partition,
        values,
        _offsets_of(messages),
        stamps,
        None if keys.count(None) == count else keys,
        None if headers.count(None) == count else headers,
    )


def joined(parts: Sequence[Messages]) -> Messages:
    """Return messages of one partition that follow each other as one; there is at least one part."""
    if len(parts) == 1:
        return parts[0]
    return Messages(
        parts[0].topic,
        parts[0].partition,
        list(chain.from_iterable(part.values for part in parts)),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.stamps for part in parts]),
        _joined([part.keys for part in parts], parts),
        _joined([part.headers for part in parts], parts),
    )


def _joined(columns: Sequence[Sequence[_T | None] | None], parts: Sequence[Messages]) -> list[_T | None] | None:
    """Return the columns of some parts as one; None if there are none."""
    if all(column is None for column in columns):
        return None
    filled = ([None] * len(part) if column is None else column for column, part in zip(columns, parts, strict=True))
    return list(chain.from_iterable(filled))


def _offsets_of(messages: Sequence[Message]) -> NDArray[np.int64]:
    first, last = messages[0].offset(), messages[-1].offset()
    assert first is not None and last is not None
    if last - first == len(messages) - 1:
        # They ascend, so there is no gap.
        return np.arange(first, last + 1, dtype=np.int64)
    return np.fromiter(map(Message.offset, messages), np.int64, len(messages))


def _stamps(messages: Messages) -> pa.Array:
    times = np.ascontiguousarray(messages.stamps["ms"])
    return pa.array(times, mask=messages.stamps["kind"] == 0).view(METADATA["timestamp"])


def _headers(messages: Messages) -> pa.Array:
    listed = [
        [{"key": key, "value": value} for key, value in messages.headers_of(index)] for index in range(len(messages))
    ]
    return pa.array(listed, HEADERS)


_COLUMNS: Mapping[str, Callable[[Messages], pa.Array]] = {
    "topic": lambda messages: pa.repeat(messages.topic, len(messages)),
    "partition": lambda messages: pa.repeat(pa.scalar(messages.partition, pa.int32()), len(messages)),
    "offset": lambda messages: pa.array(messages.offsets),
    "timestamp": _stamps,
    "timestamp_type": lambda messages: _KINDS.take(pa.array(messages.stamps["kind"].copy())),
    "key": lambda messages: pa.array(messages.keys or [None] * len(messages), pa.binary()),
    "headers": _headers,
    "tombstone": lambda messages: pa.array([value is None for value in messages.values], pa.bool_()),
}
