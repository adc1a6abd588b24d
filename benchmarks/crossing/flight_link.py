"""A link by Arrow Flight: each side serves one `DoExchange`, into which the other writes.

A handler of Flight runs in a thread of its own and waits in it; there is no way for a loop to ask it between two steps.
"""

import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock.engine.core.contract import Clock
from penstock.engine.core.elements import Batch, Element
from penstock.engine.transport.batch_body import Body
from penstock.engine.transport.frames import Frame, FrameReader, Kind, element_of, frame_of, pack
from penstock.engine.transport.link import Arrival, Arrived, Granted
from penstock.engine.transport.picked_rows import Picks, put_together
from penstock.model.errors import BugError

_MOST_ADDRESS_BYTES = 256
_DESCRIPTOR = flight.FlightDescriptor.for_command(b"link")
_UNLIMITED = [("grpc.max_receive_message_length", -1)]


class FlightLink:
    """A `Link` for channels of one schema."""

    def __init__(self, end: socket.socket, address: str, schema: pa.Schema, clock: Clock) -> None:
        """Serve at the address (of TCP: with port 0), and tell the other side so by the socket, which is closed."""
        self._clock = clock
        self._inbox: deque[tuple[Frame, pa.RecordBatch | None]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._server = _Server(address, self._inbox, self._wake)
        if address.startswith("grpc+tcp"):
            address = f"grpc+tcp://127.0.0.1:{self._server.port}"
        end.sendall(address.encode().ljust(_MOST_ADDRESS_BYTES))
        other = end.recv(_MOST_ADDRESS_BYTES, socket.MSG_WAITALL).decode().strip()
        end.close()
        self._client = flight.connect(other, generic_options=_UNLIMITED)
        self._writer, _ = self._client.do_exchange(_DESCRIPTOR)
        self._writer.begin(schema)
        self._ended = False

    def fileno(self) -> int:
        """Return what the handler makes readable."""
        return self._wake

    def send(self, channel: int, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        """Pick the rows and write them; it waits while the other side's handler does not read."""
        if not isinstance(element, Batch):
            self._writer.write_metadata(pack(frame_of(channel, element)))
            return
        ingest_us = self._clock.wall_us() - (self._clock.monotonic_ns() - element.ingest_ns) // 1_000
        frame = Frame(Kind.ROWS, channel, rows, size=size, value=ingest_us, keep=element.keep)
        self._writer.write_with_metadata(put_together([(element.rows, picks)]), pack(frame))

    def send_state(self, body: Body, size: int, *, more: bool) -> None:
        """Refuse: nothing moves here."""
        raise BugError("a link by Flight is for a comparison, in which nothing moves")

    def carries_state(self) -> bool:
        """Return False: nothing moves here."""
        return False

    def passed(self) -> int:
        """Return 0: nobody asks a link that carries no state."""
        return 0

    def grant(self, channel: int, size: int) -> None:
        """Give credit back."""
        self._writer.write_metadata(pack(Frame(Kind.CREDIT, channel, size=size)))

    def flush(self) -> None:
        """Do nothing: all is written."""

    def has_unsent(self) -> bool:
        """Return that nothing waits."""
        return False

    def is_blocked(self) -> bool:
        """Return that nothing waits."""
        return False

    def receive(self) -> Sequence[Arrival]:
        """Return what the handler has read."""
        if not self._inbox:
            return ()
        with suppress(BlockingIOError):
            # What came may be there before the word of it.
            os.eventfd_read(self._wake)
        arrivals: list[Arrival] = []
        while self._inbox:
            frame, rows = self._inbox.popleft()
            if rows is not None:
                ingest_ns = self._clock.monotonic_ns() - (self._clock.wall_us() - frame.value) * 1_000
                arrivals.append(Arrived(frame.channel, Batch(rows, frame.keep, ingest_ns), frame.rows, frame.size))
            elif frame.kind is Kind.CREDIT:
                arrivals.append(Granted(frame.channel, frame.size))
            elif frame.kind is Kind.BYE:
                self._ended = True
            else:
                arrivals.append(Arrived(frame.channel, element_of(frame)))
        return arrivals

    def end(self) -> None:
        """Say that nothing follows."""
        self._writer.write_metadata(pack(Frame(Kind.BYE)))
        self._writer.done_writing()

    def has_ended(self) -> bool:
        """Return whether the other side has said so."""
        return self._ended

    def close(self) -> None:
        """End client and server."""
        self._writer.close()
        self._client.close()
        self._server.shutdown()
        os.close(self._wake)


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, address: str, inbox: deque[tuple[Frame, pa.RecordBatch | None]], wake: int) -> None:
        super().__init__(address)
        self._inbox = inbox
        self._wake = wake

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Read until the other side has written all."""
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            (frame,) = FrameReader().frames(chunk.app_metadata.to_pybytes())
            self._inbox.append((frame, chunk.data))
            os.eventfd_write(self._wake, 1)
