"""Descriptors of files that a process shares with others."""

import os
import select


def above_standard(descriptor: int) -> int:
    """Return a descriptor of the same file that is none of the standard three, which the process may have closed."""
    import fcntl

    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however long its reader takes.

    Raises:
        OSError: it cannot be written.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            # Whoever shares the terminal may have told it not to wait.
            waiting = select.poll()
            waiting.register(descriptor, select.POLLOUT)
            waiting.poll()
