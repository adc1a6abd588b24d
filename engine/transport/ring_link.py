"""A link on one host: rows in two rings of shared memory, one each way, frames of what was written by a Unix socket.

The socket is wake-up, order and death in one. Rows are copied into the ring as they are picked, and out of it as they
are received: what waits in channels holds nothing of the ring, and what waits for the ring is bounded by credit.
"""

import socket

from penstock.engine.core.contract import Clock
from penstock.engine.transport.batch_body import Body
from penstock.engine.transport.framed_link import FramedLink
from penstock.engine.transport.frames import Frame, FrameReader, Kind, pack
from penstock.engine.transport.link import Arrival
from penstock.engine.transport.ring import Bytes, Ring, RingReader, RingWriter

PORTIONS = 8
"""A ring is reported as read in portions of an eighth, and a batch is put into it in no smaller pieces than two."""

_MOST_FRAME_BYTES = 1 << 16
"""The most that is taken from the socket at once."""


class RingLink(FramedLink):
    """One end of a link; see `Link`."""

    def __init__(self, end: socket.socket, outgoing: Ring, incoming: Ring, clock: Clock, peer: str) -> None:
        """Take over the socket, by which both sides have agreed on the rings. ``peer`` names the other side."""
        super().__init__(end, clock, peer)
        self._rings = outgoing, incoming
        self._writer, self._reader = RingWriter(outgoing), RingReader(incoming)
        self._frames = FrameReader()
        self._unsent = bytearray()
        self._unreported = 0

    def close(self) -> None:
        """Close the socket and let go of both rings."""
        super().close()
        for ring in self._rings:
            ring.close()

    def _room_for(self, body: Body) -> Bytes | None:
        if self._writer.room < min(body.left, self._rings[0].size * 2 // PORTIONS):
            return None
        return self._writer.free()[: body.left]

    def _hand_over(self, frame: Frame, piece: Bytes | None) -> None:
        if piece is not None:
            self._writer.advance(piece.size)
        self._unsent += pack(frame)

    def _has_frames(self) -> bool:
        return bool(self._unsent)

    def _write(self) -> None:
        taken = self._socket.send(self._unsent)
        del self._unsent[:taken]

    def _read(self, arrivals: list[Arrival]) -> tuple[int, int]:
        more = self._socket.recv(_MOST_FRAME_BYTES)
        for frame in self._frames.frames(more):
            self._accept(frame, arrivals)
            if frame.piece:
                self._copy_out(frame.piece, arrivals)
        return len(more), _MOST_FRAME_BYTES

    def _take_word(self, frame: Frame) -> None:
        if frame.kind is Kind.READ:
            self._writer.release(frame.size)
            self._fill()

    def _copy_out(self, size: int, arrivals: list[Arrival]) -> None:
        self._reader.read(self._target(size))
        self._unreported += size
        if self._unreported * PORTIONS >= self._rings[1].size:
            self._hand_over(Frame(Kind.READ, size=self._unreported), None)
            self._unreported = 0
        self._advance(size, arrivals)
