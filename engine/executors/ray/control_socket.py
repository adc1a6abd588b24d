"""Sockets between a head and task managers on other hosts, as both sides use them; how a task manager makes one."""

import os
import select
import socket

from penstock.engine.core.contract import Clock
from penstock.engine.executors.managers.delivery import HEAD
from penstock.engine.transport.addresses import Dial, Transport, ways_of
from penstock.engine.transport.greeting import Greeting
from penstock.engine.transport.handshake import NONCE_BYTES, Hello, StrangerError, connect
from penstock.engine.transport.tls import Tls
from penstock.model.errors import WorkerLostError

UNHEARD_S = 10
"""How long a host may acknowledge nothing of what is sent to it, until the connection is over."""

CONNECT_S = 20.0
"""How long a task manager tries to reach its head."""

_LOOK_S = 0.05


def prepare(end: socket.socket) -> None:
    """Let messages leave at once, and a host that is gone be noticed: signs of life are sent every second."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNHEARD_S * 1_000)


def connect_to_head(
    address: str, token: bytes, name: str, run: int, clock: Clock, tls: Tls | None = None
) -> socket.socket:
    """Return a socket to the head of a run; both sides have proved that they have its token.

    Raises:
        WorkerLostError: it is not there, or did not answer within `CONNECT_S`.
    """
    until_ns = clock.monotonic_ns() + int(CONNECT_S * 1e9)
    dial = Dial(ways_of(address, Transport.TCP))
    greeting: Greeting | None = None
    try:
        while clock.monotonic_ns() < until_ns:
            poll = select.poll()
            if greeting is None:
                end = dial.proceed()
                if end is not None:
                    end = end if tls is None else tls.connect(end)
                    greeting = Greeting(end, connect(Hello(name, HEAD, run), token, os.urandom(NONCE_BYTES)))
                    continue
                pending = dial.pending()
                if pending is not None:
                    poll.register(pending, select.POLLOUT)
            else:
                greeting.proceed()
                if greeting.by_ring is not None and not greeting.has_unsent():
                    end, greeting = greeting.take_socket(), None
                    prepare(end)
                    return end
                poll.register(greeting, select.POLLIN | (select.POLLOUT if greeting.has_unsent() else 0))
            poll.poll(_LOOK_S * 1_000)
    except (OSError, StrangerError) as error:
        raise WorkerLostError(f"{name} cannot reach the head of its job at {address}: {error}") from error
    finally:
        dial.close()
        if greeting is not None:
            greeting.close()
    raise WorkerLostError(f"the head of the job at {address} did not answer {name} within {CONNECT_S:.0f} s")
