"""The listener of a head for task managers on other hosts: they connect by TCP, and both prove to have the run's token.

No connection is waited for: those who say nothing do not keep the others, and are sent away.
"""

import logging
import os
import selectors
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress

from penstock.engine.core.contract import Clock
from penstock.engine.executors.managers.delivery import HEAD
from penstock.engine.executors.ray.control_socket import prepare
from penstock.engine.transport.addresses import Transport, listen, written
from penstock.engine.transport.greeting import Greeting
from penstock.engine.transport.handshake import NONCE_BYTES, Ability, StrangerError
from penstock.engine.transport.handshake import listen as listen_to
from penstock.engine.transport.meeting import GREETING_TIMEOUT_S, MOST_UNKNOWN
from penstock.engine.transport.tls import Tls
from penstock.model.errors import WorkerLostError

_LOOK_S = 1.0
"""How often is looked for connections that have said nothing for too long."""

_log = logging.getLogger("penstock.control")


class ControlListener:
    """The place where task managers of a run find its head. A thread of its own speaks with those who connect.

    `expect`, `dismiss` and `close` may be called by any thread.
    """

    def __init__(self, token: bytes, run: int, host: str, clock: Clock, tls: Tls | None = None) -> None:
        """Listen at an address of this host; ``token`` is known to the task managers of this run only.

        With ``tls`` nothing goes to them in the clear.

        Raises:
            OSError: nothing can listen there.
        """
        ways, (self._listener,) = listen(host, Transport.TCP)
        self.address = written(ways)
        """The way by which task managers reach the head."""
        self.strangers = 0
        """The number of connections by others than task managers that were expected."""
        self._token, self._run, self._clock, self._tls = token, run, clock, tls
        self._lock = threading.Lock()
        self._expected: dict[str, Future[socket.socket]] = {}
        self._over = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._greetings: dict[Greeting, int] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._greet_all, name="penstock-joining", daemon=True)
        self._thread.start()

    def expect(self, name: str) -> Future[socket.socket]:
        """Return the connected socket that is to come from the task manager of a name, which is new."""
        future: Future[socket.socket] = Future()
        with self._lock:
            self._expected[name] = future
        return future

    def dismiss(self, name: str) -> None:
        """Await a task manager no longer; without effect on a socket that has come."""
        with self._lock:
            future = self._expected.pop(name, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """Let nobody connect any more; sockets that have come are not closed."""
        self._over = True
        with suppress(OSError):
            self._waker.send(b"\0")
        self._thread.join()
        for name in list(self._expected):
            self.dismiss(name)

    def _greet_all(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(_LOOK_S if self._greetings else None):
                if key.fileobj is self._listener:
                    for end in self._accepted():
                        self._begin(end)
                elif isinstance(key.fileobj, Greeting) and key.fileobj in self._greetings:
                    self._proceed(key.fileobj)
            self._send_silent_away()
        for greeting in list(self._greetings):
            self._end(greeting)
            greeting.close()
        self._selector.close()
        for end in (self._listener, self._woken, self._waker):
            end.close()

    def _accepted(self) -> Iterator[socket.socket]:
        # What the system has no room for waits for the next look.
        with suppress(OSError):
            while True:
                end, _ = self._listener.accept()
                yield end if self._tls is None else self._tls.accept(end)

    def _begin(self, end: socket.socket) -> None:
        greeting = Greeting(end, listen_to(HEAD, self._token, os.urandom(NONCE_BYTES)))
        self._greetings[greeting] = self._clock.monotonic_ns()
        self._selector.register(greeting, selectors.EVENT_READ)
        if len(self._greetings) > MOST_UNKNOWN:
            # A task manager speaks at once.
            silent = (each for each in self._greetings if not each.has_heard)
            self._send_away(next(silent, greeting), "it said nothing, and others came")

    def _proceed(self, greeting: Greeting) -> None:
        try:
            greeting.proceed()
            if greeting.awaits_recognition():
                assert greeting.hello is not None
                hello = greeting.hello
                if hello.attempt != self._run or hello.me not in self._expected:
                    raise StrangerError(f"{hello.me} of run {hello.attempt} is not expected in run {self._run}")
                greeting.recognise(Ability.NONE)
                greeting.proceed()
        except StrangerError as error:
            self._send_away(greeting, str(error))
        except (OSError, WorkerLostError) as error:
            _log.info("a connection to the head of the job is not used: %s", error)
            self._end(greeting)
            greeting.close()
        else:
            if greeting.by_ring is not None and not greeting.has_unsent():
                self._end(greeting)
                self._hand_over(greeting)
            elif greeting.has_unsent():
                self._selector.modify(greeting, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _hand_over(self, greeting: Greeting) -> None:
        assert greeting.hello is not None
        with self._lock:
            future = self._expected.pop(greeting.hello.me, None)
        if future is None or not future.set_running_or_notify_cancel():
            greeting.close()
            return
        end = greeting.take_socket()
        prepare(end)
        future.set_result(end)

    def _send_silent_away(self) -> None:
        until_ns = self._clock.monotonic_ns() - GREETING_TIMEOUT_S * 1_000_000_000
        for greeting in [greeting for greeting, came_ns in self._greetings.items() if came_ns <= until_ns]:
            self._send_away(greeting, f"it has not said who it is within {GREETING_TIMEOUT_S} s")

    def _send_away(self, greeting: Greeting, reason: str) -> None:
        self.strangers += 1
        self._end(greeting)
        greeting.close()
        # A flood of strangers is no flood of lines.
        if self.strangers & (self.strangers - 1) == 0:
            _log.warning(
                "a connection to the head of the job is not by a task manager of its: %s (the %d. such one)",
                reason,
                self.strangers,
            )

    def _end(self, greeting: Greeting) -> None:
        del self._greetings[greeting]
        self._selector.unregister(greeting)
