"""What task managers print, brought to what stands in for the head's standard output and error.

A notebook puts objects in their place, as `contextlib.redirect_stdout` does: they have no descriptor that another
process could write to.
"""

import codecs
import os
import selectors
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

from penstock.engine.executors.processes.descriptors import above_standard, write_all
from penstock.engine.executors.processes.line_output import is_standard

QUIET_S = 0.1
"""For how long no more must have come before a line is passed on that has not ended."""

_READ = 1 << 16


@dataclass(slots=True)
class _Forwarded:
    """One of the two: a pipe, and the file that its text goes to, or its ``own`` descriptor if that takes none."""

    file: TextIO
    own: int
    reader: int
    writer: int
    decoder: codecs.IncrementalDecoder
    begun: bytearray = field(default_factory=bytearray)

    def take(self, data: bytes) -> None:
        """Take what was printed, and pass on the lines that have ended."""
        self.begun += data
        self.pass_on(self.begun.rfind(b"\n") + 1)

    def pass_on(self, size: int) -> None:
        """Pass on so many of the bytes that have come."""
        data = bytes(self.begun[:size])
        del self.begun[:size]
        if not data:
            return
        try:
            self.file.write(self.decoder.decode(data))
        except Exception:
            # Whoever has put it there may have closed it.
            with suppress(OSError):
                write_all(self.own, data)


class ForwardedOutput:
    """Pipes for task managers in the place of those standard files that something stands in for, and their reader.

    What stands there when it is made gets the text of all of them, from a thread.
    """

    def __init__(self) -> None:
        """Begin; without a thread if both files are the process's own, which task managers inherit."""
        self._files: dict[str, _Forwarded] = {}
        self._thread: threading.Thread | None = None
        for name, own in (("stdout", 1), ("stderr", 2)):
            file = getattr(sys, name)
            if file is not None and not is_standard(name):
                self._files[name] = _forwarded(file, own, getattr(sys, f"__{name}__"))
        if self._files:
            self._woken, self._waker = (above_standard(end) for end in os.pipe())
            self._thread = threading.Thread(target=self._run, name="penstock-output", daemon=True)
            self._thread.start()

    def descriptor(self, name: str) -> int | None:
        """Return where a task manager is to print to as its ``stdout`` or ``stderr``; None: where this process does."""
        forwarded = self._files.get(name)
        return None if forwarded is None else forwarded.writer

    def close(self) -> None:
        """Pass on what was printed so far; what programs still print that task managers have left goes nowhere."""
        if self._thread is None:
            return
        os.write(self._waker, b"\0")
        self._thread.join()
        self._thread = None
        descriptors = [self._woken, self._waker]
        descriptors += [end for forwarded in self._files.values() for end in (forwarded.reader, forwarded.writer)]
        for descriptor in descriptors:
            os.close(descriptor)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for forwarded in self._files.values():
                selector.register(forwarded.reader, selectors.EVENT_READ, forwarded)
            is_over = False
            while not is_over:
                has_begun = any(forwarded.begun for forwarded in self._files.values())
                ready = selector.select(QUIET_S if has_begun else None)
                is_over = any(key.data is None for key, _ in ready)
                for key, _ in ready:
                    if key.data is not None:
                        key.data.take(os.read(key.data.reader, _READ))
                if not ready:
                    self._pass_all_on()
        for forwarded in self._files.values():
            os.set_blocking(forwarded.reader, False)
            with suppress(BlockingIOError):
                while data := os.read(forwarded.reader, _READ):
                    forwarded.take(data)
        self._pass_all_on()

    def _pass_all_on(self) -> None:
        for forwarded in self._files.values():
            forwarded.pass_on(len(forwarded.begun))


def _forwarded(file: TextIO, own: int, standard: TextIO | None) -> _Forwarded:
    reader, writer = (above_standard(end) for end in os.pipe())
    # Task managers have the environment of this process, and so write as it would.
    encoding = "utf-8" if standard is None else standard.encoding
    return _Forwarded(file, own, reader, writer, codecs.getincrementaldecoder(encoding)("replace"))
