"""Both ends of a link in this process, for tests of links."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.engine.core.clock import ManualClock
from penstock.engine.transport.handshake import join_by_ring
from penstock.engine.transport.ring_link import RingLink

SMALL_RING_BYTES = 64 << 10


@contextmanager
def ring_links(ring_bytes: int = SMALL_RING_BYTES) -> Iterator[tuple[RingLink, RingLink]]:
    """Give two ends that have agreed, and close them."""
    one, other = socket.socketpair()
    made: list[RingLink] = []
    thread = threading.Thread(target=lambda: made.append(join_by_ring(other, ManualClock(), "one", ring_bytes)))
    thread.start()
    left = join_by_ring(one, ManualClock(), "the other", ring_bytes)
    thread.join()
    try:
        yield left, made[0]
    finally:
        left.close()
        made[0].close()


def descriptors() -> set[str]:
    """Return what this process has open."""
    return {f"{path.name}={target}" for path in Path("/proc/self/fd").iterdir() if (target := _target(path))}


def rings_mapped() -> int:
    """Return how many rings this process has in its memory."""
    return Path("/proc/self/maps").read_text().count("penstock-ring")


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        # The listing's own.
        return ""
