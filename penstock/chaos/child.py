"""A pipeline in a process of its own that can be watched and killed; started and driven by `chaos`.

It says on its stderr which failpoints it passes; whatever else stands there is kept for messages.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from penstock.engine.core.failpoint_settings import SAID

KEPT_LINES = 40

_PASSED_ON = re.compile(r"pid=(\d+)(?:, ip=([^)]+))?\)")
"""What Ray puts before a line of an actor; the address only if the actor is on another node than the command."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """A process of a cluster that has said something: its number on its host, and that host (None: the command's)."""

    pid: int
    host: str | None = None


class Child:
    """A running process. Points come in the order in which it passed them."""

    def __init__(self, pid: int, stderr: IO[bytes], wait: Callable[[], int]) -> None:
        """Read ``stderr`` from now on; ``wait`` waits for the end and returns minus the signal, or the exit code."""
        self.pid = pid
        self.said: deque[str] = deque(maxlen=KEPT_LINES)
        self.speakers: Mapping[str, Speaker] = {}
        """The process of each actor by the name that it says before its points, as tm-0: the latest of that name.

        Whoever looks at it keeps what it was then: it is replaced as others speak.
        """
        self.ended = False
        self._wait = wait
        self._points: SimpleQueue[tuple[float, str] | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, args=(stderr,), name=f"chaos-{pid}", daemon=True)
        self._reader.start()

    def next_point(self, timeout_s: float) -> tuple[float, str] | None:
        """Return when (monotonic seconds) which point was passed next, with the action if it is not ``say``.

        None: nothing was said for so long, or the process has ended; `ended` tells.
        """
        if self.ended:
            return None
        try:
            point = self._points.get(timeout=max(0.0, timeout_s))
        except Empty:
            return None
        self.ended = point is None
        return point

    def kill(self) -> None:
        """Send SIGKILL; nothing happens if it has ended."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end; return the exit code, or minus the signal."""
        self._reader.join()
        return self._wait()

    def _read(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                text = line.decode(errors="replace").rstrip()
                # Ray puts the name of a task manager before what it prints.
                sender, said, point = text.partition(SAID)
                if said:
                    self._note_speaker(sender, point)
                    self._points.put((time.monotonic(), point.removesuffix(" say")))
                else:
                    self.said.append(text)
        self._points.put(None)

    def _note_speaker(self, sender: str, point: str) -> None:
        name, _, _ = point.rpartition("/")
        passed_on = _PASSED_ON.search(sender)
        if name and passed_on is not None:
            self.speakers = {**self.speakers, name: Speaker(int(passed_on[1]), passed_on[2])}


Start = Callable[[Sequence[str], Mapping[str, str], Path], Child]
"""Starts ``penstock`` with arguments and further environment variables; its stdout goes to a file."""


def spawn(arguments: Sequence[str], environment: Mapping[str, str], stdout: Path) -> Child:
    """Start a fresh interpreter."""
    with stdout.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.PIPE,
        )
    assert process.stderr is not None
    return Child(process.pid, process.stderr, process.wait)
