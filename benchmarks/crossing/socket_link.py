"""A link that sends Arrow messages through a socket: the yardstick that needs neither a ring nor a library."""

import socket
from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import Clock
from penstock.engine.core.elements import Batch, Element
from penstock.engine.transport.frames import HEADER_BYTES, Frame, FrameReader, Kind, element_of, frame_of, pack
from penstock.engine.transport.link import Arrival, Arrived, Granted
from penstock.engine.transport.picked_rows import Picks, put_together
from penstock.engine.transport.ring import Bytes
from penstock.model.errors import WorkerLostError

_SOCKET_BYTES = 4 << 20


class SocketLink:
    """A `Link` for channels of one schema."""

    def __init__(self, end: socket.socket, schema: pa.Schema, clock: Clock) -> None:
        """Take over the connected socket."""
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        end.setblocking(False)
        self._socket = end
        self._schema = schema
        self._clock = clock
        self._unsent: deque[memoryview] = deque()
        self._header = np.empty(HEADER_BYTES, np.uint8)
        self._target, self._filled = self._header, 0
        self._frame: Frame | None = None
        self._ended = False

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def send(self, channel: int, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        """Pick the rows and make a message of them."""
        if not isinstance(element, Batch):
            self._unsent.append(memoryview(pack(frame_of(channel, element))))
            return
        message = put_together([(element.rows, picks)]).serialize()
        ingest_us = self._clock.wall_us() - (self._clock.monotonic_ns() - element.ingest_ns) // 1_000
        frame = Frame(Kind.ROWS, channel, rows, 0, message.size, size, ingest_us, element.keep)
        self._unsent += [memoryview(pack(frame)), memoryview(message)]

    def grant(self, channel: int, size: int) -> None:
        """Give credit back."""
        self._unsent.append(memoryview(pack(Frame(Kind.CREDIT, channel, size=size))))

    def flush(self) -> None:
        """Hand messages to the socket as far as it takes them."""
        while self._unsent:
            try:
                taken = self._socket.sendmsg([self._unsent[place] for place in range(min(64, len(self._unsent)))])
            except BlockingIOError:
                return
            while self._unsent and taken >= len(self._unsent[0]):
                taken -= len(self._unsent.popleft())
            if taken:
                self._unsent[0] = self._unsent[0][taken:]

    def has_unsent(self) -> bool:
        """Return whether something waits for the socket."""
        return bool(self._unsent)

    def receive(self) -> Sequence[Arrival]:
        """Return what has come whole."""
        arrivals: list[Arrival] = []
        while not self._ended:
            try:
                taken = self._socket.recv_into(self._target[self._filled :].data)
            except BlockingIOError:
                break
            if not taken:
                raise WorkerLostError("the link is lost")
            self._filled += taken
            if self._filled == self._target.size:
                self._accept(arrivals)
        return arrivals

    def end(self) -> None:
        """Say that nothing follows."""
        self._unsent.append(memoryview(pack(Frame(Kind.BYE))))

    def has_ended(self) -> bool:
        """Return whether the other side has said so."""
        return self._ended

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _accept(self, arrivals: list[Arrival]) -> None:
        whole, self._target, self._filled = self._target, self._header, 0
        if self._frame is not None:
            arrivals.append(self._rows(self._frame, whole))
            self._frame = None
            return
        (frame,) = FrameReader().frames(whole.tobytes())
        if frame.kind is Kind.ROWS:
            self._frame, self._target = frame, np.empty(frame.body, np.uint8)
        elif frame.kind is Kind.CREDIT:
            arrivals.append(Granted(frame.channel, frame.size))
        elif frame.kind is Kind.BYE:
            self._ended = True
        else:
            arrivals.append(Arrived(frame.channel, element_of(frame)))

    def _rows(self, frame: Frame, message: Bytes) -> Arrived:
        rows = pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)
        ingest_ns = self._clock.monotonic_ns() - (self._clock.wall_us() - frame.value) * 1_000
        return Arrived(frame.channel, Batch(rows, frame.keep, ingest_ns), frame.rows, frame.size)
