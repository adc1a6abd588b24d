"""Frames: what the two ends of a link tell each other of, in a fixed header of 48 bytes and a tail.

| bytes | field | |
|---|---|---|
| 1 | kind | see `Kind` |
| 1 | flags | 0 |
| 2 | tail | bytes that follow the header |
| 4 | channel | its number on the link |
| 4 | rows | of a batch |
| 4 | piece | bytes of the body that go with this frame |
| 8 | body | bytes of the body in all |
| 8 | size | credit in bytes that a batch takes or that is given back; bytes of the ring that were read; a move's task |
| 8 | value | ingest time in wall microseconds, watermark, epoch, number of a move, whether drained or dismissed |
| 8 | keep | of a batch |

The tail of a batch has a byte for each plain column, 1 if it has nulls, and behind them the number of branches that
have rates, these, the number of samplers of keys that have some, these, and the SIC of each query, 8 bytes; nothing if
there is none of it. That of a reroute has each key group that moves, its giver and its taker, in 4 bytes each.

Numbers are little-endian, ``value`` and ``size`` signed.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from penstock.engine.core.elements import (
    Barrier,
    Batch,
    CancelBarrier,
    Element,
    EndOfStream,
    Idle,
    Left,
    Reroute,
    Sic,
    Watermark,
)
from penstock.model.errors import BugError
from penstock.model.ids import TaskId

_HEADER = struct.Struct("<BBHIIIqqqd")
_GROUP = struct.Struct("<III")

HEADER_BYTES = _HEADER.size

MOST_FRAME_BYTES = HEADER_BYTES + (1 << 16)
"""No frame is longer."""


class Kind(IntEnum):
    """The contents of a frame: an element of a channel, the schema of those that follow, or word of the link itself."""

    SCHEMA = 1
    ROWS = 2
    PIECE = 3
    """More of the body that the last `SCHEMA` or `ROWS` began."""
    WATERMARK = 4
    BARRIER = 5
    IDLE = 6
    REROUTE = 7
    END = 8
    CREDIT = 9
    READ = 10
    """So many bytes of the ring were read; on a link without a ring: all was read, up to the `BYE`."""
    BYE = 11
    """No element follows on the link, and none is missing; what the other side sends is still read."""
    CANCEL = 12
    STATE = 13
    """A part of what instances give to each other in a move; ``size`` is its bytes, of which the body may have more.

    ``value`` is 1 if another part follows.
    """
    LEFT = 14


class Frame(NamedTuple):
    """A header and its tail."""

    kind: Kind
    channel: int = 0
    rows: int = 0
    piece: int = 0
    body: int = 0
    size: int = 0
    value: int = 0
    keep: float = 1.0
    tail: bytes = b""


def pack(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    kind, channel, rows, piece, body, size, value, keep, tail = frame
    return _HEADER.pack(kind, 0, len(tail), channel, rows, piece, body, size, value, keep) + tail


class FrameReader:
    """Makes frames of bytes that come in any portions."""

    def __init__(self) -> None:
        """Begin at the start of a frame."""
        self._bytes = bytearray()

    def frames(self, more: bytes) -> Iterator[Frame]:
        """Take in bytes and yield the frames that they complete, all of which must be taken."""
        held = self._bytes
        held += more
        at = 0
        while (whole := frame_at(held, at, len(held))) is not None:
            frame, at = whole
            yield frame
        del held[:at]


def frame_at(held: bytearray, at: int, end: int) -> tuple[Frame, int] | None:
    """Return the frame that begins at a place in bytes up to an end, and where it ends; None: it is not whole."""
    if end - at < HEADER_BYTES:
        return None
    kind, _, tail, channel, rows, piece, body, size, value, keep = _HEADER.unpack_from(held, at)
    behind = at + HEADER_BYTES + tail
    if end < behind:
        return None
    content = bytes(held[at + HEADER_BYTES : behind])
    return Frame(Kind(kind), channel, rows, piece, body, size, value, keep, content), behind


def frame_of(channel: int, element: Element) -> Frame:
    """Return the frame of a control element."""
    match element:
        case Watermark(time_us):
            return Frame(Kind.WATERMARK, channel, value=time_us)
        case Barrier(epoch):
            return Frame(Kind.BARRIER, channel, value=epoch)
        case Idle():
            return Frame(Kind.IDLE, channel)
        case CancelBarrier(epoch):
            return Frame(Kind.CANCEL, channel, value=epoch)
        case Reroute(move, task, groups):
            tail = b"".join(_GROUP.pack(*group) for group in groups)
            return Frame(Kind.REROUTE, channel, size=task, value=move, tail=tail)
        case EndOfStream(drained):
            return Frame(Kind.END, channel, value=drained)
        case Left(dismissed):
            return Frame(Kind.LEFT, channel, value=dismissed)
        case Batch():
            raise BugError("a batch has a body, which its frame cannot say")


def element_of(frame: Frame) -> Element:
    """Return the control element of a frame that `frame_of` made."""
    match frame.kind:
        case Kind.WATERMARK:
            return Watermark(frame.value)
        case Kind.BARRIER:
            return Barrier(frame.value)
        case Kind.IDLE:
            return Idle()
        case Kind.REROUTE:
            return Reroute(frame.value, TaskId(frame.size), tuple(_GROUP.iter_unpack(frame.tail)))
        case Kind.CANCEL:
            return CancelBarrier(frame.value)
        case Kind.END:
            return EndOfStream(bool(frame.value))
        case Kind.LEFT:
            return Left(bool(frame.value))
    raise BugError(f"a frame of kind {frame.kind.name} is no control element")


def encode_shares(batch: Batch) -> bytes:
    """Return what a batch says of its rows beyond their rate: rates of branches and samplers of keys, SIC."""
    rates = bytes([len(batch.branches)]) + batch.branches + bytes([len(batch.keys)]) + batch.keys
    return rates + struct.pack(f"<{len(batch.sic)}d", *batch.sic)


def decode_shares(shares: bytes) -> tuple[bytes, bytes, Sic]:
    """Return the branches, keys and SIC that `encode_shares` made bytes of; those of no bytes are empty."""
    if not shares:
        return b"", b"", ()
    keys = 1 + shares[0]
    sic = keys + 1 + shares[keys]
    values = struct.unpack(f"<{(len(shares) - sic) // 8}d", shares[sic:])
    return shares[1:keys], shares[keys + 1 : sic], values
