"""The offer of a ring to the other side of a Unix socket: who is given its memory sees whether it is the same.

It tries rather than compares names of hosts: two containers of one name may share no memory, and two of different names
may.
"""

import fcntl
import os
import struct

import numpy as np

from penstock.engine.transport.handshake import OFFER_BYTES
from penstock.engine.transport.ring import ALIGNMENT, Ring

_SIGN_BYTES = 16
_OFFER = struct.Struct(f"<Q{_SIGN_BYTES}s")

assert _OFFER.size == OFFER_BYTES

NO_OFFER = bytes(OFFER_BYTES)
"""What a side says that has no memory to share."""


def offer(ring: Ring) -> bytes:
    """Return the words that go with the descriptor of an empty ring; what they say stands in its memory, too."""
    sign = os.urandom(_SIGN_BYTES)
    ring.memory[:_SIGN_BYTES] = np.frombuffer(sign, np.uint8)
    return _OFFER.pack(ring.size, sign)


def take_offer(words: bytes, descriptor: int) -> Ring:
    """Return the ring that the other side has offered, and take over its descriptor, which is closed if that fails.

    Raises:
        OSError: it is no memory that both can use, for the reason that the error says.
    """
    try:
        size, sign = _OFFER.unpack(words)
        if os.fstat(descriptor).st_size != size or not size or size % ALIGNMENT:
            raise OSError("the memory is of another size than was said")
        # A file that its owner could still shorten would kill whoever reads it.
        if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK == 0:
            raise OSError("the memory can be taken away")
        ring = Ring(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise
    if ring.memory[:_SIGN_BYTES].tobytes() != sign:
        ring.close()
        raise OSError("the memory is not shared")
    return ring
