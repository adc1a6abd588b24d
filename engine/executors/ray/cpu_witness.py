"""The time that a task manager's process has used on any core, as a small process beside it tells the head.

The task manager cannot say it itself: while the user's code holds the interpreter lock, no thread of it says anything,
and that it uses a core is the only sign of its life. Needs ``/proc``; without it nothing is known.
"""

import os
import socket
import struct
import subprocess
import sys
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

_READING = struct.Struct("<Q")
_MOST_BYTES = 4_096

# It imports next to nothing and takes some 8 MB. It ends with the process that it watches, or with the link.
_PROGRAM = """
import os, struct, sys, time
link, watched = int(sys.argv[1]), os.getppid()
tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
try:
    while os.getppid() == watched:
        with open(f"/proc/{watched}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        os.write(link, struct.pack("<Q", (int(fields[11]) + int(fields[12])) * tick_ns))
        time.sleep(1)
except OSError:
    pass
"""


def witness_name(manager: str) -> str:
    """Return the name by which the witness of a task manager connects."""
    return f"{manager} cpu"


def has_witness() -> bool:
    """Return whether this system shows what a process has used."""
    return Path("/proc/self/stat").exists()


def begin_witness(end: socket.socket) -> None:
    """Start the witness of this process; it takes the connected socket over."""
    with end:
        end.setblocking(True)
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(end.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=(end.fileno(),),
            cwd=os.sep,
        )


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
