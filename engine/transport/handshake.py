"""The handshake of a link on one host: both sides offer each other a ring, and see whether it is the same memory.

It tries rather than compares names of hosts: two containers of one name may share no memory, and two of different names
may.
"""

import fcntl
import os
import socket
import struct

import numpy as np

from penstock.engine.core.contract import Clock
from penstock.engine.transport.ring import ALIGNMENT, Ring, make_ring
from penstock.engine.transport.ring_link import RingLink
from penstock.model.errors import WorkerLostError

RING_BYTES = 4 << 20

VERSION = 1

_SIGN_BYTES = 16
_OFFER = struct.Struct(f"<8sIQ{_SIGN_BYTES}s")
_MAGIC = b"penstock"
_AGREED = b"y"


def join_by_ring(end: socket.socket, clock: Clock, peer: str, ring_bytes: int = RING_BYTES) -> RingLink:
    """Agree with the other side, which calls the same, on two rings; take the connected Unix socket over.

    It waits as long as the socket's timeout lets it.

    Raises:
        OSError: this side has no such memory.
        WorkerLostError: the other side has not, is of another version, or is gone.
    """
    outgoing = make_ring(ring_bytes)
    incoming: Ring | None = None
    try:
        sign = os.urandom(_SIGN_BYTES)
        outgoing.memory[:_SIGN_BYTES] = np.frombuffer(sign, np.uint8)
        socket.send_fds(end, [_OFFER.pack(_MAGIC, VERSION, outgoing.size, sign)], [outgoing.descriptor])
        incoming = _accept(end, peer)
        # Rows will be written over the sign.
        end.sendall(_AGREED)
        if end.recv(len(_AGREED)) != _AGREED:
            raise WorkerLostError(f"{peer} cannot share memory with this process")
    except BaseException:
        outgoing.close()
        if incoming is not None:
            incoming.close()
        raise
    return RingLink(end, outgoing, incoming, clock, peer)


def _accept(end: socket.socket, peer: str) -> Ring:
    offer, descriptors, _, _ = socket.recv_fds(end, _OFFER.size, 1, socket.MSG_CMSG_CLOEXEC)
    try:
        if len(offer) < _OFFER.size or len(descriptors) != 1:
            raise WorkerLostError(f"{peer} offers no shared memory")
        magic, version, size, sign = _OFFER.unpack(offer)
        if (magic, version) != (_MAGIC, VERSION):
            raise WorkerLostError(f"{peer} speaks version {version} of the transport, this process version {VERSION}")
        if os.fstat(descriptors[0]).st_size != size or size % ALIGNMENT:
            raise WorkerLostError(f"{peer} offers shared memory of another size than it says")
        # A file that its owner could still shorten would kill whoever reads it.
        if fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK == 0:
            raise WorkerLostError(f"{peer} offers shared memory that it can take away")
        ring = Ring(descriptors[0], size)
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    if ring.memory[:_SIGN_BYTES].tobytes() != sign:
        ring.close()
        raise WorkerLostError(f"{peer} offers memory that is not shared with this process")
    return ring
