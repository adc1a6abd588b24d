"""A link over any stream socket: between hosts, and on one host where processes share no memory.

The frames are those of a link by rings, and the bytes of a body follow the frame that they go with. Rows are picked
into pieces that are small enough for a cache, and come into the array of their batch straight from the socket.
"""

import socket
from collections import deque
from itertools import islice

import numpy as np

from penstock.engine.core.contract import Clock
from penstock.engine.transport.batch_body import Body
from penstock.engine.transport.framed_link import FramedLink
from penstock.engine.transport.frames import MOST_FRAME_BYTES, Frame, Kind, frame_at, pack
from penstock.engine.transport.link import Arrival
from penstock.engine.transport.ring import Bytes

PIECE_BYTES = 256 << 10
"""The most of a body that goes with one frame; credit passes between two."""

_MOST_STAGED_BYTES = 2 * PIECE_BYTES
"""Rows are picked when less than this waits for the socket."""

_MOST_GATHERED = 64
"""The most portions that are handed to the socket at once."""

_BEHIND_BODY_BYTES = 1 << 12
"""The most that is read together with the end of a piece of a body: what is read so of the next one is copied again."""


class SocketLink(FramedLink):
    """One end of a link; see `Link`.

    A side that closes a TCP socket may take back what it sent and the other has not read. So `BYE` is answered by
    `READ`, and who has ended has something unsent until that comes.
    """

    def __init__(self, end: socket.socket, clock: Clock, peer: str) -> None:
        """Take over the connected socket. ``peer`` names the other side."""
        super().__init__(end, clock, peer)
        if end.family in (socket.AF_INET, socket.AF_INET6):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unsent: deque[memoryview] = deque()
        self._staged_bytes = 0
        self._held = bytearray(MOST_FRAME_BYTES)
        self._held_bytes = 0
        # What is still to come of the piece that the last frame announced; nothing is held then.
        self._piece_left = 0
        self._farewell_unread = False

    def has_unsent(self) -> bool:
        """Return whether something waits to leave, or the other side has not read up to the end."""
        return super().has_unsent() or (self._farewell_unread and not self._gone and self._lost is None)

    def end(self) -> None:
        """Say that nothing follows, behind all that was sent."""
        self._farewell_unread = True
        super().end()

    def _room_for(self, body: Body) -> Bytes | None:
        if self._staged_bytes >= _MOST_STAGED_BYTES:
            return None
        return np.empty(min(body.left, PIECE_BYTES), np.uint8)

    def _hand_over(self, frame: Frame, piece: Bytes | None) -> None:
        portions = [memoryview(pack(frame))] if piece is None else [memoryview(pack(frame)), piece.data]
        self._unsent += portions
        self._staged_bytes += sum(map(len, portions))

    def _has_frames(self) -> bool:
        return bool(self._unsent)

    def _write(self) -> None:
        unsent = self._unsent
        taken = self._socket.sendmsg(islice(unsent, _MOST_GATHERED))
        self._staged_bytes -= taken
        while unsent and taken >= len(unsent[0]):
            portion = unsent.popleft()
            taken -= len(portion)
        if taken:
            unsent[0] = unsent[0][taken:]
        self._fill()

    def _read(self, arrivals: list[Arrival]) -> tuple[int, int]:
        if self._piece_left:
            target = self._target(self._piece_left)
            behind = memoryview(self._held)[:_BEHIND_BODY_BYTES]
            taken, *_ = self._socket.recvmsg_into([target.data, behind])
            room = target.size + len(behind)
            self._held_bytes = max(0, taken - target.size)
            self._take_piece(min(taken, target.size), arrivals)
        else:
            behind = memoryview(self._held)[self._held_bytes :]
            taken, room = self._socket.recv_into(behind), len(behind)
            self._held_bytes += taken
        self._take_frames(arrivals)
        return taken, room

    def _take_frames(self, arrivals: list[Arrival]) -> None:
        at, end = 0, self._held_bytes
        while at < end and (whole := frame_at(self._held, at, end)) is not None:
            frame, at = whole
            self._accept(frame, arrivals)
            if frame.piece:
                self._piece_left = frame.piece
                target = self._target(min(frame.piece, end - at))
                target[:] = np.frombuffer(self._held, np.uint8, target.size, at)
                at += target.size
                self._take_piece(target.size, arrivals)
        self._held[: end - at] = self._held[at:end]
        self._held_bytes = end - at

    def _take_piece(self, size: int, arrivals: list[Arrival]) -> None:
        self._piece_left -= size
        self._advance(size, arrivals)

    def _take_word(self, frame: Frame) -> None:
        if frame.kind is Kind.BYE:
            self._hand_over(Frame(Kind.READ), None)
        else:
            self._farewell_unread = False
