"""The contract of a format: bytes of messages to rows for the source, rows to bytes for the sink.

A decoder gets the values (or keys) of many messages at once, of one partition and in order. One that it cannot read
costs that message, never its neighbours, and what becomes of it never depends on them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Headers = Sequence[tuple[str, bytes | None]]
"""The headers of a message, in order; a name may come twice."""

HeadersOf = Callable[[int], Headers]
"""Returns the headers of the message with an index, for formats that name their schema there."""


def no_headers(index: int) -> Headers:
    """Stand for messages without headers."""
    return ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of some messages.

    ``row_of[i]`` is the index of the message that row i came from, ascending; a message may have many rows, or none.
    ``errors`` are (index of the message, reason) in order, of messages that have no rows for that reason.
    """

    rows: pa.RecordBatch
    row_of: NDArray[np.int64]
    errors: Sequence[tuple[int, str]] = ()


class ValueDecoder(ABC):
    """Turns bytes into rows of `schema`. Used by one thread; a source makes one per partition by `fresh`."""

    schema: pa.Schema
    """The fields of the rows, or those left after `restrict`."""

    @abstractmethod
    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        """Decode messages; tombstones do not come here.

        Raises:
            RetryableError: what is needed to read them, such as a schema, cannot be had now; the same messages come
                again.
        """

    @abstractmethod
    def restrict(self, columns: Sequence[str]) -> Self:
        """Return a decoder of only these columns, in this order; there may be none."""

    def remark(self, *, last: bool) -> str | None:
        """Return what the user should know of the messages so far, once; ``last``: no message will follow.

        The default has nothing to say.
        """
        return None

    def fresh(self) -> Self:
        """Return a decoder of the same rows that shares nothing that changes. The default has nothing that does."""
        return self


class ValueEncoder(ABC):
    """Turns rows into the bytes of messages. Used by one thread."""

    headers: Headers = ()
    """Headers that every message gets beside its own."""

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one message per row; null is a tombstone.

        Raises:
            RetryableError: what is needed to write them, such as a registry, cannot be had now.
        """


class BatchEncoder(ABC):
    """Turns many rows into one message. Used by one thread."""

    @abstractmethod
    def encode_batches(self, rows: pa.RecordBatch, limit_bytes: int) -> Sequence[tuple[int, bytes]]:
        """Return messages of at most so many bytes with the rows in order, and how many rows each has.

        Raises:
            BadRecordError: a row alone is larger.
        """


def one_each(rows: pa.RecordBatch) -> Decoded:
    """Return rows of which each is one message."""
    return Decoded(rows, np.arange(rows.num_rows, dtype=np.int64))
