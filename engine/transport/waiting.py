"""What a worker loop waits on when it has nothing to do: descriptors, and a wake-up from any thread."""

import os
import select
from collections.abc import Collection
from contextlib import suppress


class Waiter:
    """Descriptors that become readable, and `wake`, which any thread and any signal handler may call.

    Everything else belongs to the thread of the loop.
    """

    def __init__(self) -> None:
        """Begin with nothing but the wake-up."""
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.epoll()
        self._poll.register(self._woken, select.EPOLLIN)

    def add(self, descriptor: int) -> None:
        """Wait for this descriptor, too."""
        self._poll.register(descriptor, select.EPOLLIN)

    def remove(self, descriptor: int) -> None:
        """Wait for it no longer; it must still be open."""
        self._poll.unregister(descriptor)

    def wait(self, timeout_s: float | None) -> Collection[int]:
        """Wait for a wake-up or a descriptor, or until so many seconds have passed; None: for ever.

        Returns the descriptors that are readable. One `wake` since the last wait, or several, ends one wait.
        """
        readable = [descriptor for descriptor, _ in self._poll.poll(timeout_s)]
        if self._woken in readable:
            readable.remove(self._woken)
            os.eventfd_read(self._woken)
        return readable

    def wake(self) -> None:
        """End the wait, or the next one. After `close` it does nothing."""
        if self._woken >= 0:
            # It cannot count any further; then there is a wake-up to be seen.
            with suppress(BlockingIOError):
                os.eventfd_write(self._woken, 1)

    def close(self) -> None:
        """Let go of everything; threads that may be in `wake` at this moment must have ended."""
        woken, self._woken = self._woken, -1
        if woken >= 0:
            self._poll.close()
            os.close(woken)
