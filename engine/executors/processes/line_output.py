"""Standard output and error of a head and its task managers: whole lines, whoever else writes to the same place.

Python's own text files write 8 KiB, which end in the middle of a line, or each piece of one where PYTHONUNBUFFERED says
so; and a pipe takes more than 4 KiB in several parts.
"""

import fcntl
import io
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO

from penstock.engine.executors.processes.descriptors import write_all

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LONGEST_LINE_BYTES = 1 << 24
"""A line without end is written in pieces of this."""


class OutputLock:
    """The right to write, of one thread of one process at a time.

    It is a lock on a file that all processes have open. The kernel takes it from a process that ends. One that is
    stopped while it writes keeps it, until the head takes it for dead and kills it.
    """

    def __init__(self, descriptor: int) -> None:
        """Lock this file; to close another descriptor of it would let go of the lock."""
        self._descriptor: int | None = descriptor
        self._renew()
        # Where a user's function forks, another thread may hold it.
        os.register_at_fork(after_in_child=self._renew)

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of it, with nothing of others in between.

        Raises:
            OSError: it cannot be written.
        """
        with self._threads:
            if self._descriptor is None:
                write_all(descriptor, data)
                return
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                write_all(descriptor, data)
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; what is still written is written without a look at other processes."""
        with self._threads:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def _renew(self) -> None:
        self._threads = threading.RLock()


class LineOutput(io.BufferedIOBase):
    """A binary file that gathers what each thread writes, and passes it on by whole lines.

    `flush` passes on what the calling thread has begun as well, `drain` what any thread has.
    """

    def __init__(self, name: str, descriptor: int, lock: OutputLock) -> None:
        """Write to a descriptor, which stays open."""
        self.name = name
        """Name of the file, as ``<stdout>``."""
        self._descriptor = descriptor
        self._lock = lock
        self._begun: dict[int, bytearray] = {}

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor, to which nothing is held back that was flushed."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Take bytes; write the lines that end in them."""
        pieces = bytes(data)
        end = pieces.rfind(b"\n") + 1
        thread = threading.get_ident()
        begun = self._begun.setdefault(thread, bytearray())
        begun += pieces
        ready = len(begun) - len(pieces) + end if end else 0
        if len(begun) - ready >= LONGEST_LINE_BYTES:
            ready = len(begun)
        self._pass_on(thread, begun, ready)
        return len(pieces)

    def flush(self) -> None:
        """Write what the calling thread has begun."""
        thread = threading.get_ident()
        begun = self._begun.get(thread)
        if begun is not None:
            self._pass_on(thread, begun, len(begun))

    def drain(self) -> None:
        """Write what any thread has begun, once no other writes any more."""
        for thread, begun in list(self._begun.items()):
            self._pass_on(thread, begun, len(begun))

    def _pass_on(self, thread: int, begun: bytearray, size: int) -> None:
        lines = bytes(begun[:size])
        del begun[:size]
        if not begun:
            self._begun.pop(thread, None)
        if lines:
            self._lock.write(self._descriptor, lines)


class StandardLines:
    """`sys.stdout` and `sys.stderr` of a process, made to write whole lines where they did before.

    What the user's program or a notebook has put in their place stays as it is.
    """

    def __init__(self, lock: OutputLock) -> None:
        """Begin."""
        self._outputs: list[LineOutput] = []
        self._before = sys.stdout, sys.stderr
        if sys.stdout is sys.__stdout__:
            sys.stdout = self._by_lines(sys.stdout, lock)
        if sys.stderr is sys.__stderr__:
            sys.stderr = self._by_lines(sys.stderr, lock)
        self._files = sys.stdout, sys.stderr

    def drain(self) -> None:
        """Write what any thread has begun."""
        for output in self._outputs:
            output.drain()

    def close(self) -> None:
        """Put back what was there, unless something else is there by now; whoever still has these may go on."""
        if sys.stdout is self._files[0]:
            sys.stdout = self._before[0]
        if sys.stderr is self._files[1]:
            sys.stderr = self._before[1]
        self.drain()

    def _by_lines(self, file: TextIO | None, lock: OutputLock) -> Any:
        """Return the same file by lines; None, which a process without it has, is returned as it is."""
        if file is None:
            return None
        file.flush()
        output = LineOutput(file.name, file.fileno(), lock)
        self._outputs.append(output)
        return io.TextIOWrapper(output, file.encoding, file.errors, "\n", write_through=True)


def is_standard(name: str) -> bool:
    """Return whether `sys.stdout` or `sys.stderr`, by its ``name``, is the process's own, be it by lines."""
    file = getattr(sys, name)
    return file is getattr(sys, f"__{name}__") or isinstance(getattr(file, "buffer", None), LineOutput)
