"""The control store of a Ray cluster as a driver sees it: it answers at its address, or the cluster is gone.

Ray itself ends a process whose control store has not answered for a minute, with no word that a user could read.
"""

import socket
from collections.abc import Callable
from contextlib import suppress

GONE_S = 20.0
"""A control store that nobody can connect to for so long is gone; one that is durable is back before."""

CONNECT_S = 2.0


class ControlStore:
    """The control store at an address. Methods may be called from any thread."""

    def __init__(self, address: str, monotonic_s: Callable[[], float]) -> None:
        """Connect to nothing yet; ``address`` is HOST:PORT."""
        self.address = address
        self._monotonic_s = monotonic_s
        self._away_since_s: float | None = None

    def answers(self) -> bool:
        """Return whether somebody listens at the address."""
        host, _, port = self.address.rpartition(":")
        with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
            self._away_since_s = None
            return True
        if self._away_since_s is None:
            self._away_since_s = self._monotonic_s()
        return False

    @property
    def is_gone(self) -> bool:
        """True if it did not answer for `GONE_S`, as often as it was asked."""
        return self._away_since_s is not None and self._monotonic_s() - self._away_since_s >= GONE_S
