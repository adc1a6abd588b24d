"""A link on one host: rows in two rings of shared memory, one each way, frames of what was written by a Unix socket.

The socket is wake-up, order and death in one. Rows are copied into the ring as they are picked, and out of it as they
are received: what waits in channels holds nothing of the ring, and what waits for the ring is bounded by credit.
"""

import socket
from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import Clock
from penstock.engine.core.elements import Batch, Element
from penstock.engine.transport.batch_body import BatchCodec, Body, plain_body
from penstock.engine.transport.frames import Frame, FrameReader, Kind, element_of, frame_of, pack
from penstock.engine.transport.link import Arrival, Arrived, Granted
from penstock.engine.transport.picked_rows import Picks
from penstock.engine.transport.ring import Bytes, Ring, RingReader, RingWriter
from penstock.model.errors import WorkerLostError

PORTIONS = 8
"""A ring is reported as read in portions of an eighth, and a batch is put into it in no smaller pieces than two."""

_MOST_FRAME_BYTES = 1 << 16
"""The most that is taken from the socket at once."""


class RingLink:
    """One end of a link; see `Link`."""

    def __init__(self, end: socket.socket, outgoing: Ring, incoming: Ring, clock: Clock, peer: str) -> None:
        """Take over the socket, by which both sides have agreed on the rings. ``peer`` names the other side."""
        end.setblocking(False)
        self._socket = end
        self._rings = outgoing, incoming
        self._clock = clock
        self._peer = peer
        self._writer, self._reader = RingWriter(outgoing), RingReader(incoming)
        self._frames = FrameReader()
        self._outbox: deque[tuple[Frame, Body | None]] = deque()
        self._unsent = bytearray()
        self._unreported = 0
        self._under_way: tuple[Frame, Bytes] | None = None
        self._filled = 0
        self._outgoing_codecs: dict[int, BatchCodec] = {}
        self._incoming_codecs: dict[int, BatchCodec] = {}
        self._ended = False
        self._lost: str | None = None

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def send(self, channel: int, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        """Send an element; a batch goes into the ring at once if it has room."""
        if not isinstance(element, Batch):
            self._outbox.append((frame_of(channel, element), None))
            self._fill()
            return
        codec = self._outgoing_codecs.get(channel)
        if codec is None or (codec.schema is not element.rows.schema and not codec.schema.equals(element.rows.schema)):
            codec = self._outgoing_codecs[channel] = BatchCodec(element.rows.schema)
            schema = plain_body(codec.schema.serialize())
            self._outbox.append((Frame(Kind.SCHEMA, channel, body=schema.size), schema))
        body = codec.encode(element.rows, picks)
        ingest_us = self._clock.wall_us() - (self._clock.monotonic_ns() - element.ingest_ns) // 1_000
        frame = Frame(Kind.ROWS, channel, rows, 0, body.size, size, ingest_us, element.keep, body.nulls)
        self._outbox.append((frame, body))
        self._fill()

    def grant(self, channel: int, size: int) -> None:
        """Give credit back; it overtakes rows that wait for room in the ring."""
        self._unsent += pack(Frame(Kind.CREDIT, channel, size=size))

    def flush(self) -> None:
        """Hand frames to the socket as far as it takes them."""
        while self._unsent and self._lost is None:
            try:
                taken = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            except OSError as error:
                # What the other side had sent before is still to be received.
                self._unsent.clear()
                self._lost = str(error)
                return
            del self._unsent[:taken]

    def has_unsent(self) -> bool:
        """Return whether frames wait for the socket or batches for the ring."""
        return bool(self._unsent or self._outbox) and self._lost is None

    def receive(self) -> Sequence[Arrival]:
        """Return what has come; copy it out of the ring."""
        arrivals: list[Arrival] = []
        while True:
            try:
                more = self._socket.recv(_MOST_FRAME_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                more, self._lost = b"", str(error)
            if not more:
                if arrivals or (self._ended and not (self._outbox or self._unsent)):
                    # The end of the stream stays where it is.
                    return arrivals
                raise WorkerLostError(f"the link to {self._peer} is lost: {self._lost or 'it was closed'}")
            for frame in self._frames.frames(more):
                self._accept(frame, arrivals)
            if len(more) < _MOST_FRAME_BYTES:
                break
        self.flush()
        return arrivals

    def end(self) -> None:
        """Say that nothing follows, behind all that was sent."""
        self._outbox.append((Frame(Kind.BYE), None))
        self._fill()

    def has_ended(self) -> bool:
        """Return whether the other side has said that nothing follows."""
        return self._ended

    def close(self) -> None:
        """Close the socket and let go of both rings."""
        self._socket.close()
        for ring in self._rings:
            ring.close()

    def _fill(self) -> None:
        """Put what waits into the ring, as far as it has room, and make frames of it."""
        while self._outbox:
            frame, body = self._outbox[0]
            while body is not None and body.left:
                if self._writer.room < min(body.left, self._rings[0].size * 2 // PORTIONS):
                    return
                piece = body.write(self._writer.free()[: body.left])
                self._writer.advance(piece)
                self._unsent += pack(frame._replace(piece=piece))
                frame = Frame(Kind.PIECE)
                self._outbox[0] = frame, body
            if body is None or not body.size:
                self._unsent += pack(frame)
            self._outbox.popleft()

    def _accept(self, frame: Frame, arrivals: list[Arrival]) -> None:
        match frame.kind:
            case Kind.ROWS | Kind.SCHEMA:
                self._under_way, self._filled = (frame, np.empty(frame.body, np.uint8)), 0
                self._take_piece(frame.piece, arrivals)
            case Kind.PIECE:
                self._take_piece(frame.piece, arrivals)
            case Kind.READ:
                self._writer.release(frame.size)
                self._fill()
            case Kind.CREDIT:
                arrivals.append(Granted(frame.channel, frame.size))
            case Kind.BYE:
                self._ended = True
            case _:
                arrivals.append(Arrived(frame.channel, element_of(frame)))

    def _take_piece(self, size: int, arrivals: list[Arrival]) -> None:
        assert self._under_way is not None
        frame, body = self._under_way
        self._reader.read(body[self._filled : self._filled + size])
        self._filled += size
        self._unreported += size
        if self._unreported * PORTIONS >= self._rings[1].size:
            self._unsent += pack(Frame(Kind.READ, size=self._unreported))
            self._unreported = 0
        if self._filled < body.size:
            return
        self._under_way = None
        if frame.kind is Kind.SCHEMA:
            self._incoming_codecs[frame.channel] = BatchCodec(pa.ipc.read_schema(pa.py_buffer(body)))
            return
        rows = self._incoming_codecs[frame.channel].decode(frame.rows, frame.tail, body)
        ingest_ns = self._clock.monotonic_ns() - (self._clock.wall_us() - frame.value) * 1_000
        batch = Batch(rows, frame.keep, ingest_ns)
        arrivals.append(Arrived(frame.channel, batch, frame.rows, frame.size))
