"""Handovers as bytes, for a taker in another process: words first, then the file of each dump."""

from collections import deque
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from penstock.engine.dataflow.handovers import Handover
from penstock.engine.paging.bucket_handover import GivenBucket
from penstock.engine.paging.key_ranges import Span
from penstock.engine.paging.part_files import decode_part, encode_part
from penstock.state.checkpoints.manifest import PackedNotes, pack_notes, unpack_notes


class _Bucket(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    low: int
    high: int
    notes: tuple[PackedNotes, ...]
    parts: int


class _Words(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    move: int
    task: str
    giver: int
    taker: int
    buckets: dict[str, tuple[_Bucket, ...]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Words)


def pack_handover(handover: Handover) -> Sequence[pa.Buffer]:
    """Return the contents that `HandoverReader` makes a handover of, in this order."""
    buckets = {
        name: tuple(
            _Bucket(item.span.low, item.span.high, tuple(pack_notes(notes) for notes in item.notes), len(item.parts))
            for item in given
        )
        for name, given in handover.buckets.items()
    }
    words = _Words(handover.move, handover.task, handover.giver, handover.taker, buckets)
    dumps = [part for given in handover.buckets.values() for item in given for part in item.parts]
    return [pa.py_buffer(_encoder.encode(words)), *(encode_part(part) for part in dumps)]


class HandoverReader:
    """Makes handovers of what comes over one link, where each comes whole and in order."""

    def __init__(self) -> None:
        """Begin in front of the words of a handover."""
        self._words: _Words | None = None
        self._files: deque[pa.Buffer] = deque()

    def take(self, content: pa.Buffer) -> Handover | None:
        """Take in the next content; return the handover that it completes.

        Raises:
            CheckpointError: what came is not the file of a dump.
            msgspec.DecodeError: what came are not the words of a handover.
        """
        if self._words is None:
            self._words = _decoder.decode(content)
        else:
            self._files.append(content)
        words = self._words
        if len(self._files) < sum(item.parts for given in words.buckets.values() for item in given):
            return None
        buckets = {name: [self._bucket(words, item) for item in given] for name, given in words.buckets.items()}
        self._words = None
        return Handover(words.move, words.task, words.giver, words.taker, buckets)

    def _bucket(self, words: _Words, item: _Bucket) -> GivenBucket:
        where = f"what {words.task}[{words.giver}] gives in move {words.move}"
        parts = tuple(decode_part(self._files.popleft(), where) for _ in range(item.parts))
        return GivenBucket(Span(item.low, item.high), parts, tuple(unpack_notes(notes) for notes in item.notes))
