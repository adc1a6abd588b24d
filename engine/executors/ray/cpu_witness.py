"""The time that a task manager's process has used on any core, as a small process beside it tells the head.

The task manager cannot say it itself: while the user's code holds the interpreter lock, no thread of it says anything,
and that it uses a core is the only sign of its life. Needs ``/proc``; without it nothing is known.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from penstock.engine.executors.managers.delivery import HEAD
from penstock.engine.transport.addresses import Transport, ways_of
from penstock.engine.transport.handshake import (
    NONCE_BYTES,
    Handshake,
    Hello,
    Read,
    StrangerError,
    Write,
    connect,
)
from penstock.model.errors import WorkerLostError

_READING = struct.Struct("<Q")
_MOST_BYTES = 4_096
_CONNECT_S = 20.0
_EVERY_S = 1.0

# What it needs to know comes by its input, where no list of processes shows it. It ends with the process that it
# watches, or with the link.
_PROGRAM = """
import json, sys
settings = json.load(sys.stdin)
sys.path[:] = settings["path"]
from penstock.engine.executors.ray.cpu_witness import watch
watch(*settings["of"])
"""


@dataclass(frozen=True, slots=True)
class WitnessSettings:
    """Settings of a witness: where the head listens, the run's token in hexadecimal, its own name, and the run.

    ``tls`` has the paths of `TlsFiles` if the head speaks TLS.
    """

    head: str
    token: str
    name: str
    run: int
    tls: tuple[str, str, str] | None = None


def witness_name(manager: str) -> str:
    """Return the name by which the witness of a task manager connects."""
    return f"{manager} cpu"


def has_witness() -> bool:
    """Return whether this system shows what a process has used."""
    return Path("/proc/self/stat").exists()


def begin_witness(settings: WitnessSettings) -> None:
    """Start the witness of this process."""
    words = {"path": sys.path, "of": [os.getpid(), *astuple(settings)]}
    witness = subprocess.Popen([sys.executable, "-I", "-c", _PROGRAM], stdin=subprocess.PIPE, cwd=os.sep)
    assert witness.stdin is not None
    # One that has ended already is missed by the head, not here.
    with suppress(BrokenPipeError), witness.stdin:
        witness.stdin.write(json.dumps(words).encode())


def watch(watched: int, head: str, token: str, name: str, run: int, tls: Sequence[str] | None) -> None:
    """Tell the head once a second what a process has used, until that or the link ends."""
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    stat, pause = Path(f"/proc/{watched}/stat"), threading.Event()
    with suppress(OSError, StrangerError, WorkerLostError), _connected(head, tls) as end:
        _introduce(end, connect(Hello(name, HEAD, run), bytes.fromhex(token), os.urandom(NONCE_BYTES)))
        while os.getppid() == watched:
            fields = stat.read_bytes().rpartition(b")")[2].split()
            end.sendall(_READING.pack((int(fields[11]) + int(fields[12])) * tick_ns))
            pause.wait(_EVERY_S)


class CpuReading:
    """What the witness of a task manager has said last."""

    def __init__(self, end: "Future[socket.socket]") -> None:
        """Know nothing until its socket has come, which is closed with this."""
        self._end = end
        self._rest = b""
        self._last_ns: int | None = None

    def read_ns(self) -> int | None:
        """Return the time used as far as it was told, in nanoseconds; None: not yet. Never waits."""
        if self._end.done() and not self._end.cancelled():
            with suppress(OSError):
                end = self._end.result()
                end.setblocking(False)
                while more := end.recv(_MOST_BYTES):
                    self._rest += more
        whole = len(self._rest) // _READING.size * _READING.size
        if whole:
            (self._last_ns,) = _READING.unpack_from(self._rest, whole - _READING.size)
            self._rest = self._rest[whole:]
        return self._last_ns

    def close(self) -> None:
        """Let go of the socket, whenever it comes."""
        self._end.add_done_callback(_close)


def _close(end: "Future[socket.socket]") -> None:
    if not end.cancelled() and end.exception() is None:
        end.result().close()


def _connected(head: str, tls: Sequence[str] | None) -> socket.socket:
    (way,) = ways_of(head, Transport.TCP)
    end = socket.socket(way.family)
    end.settimeout(_CONNECT_S)
    end.connect(way.target)
    if tls is not None:
        # Most runs do without, and it is half of what a witness takes.
        from penstock.engine.transport.tls import Tls, TlsFiles

        end = Tls(TlsFiles(*map(Path, tls))).connect(end)
    end.settimeout(_CONNECT_S)
    return end


def _introduce(end: socket.socket, handshake: Handshake) -> None:
    """Make the handshake of who connects."""
    reply = b""
    with suppress(StopIteration):
        command = next(handshake)
        while True:
            reply = b""
            if isinstance(command, Write):
                end.sendall(command.content)
            elif isinstance(command, Read):
                while len(reply) < command.size:
                    more = end.recv(command.size - len(reply))
                    if not more:
                        raise ConnectionResetError("it closed the connection")
                    reply += more
            command = handshake.send(reply)
