"""The links that are compared, by name, between two processes that meet at a path."""

import socket
import struct
import time
from pathlib import Path

import pyarrow as pa

from penstock.benchmarks.crossing.flight_link import FlightLink
from penstock.benchmarks.crossing.threaded_link import ThreadedLink
from penstock.engine.core.clock import SystemClock
from penstock.engine.transport.handshake import RING_BYTES, join_by_ring
from penstock.engine.transport.link import Link
from penstock.engine.transport.socket_link import SocketLink

LINKS = ("ring", "ring, thread", "socket unix", "socket tcp", "flight unix", "flight tcp")
"""Flight always receives by a thread; TCP is that of one host."""

_TIMEOUT_S = 30.0
_PORT = struct.Struct("<H")


def open_link(name: str, side: int, meeting: Path, schema: pa.Schema, ring_bytes: int | None = None) -> Link:
    """Open one end; side 0 listens at the path, side 1 connects to it."""
    end, clock = _meet(side, meeting), SystemClock()
    match name.removesuffix(", thread"):
        case "ring":
            link: Link = join_by_ring(end, clock, "the other process", ring_bytes or RING_BYTES)
        case "socket unix":
            link = SocketLink(end, clock, "the other process")
        case "socket tcp":
            link = SocketLink(_by_tcp(end, side), clock, "the other process")
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


def _by_tcp(end: socket.socket, side: int) -> socket.socket:
    """Return a connection by TCP in the place of a Unix socket, which is closed."""
    if side == 0:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            end.sendall(_PORT.pack(listener.getsockname()[1]))
            connection, _ = listener.accept()
    else:
        connection = socket.create_connection(("127.0.0.1", *_PORT.unpack(end.recv(_PORT.size))))
    end.close()
    return connection
