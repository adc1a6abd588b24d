"""What all links have alike: frames of elements on a stream socket, and the bodies of batches in pieces.

How a piece of a body gets from one side to the other is each link's own.
"""

import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import Clock
from penstock.engine.core.elements import Batch, Element
from penstock.engine.transport.batch_body import BatchCodec, Body, plain_body
from penstock.engine.transport.frames import Frame, Kind, decode_shares, element_of, encode_shares, frame_of
from penstock.engine.transport.link import Arrival, Arrived, Granted, StateArrived
from penstock.engine.transport.picked_rows import Picks
from penstock.engine.transport.ring import Bytes
from penstock.model.errors import WorkerLostError


class FramedLink(ABC):
    """One end of a link; see `Link`."""

    def __init__(self, end: socket.socket, clock: Clock, peer: str) -> None:
        """Take over the connected socket. ``peer`` names the other side."""
        end.setblocking(False)
        self._socket = end
        self._clock = clock
        self._peer = peer
        self._outbox: deque[tuple[Frame, Body | None]] = deque()
        self._outgoing_codecs: dict[int, BatchCodec] = {}
        self._incoming_codecs: dict[int, BatchCodec] = {}
        # Bodies in the outbox that are state of a move.
        self._states: set[int] = set()
        # Whether a part of what a move hands over is coming, or is to follow.
        self._awaits_state = False
        self._passed = 0
        self._under_way: tuple[Frame, Bytes] | None = None
        self._filled = 0
        # Credit that was not handed to the socket is no loss to a side that has ended; elements are.
        self._holds_elements = False
        self._ended = False
        self._gone = False
        """Whether the other side has closed its end, be it in order or not."""
        self._lost: str | None = None

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def send(self, channel: int, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        """Send an element; rows are picked as soon as there is room for them."""
        if isinstance(element, Batch):
            self._outbox += self._batch_frames(channel, element, picks, rows, size)
        else:
            self._outbox.append((frame_of(channel, element), None))
        self._fill()

    def send_state(self, body: Body, size: int, *, more: bool) -> None:
        """Send a part of what a move hands over, behind all that was sent."""
        self._outbox.append((Frame(Kind.STATE, body=body.size, size=size, value=more), body))
        self._states.add(id(body))
        self._fill()

    def grant(self, channel: int, size: int) -> None:
        """Give credit back; it overtakes rows that wait for room."""
        self._hand_over(Frame(Kind.CREDIT, channel, size=size), None)

    def flush(self) -> None:
        """Hand frames to the socket as far as it takes them."""
        while self._lost is None and self._has_frames():
            try:
                self._write()
                self._passed += 1
            except BlockingIOError:
                return
            except OSError as error:
                # What the other side had sent before is still to be received.
                self._lost = str(error)
                return
            if not self._has_frames():
                self._holds_elements = False

    def has_unsent(self) -> bool:
        """Return whether frames wait for the socket or batches for room."""
        return self._lost is None and bool(self._outbox or self._has_frames())

    def is_blocked(self) -> bool:
        """Return whether frames wait for the socket to become writable."""
        return self._lost is None and self._has_frames()

    def carries_state(self) -> bool:
        """Return whether state of a move waits for room, or has come in part."""
        if self._lost is not None or self._gone:
            return False
        return bool(self._states) or self._awaits_state

    def passed(self) -> int:
        """Return how often the socket has taken or given something so far."""
        return self._passed

    def receive(self) -> Sequence[Arrival]:
        """Return what has come."""
        arrivals: list[Arrival] = []
        while True:
            try:
                taken, room = self._read(arrivals)
                self._passed += taken > 0
            except BlockingIOError:
                break
            except OSError as error:
                taken, room, self._lost = 0, 0, str(error)
            if not taken:
                self._gone = True
                if arrivals or (self._ended and not (self._outbox or self._holds_elements)):
                    # The end of the stream stays where it is.
                    return arrivals
                raise WorkerLostError(f"the link to {self._peer} is lost: {self._lost or 'it was closed'}")
            if taken < room:
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
        """Close the socket."""
        self._socket.close()

    @abstractmethod
    def _room_for(self, body: Body) -> Bytes | None:
        """Return where the next piece of a body goes, of a size that is a multiple of `ALIGNMENT`; None: no room."""

    @abstractmethod
    def _hand_over(self, frame: Frame, piece: Bytes | None) -> None:
        """Let a frame, and the piece that was written where `_room_for` said, wait for the socket."""

    @abstractmethod
    def _has_frames(self) -> bool:
        """Return whether frames wait for the socket."""

    @abstractmethod
    def _write(self) -> None:
        """Hand frames to the socket, once; it may raise whatever the socket does."""

    @abstractmethod
    def _read(self, arrivals: list[Arrival]) -> tuple[int, int]:
        """Read from the socket, once, and add what has arrived; return how many bytes were taken and could have been.

        It may raise whatever the socket does.
        """

    @abstractmethod
    def _take_word(self, frame: Frame) -> None:
        """Take in a frame of kind `READ`, or the other side's `BYE`."""

    def _batch_frames(
        self, channel: int, batch: Batch, picks: Picks | None, rows: int, size: int
    ) -> Iterator[tuple[Frame, Body]]:
        codec = self._outgoing_codecs.get(channel)
        if codec is None or (codec.schema is not batch.rows.schema and not codec.schema.equals(batch.rows.schema)):
            codec = self._outgoing_codecs[channel] = BatchCodec(batch.rows.schema)
            schema = plain_body(codec.schema.serialize())
            yield Frame(Kind.SCHEMA, channel, body=schema.size), schema
        body = codec.encode(batch.rows, picks)
        ingest_us = self._clock.wall_us() - (self._clock.monotonic_ns() - batch.ingest_ns) // 1_000
        tail = body.nulls
        if batch.branches or batch.keys or batch.sic:
            # What else is said follows the nulls, which are there then.
            tail = (body.nulls or bytes(len(codec.plain))) + encode_shares(batch)
        yield Frame(Kind.ROWS, channel, rows, 0, body.size, size, ingest_us, batch.keep, tail), body

    def _fill(self) -> None:
        """Write what waits, as far as there is room, and make frames of it."""
        while self._outbox:
            frame, body = self._outbox[0]
            while body is not None and body.left:
                room = self._room_for(body)
                if room is None:
                    return
                piece = room[: body.write(room)]
                self._hand_over(frame._replace(piece=piece.size), piece)
                frame = Frame(Kind.PIECE)
                self._outbox[0] = frame, body
            if body is None or not body.size:
                self._hand_over(frame, None)
            self._outbox.popleft()
            self._states.discard(id(body))
            self._holds_elements = True

    def _accept(self, frame: Frame, arrivals: list[Arrival]) -> None:
        """Take in a frame; the piece of a body that goes with it is written to `_target`, then told to `_advance`."""
        match frame.kind:
            case Kind.ROWS | Kind.SCHEMA | Kind.STATE:
                self._under_way, self._filled = (frame, np.empty(frame.body, np.uint8)), 0
                self._awaits_state |= frame.kind is Kind.STATE
                self._advance(0, arrivals)
            case Kind.PIECE:
                pass
            case Kind.CREDIT:
                arrivals.append(Granted(frame.channel, frame.size))
            case Kind.READ:
                self._take_word(frame)
            case Kind.BYE:
                self._ended = True
                self._take_word(frame)
            case _:
                arrivals.append(Arrived(frame.channel, element_of(frame)))

    def _target(self, size: int) -> Bytes:
        """Return where the next bytes of the body under way go."""
        assert self._under_way is not None
        return self._under_way[1][self._filled : self._filled + size]

    def _advance(self, size: int, arrivals: list[Arrival]) -> None:
        """Take in that so many bytes of the body under way were written to its target."""
        assert self._under_way is not None
        frame, body = self._under_way
        self._filled += size
        if self._filled < body.size:
            return
        self._under_way = None
        if frame.kind is Kind.STATE:
            self._awaits_state = bool(frame.value)
            arrivals.append(StateArrived(pa.py_buffer(body).slice(0, frame.size)))
            return
        if frame.kind is Kind.SCHEMA:
            self._incoming_codecs[frame.channel] = BatchCodec(pa.ipc.read_schema(pa.py_buffer(body)))
            return
        codec = self._incoming_codecs[frame.channel]
        nulls, shares = frame.tail[: len(codec.plain)], frame.tail[len(codec.plain) :]
        branches, keys, sic = decode_shares(shares)
        rows = codec.decode(frame.rows, nulls, body)
        ingest_ns = self._clock.monotonic_ns() - (self._clock.wall_us() - frame.value) * 1_000
        batch = Batch(rows, frame.keep, ingest_ns, branches=branches, keys=keys, sic=sic)
        arrivals.append(Arrived(frame.channel, batch, frame.rows, frame.size))
