"""The links that are compared, by name, between two processes that meet at a path."""

import socket
import time
from pathlib import Path

import pyarrow as pa

from penstock.benchmarks.crossing.flight_link import FlightLink
from penstock.benchmarks.crossing.threaded_link import ThreadedLink
from penstock.engine.core.clock import SystemClock
from penstock.engine.transport.addresses import Transport
from penstock.engine.transport.greeting import RING_BYTES
from penstock.engine.transport.link import Link
from penstock.engine.transport.meeting import MeetingPlace
from penstock.engine.transport.socket_link import SocketLink

LINKS = ("ring", "ring, thread", "socket unix", "socket tcp", "flight unix", "flight tcp")
"""Flight always receives by a thread; TCP is that of one host."""

_TIMEOUT_S = 30.0
_ADDRESS_BYTES = 128


def open_link(name: str, side: int, meeting: Path, schema: pa.Schema, ring_bytes: int | None = None) -> Link:
    """Open one end; side 0 listens at the path, side 1 connects to it."""
    end, clock = _meet(side, meeting), SystemClock()
    link: Link
    match name.removesuffix(", thread"):
        case "ring":
            link = _join(end, side, Transport.RING, ring_bytes or RING_BYTES)
        case "socket unix":
            link = SocketLink(end, clock, "the other process")
        case "socket tcp":
            link = _join(end, side, Transport.TCP, RING_BYTES)
        case "flight unix":
            link = FlightLink(end, f"grpc+unix://{meeting}.{side}", schema, clock)
        case "flight tcp":
            link = FlightLink(end, "grpc+tcp://127.0.0.1:0", schema, clock)
    return ThreadedLink(link) if name.endswith(", thread") else link


def _meet(side: int, meeting: Path) -> socket.socket:
    if side == 0:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(meeting))
            listener.listen(1)
            listener.settimeout(_TIMEOUT_S)
            end, _ = listener.accept()
        meeting.unlink()
    else:
        end = socket.socket(socket.AF_UNIX)
        until_s = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                end.connect(str(meeting))
                break
            except OSError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.01)
    end.settimeout(_TIMEOUT_S)
    return end


def _join(end: socket.socket, side: int, transport: Transport, ring_bytes: int) -> Link:
    """Return a link between places that learn of each other by a Unix socket, which is closed."""
    place = MeetingPlace(str(side), b"crossing", SystemClock(), transport, ring_bytes=ring_bytes)
    with end:
        end.sendall(place.address.encode().ljust(_ADDRESS_BYTES))
        address = end.recv(_ADDRESS_BYTES, socket.MSG_WAITALL).decode().strip()
        other = str(1 - side)
        link = place.meet(1, {other: address}, lambda: False)[other]
    place.close()
    return link
