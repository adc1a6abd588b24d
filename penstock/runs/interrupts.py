"""Signals as stops: the first Ctrl-C or SIGTERM asks a job to stop, a Ctrl-C after it ends the run, whatever hangs.

Python calls signal handlers only between two steps of the main thread, which may hang in a library; so a thread listens
to the signals, too, and ends the process if the main thread has not ended the run a moment after the second.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol

from penstock.engine.jobs.recovery import StartInterrupted

GRACE_S = 3.0
"""Time limit for the main thread's orderly end after a second Ctrl-C."""

INTERRUPTED = 130
"""The exit code of a process that Ctrl-C has ended: 128 and the number of the signal."""

_ENDED = b"ended at once by a second Ctrl-C; with checkpoints the last complete one stands\n"


class Stoppable(Protocol):
    """A job that signals stop."""

    @property
    def has_run(self) -> bool:
        """True if it has ever run: before that a stop has nothing to keep."""

    def stop(self, *, drain: bool = False) -> None:
        """Ask it to stop; called by a signal handler."""


class Interrupts:
    """Effect of signals meanwhile: until a job is guarded, or has run, the first one raises `StartInterrupted`.

    Python drops what is raised while a destructor runs, so the job is asked to stop besides.
    """

    def __init__(self) -> None:
        """Guard nothing yet."""
        self._job: Stoppable | None = None
        self._interrupted = False

    def guard(self, job: Stoppable) -> None:
        """Let signals stop this job from now on, the one before as well."""
        self._job = job
        if self._interrupted:
            job.stop()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT or SIGTERM."""
        if self._interrupted and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._interrupted = True
        if self._job is None:
            raise StartInterrupted
        has_run = self._job.has_run
        self._job.stop()
        if not has_run:
            raise StartInterrupted


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Handle SIGINT and SIGTERM meanwhile; in another thread than the main one, do nothing."""
    handling = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield handling
        return
    before = {number: signal.signal(number, handling.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    watch = _Watch()
    try:
        yield handling
    finally:
        watch.close()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Watch:
    """Receives signals even while the main thread hangs."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._run, name="penstock-signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The run has ended."""
        signal.set_wakeup_fd(self._before)
        self._over.set()
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def _run(self) -> None:
        announced = False
        while number := os.read(self._reader, 1):
            if self._before != -1:
                with suppress(OSError):
                    os.write(self._before, number)
            if announced and number[0] == signal.SIGINT and not self._over.wait(GRACE_S):
                os.write(2, _ENDED)
                os._exit(INTERRUPTED)
            announced |= number[0] in (signal.SIGINT, signal.SIGTERM)
