"""Says once that a cluster does not answer, and when it answers again, whoever notices first.

A cluster has one `Outage` in a process: its sources, sinks and dead letters are away together.
"""

import threading
from collections.abc import Callable

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock

SAID_AFTER_NS = 1_000_000_000
"""A connection that comes back sooner is not worth a line."""

_outages: "dict[str, Outage]" = {}
_making = threading.Lock()


class Outage:
    """The last known reachability of a cluster. Methods may be called from any thread."""

    def __init__(self, cluster: str, say: Callable[[str], None], clock: Clock) -> None:
        """``say`` takes each line; ``cluster`` is its bootstrap address."""
        self._cluster = cluster
        self._say = say
        self._clock = clock
        self._lock = threading.Lock()
        self._since_ns: int | None = None
        self._reported = False

    def lost(self, why: str = "") -> None:
        """Take in that nobody answers, again and again while it lasts; ``why`` is what the client says."""
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            if self._since_ns is None:
                self._since_ns = now_ns
            if self._reported or now_ns - self._since_ns < SAID_AFTER_NS:
                return
            self._reported = True
        because = f" ({why})" if why else ""
        self._say(f"no broker of Kafka at {self._cluster} answers{because}; waiting for one")

    def back(self) -> None:
        """Take in an answer."""
        with self._lock:
            since_ns, self._since_ns = self._since_ns, None
            reported, self._reported = self._reported, False
        if reported and since_ns is not None:
            lasted_s = (self._clock.monotonic_ns() - since_ns) / 1e9
            self._say(f"Kafka at {self._cluster} answers again after {lasted_s:.0f} s")


def outage_of(cluster: str, say: Callable[[str], None]) -> Outage:
    """Return the one of a cluster, by its bootstrap address; ``say`` is that of who asks first."""
    with _making:
        return _outages.setdefault(cluster, Outage(cluster, say, SystemClock()))
