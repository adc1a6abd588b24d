"""A ring of bytes in memory that two processes share: one writes, the other reads, in order.

Neither looks at the other's position: what was written and what was read are told in frames
(`engine/transport/ring_link.py`), whose way through a socket is also what orders the accesses to the memory.
"""

import fcntl
import mmap
import os

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64

Bytes = NDArray[np.uint8]


class Ring:
    """The memory of a ring, in a file without a name: nothing is left of it when nobody holds it any more."""

    def __init__(self, descriptor: int, size: int) -> None:
        """Map ``size`` bytes of the file, a multiple of `ALIGNMENT`, and take the descriptor over."""
        self.descriptor = descriptor
        self.size = size
        self._map = mmap.mmap(descriptor, size)
        self.memory: Bytes = np.frombuffer(self._map, np.uint8)

    def close(self) -> None:
        """Let go of memory and descriptor; no view of the memory may be held any more."""
        del self.memory
        self._map.close()
        os.close(self.descriptor)


def make_ring(size: int) -> Ring:
    """Make the memory of a ring of at least ``size`` bytes; pages are taken when they are first written.

    Raises:
        OSError: this system has no such memory to give.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no files in memory")
    size = -(-size // ALIGNMENT) * ALIGNMENT
    descriptor = os.memfd_create("penstock-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        # Whoever reads memory that was cut off dies.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return Ring(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise


class RingWriter:
    """The position of the side that writes. Positions are multiples of `ALIGNMENT`."""

    def __init__(self, ring: Ring) -> None:
        """Begin at the start of an empty ring."""
        self.room = ring.size
        """The bytes that were never written or are read."""
        self._ring = ring
        self._at = 0

    def free(self) -> Bytes:
        """Return the free bytes that lie next, up to the end of the memory; what is free behind it comes then."""
        return self._ring.memory[self._at : self._at + min(self.room, self._ring.size - self._at)]

    def advance(self, size: int) -> None:
        """Take in that the next ``size`` bytes are written."""
        self.room -= size
        self._at = (self._at + size) % self._ring.size

    def release(self, size: int) -> None:
        """Take in that the other side has read the ``size`` bytes that were written first."""
        self.room += size


class RingReader:
    """The position of the side that reads. What is read is copied out, so that nothing points into the ring."""

    def __init__(self, ring: Ring) -> None:
        """Begin at the start."""
        self._ring = ring
        self._at = 0

    def read(self, target: Bytes) -> None:
        """Fill the target with the next bytes; they must be written, and none lies behind the end of the memory."""
        target[:] = self._ring.memory[self._at : self._at + target.size]
        self._at = (self._at + target.size) % self._ring.size
