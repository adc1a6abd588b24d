"""Handovers as bytes, for a taker in another process: words first, then the rows of each batch of their dumps.

Rows go as those of channels do: they are copied once, as there is room for them, and encoded nowhere.
"""

from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from penstock.engine.dataflow.handovers import Handover
from penstock.engine.paging.bucket_handover import GivenBucket
from penstock.engine.paging.key_ranges import Span
from penstock.engine.transport.batch_body import BatchCodec, Body, plain_body
from penstock.model.errors import BugError
from penstock.state.checkpoints.manifest import PackedNotes, pack_notes, unpack_notes
from penstock.state.keys.arrays import NO_BYTES
from penstock.state.tables.image import StoreDump


class _Table(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A table or log of a dump: of each batch how many rows it has, and which of its columns have nulls."""

    name: str
    schema: bytes
    batches: tuple[tuple[int, bytes], ...]


class _Bucket(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    low: int
    high: int
    notes: tuple[PackedNotes, ...]
    parts: tuple[tuple[_Table, ...], ...]


class _Words(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    move: int
    task: str
    giver: int
    taker: int
    buckets: dict[str, tuple[_Bucket, ...]]

    def batches(self) -> int:
        """Return how many batches follow."""
        parts = [part for given in self.buckets.values() for item in given for part in item.parts]
        return sum(len(table.batches) for part in parts for table in part)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Words)


def pack_handover(handover: Handover) -> Sequence[tuple[Body, int]]:
    """Return the contents that `HandoverReader` makes a handover of, in this order, each with its size in bytes.

    The dumps must not change any more.
    """
    bodies: list[Body] = []
    buckets = {
        name: tuple(
            _Bucket(
                item.span.low,
                item.span.high,
                tuple(pack_notes(notes) for notes in item.notes),
                tuple(_tables(part, bodies) for part in item.parts),
            )
            for item in given
        )
        for name, given in handover.buckets.items()
    }
    words = _encoder.encode(_Words(handover.move, handover.task, handover.giver, handover.taker, buckets))
    return [(plain_body(pa.py_buffer(words)), len(words)), *((body, body.size) for body in bodies)]


class HandoverReader:
    """Makes handovers of what comes over one link, where each comes whole and in order."""

    def __init__(self) -> None:
        """Begin in front of the words of a handover."""
        self._words: _Words | None = None
        self._bodies: deque[pa.Buffer] = deque()

    def take(self, content: pa.Buffer) -> Handover | None:
        """Take in the next content; return the handover that it completes.

        Raises:
            msgspec.DecodeError: what came are not the words of a handover.
        """
        if self._words is None:
            self._words = _decoder.decode(content)
        else:
            self._bodies.append(content)
        words = self._words
        if len(self._bodies) < words.batches():
            return None
        buckets = {name: [self._bucket(item) for item in given] for name, given in words.buckets.items()}
        self._words = None
        return Handover(words.move, words.task, words.giver, words.taker, buckets)

    def _bucket(self, item: _Bucket) -> GivenBucket:
        parts = tuple(StoreDump({table.name: self._rows(table) for table in part}) for part in item.parts)
        return GivenBucket(Span(item.low, item.high), parts, tuple(unpack_notes(notes) for notes in item.notes))

    def _rows(self, table: _Table) -> Sequence[pa.RecordBatch]:
        codec = BatchCodec(pa.ipc.read_schema(pa.py_buffer(table.schema)))
        found = []
        for rows, nulls in table.batches:
            content = self._bodies.popleft()
            body = np.frombuffer(content, np.uint8) if content.size else NO_BYTES
            found.append(codec.decode(rows, nulls, body))
        return found


def _tables(part: StoreDump, bodies: list[Body]) -> tuple[_Table, ...]:
    """Return the words of a dump, and add the bodies of its batches."""
    tables = []
    for name, batches in part.batches.items():
        codec = BatchCodec(batches[0].schema)
        if not all(rows.schema.equals(codec.schema) for rows in batches):
            raise BugError(f"the batches of table {name!r} of a dump differ in their types")
        made = [codec.encode(rows, None) for rows in batches]
        bodies += made
        schema = codec.schema.serialize().to_pybytes()
        tables.append(_Table(name, schema, tuple((body.rows, body.nulls) for body in made)))
    return tuple(tables)
