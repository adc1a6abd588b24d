"""The meeting of the task managers of a job: each pair makes a link for an attempt; the lesser name connects.

All connections go on side by side and none is waited for, so that no order of calls can stop the others, and no
stranger who connects and says nothing.
"""

import logging
import os
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.engine.core.contract import Clock
from penstock.engine.transport.addresses import BACKLOG, Dial, Transport, can_share_memory, listen, ways_of, written
from penstock.engine.transport.greeting import RING_BYTES, Greeting
from penstock.engine.transport.handshake import NONCE_BYTES, Ability, Hello, StrangerError, connect
from penstock.engine.transport.handshake import listen as listen_to
from penstock.engine.transport.link import Link
from penstock.engine.transport.tls import Tls
from penstock.model.errors import WorkerLostError

GREETING_TIMEOUT_S = 20
"""How long a connection may say nothing of who it is."""

MEET_TIMEOUT_S = 600
"""How long peers are waited for that nobody knows to be lost: one may still restore another region."""

MOST_UNKNOWN = 64
"""The most connections whose other side has not said who it is; the oldest that says nothing makes room."""

_LOOK_S = 0.05
"""How often is looked whether the meeting is given up."""

_log = logging.getLogger("penstock.transport")


@dataclass
class _Round:
    """One meeting: what is under way to the peers that are still awaited, and the links to the others."""

    attempt: int
    awaited: set[str]
    dials: dict[str, Dial] = field(default_factory=dict)
    greetings: dict[str, Greeting] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)

    def close(self) -> None:
        for dial in self.dials.values():
            dial.close()
        for greeting in self.greetings.values():
            greeting.close()
        for link in self.links.values():
            link.close()


class MeetingPlace:
    """The place where one task manager is reached by the others; it belongs to one thread.

    Nothing happens here between two meetings: who connects meanwhile waits.
    """

    def __init__(
        self,
        me: str,
        token: bytes,
        clock: Clock,
        transport: Transport | None = None,
        host: str = "127.0.0.1",
        ring_bytes: int = RING_BYTES,
        tls: Tls | None = None,
    ) -> None:
        """Listen, by TCP at an address of this host. ``me`` is a name of up to 255 bytes, ``token`` the job's.

        With ``tls`` nothing goes between hosts in the clear.

        Raises:
            OSError: nothing can listen there.
        """
        ways, self._listeners = listen(host, transport)
        self.address = written(ways)
        """The ways by which others reach this place."""
        self.strangers = 0
        """The number of connections by others than task managers of the job."""
        self._me = me
        self._token = token
        self._clock = clock
        self._transport = transport
        self._ring_bytes = ring_bytes
        self._tls = tls
        # Those who have not said who they are, oldest first, with the time at which they came.
        self._unknown: list[tuple[Greeting, int]] = []
        # Task managers that are ahead, by name: they wait for the meeting of their attempt.
        self._early: dict[str, Greeting] = {}

    def meet(self, attempt: int, peers: Mapping[str, str], is_given_up: Callable[[], bool]) -> dict[str, Link]:
        """Return a link to each of the peers, which meet this one for the same attempt, by name.

        ``peers`` has their addresses. Attempts only grow. ``is_given_up`` is asked 20 times a second at least.

        Raises:
            WorkerLostError: one of them is gone, is another or of another version, does not come within
                `MEET_TIMEOUT_S`, or it is given up; all links are closed then.
        """
        until_ns = self._clock.monotonic_ns() + MEET_TIMEOUT_S * 1_000_000_000
        meeting = _Round(attempt, set(peers))
        try:
            for peer, address in peers.items():
                if self._me < peer:
                    meeting.dials[peer] = Dial(ways_of(address, self._transport))
            while True:
                self._turn(meeting)
                if not meeting.awaited:
                    return meeting.links
                if is_given_up():
                    raise WorkerLostError("given up")
                if self._clock.monotonic_ns() >= until_ns:
                    raise WorkerLostError(self._absence(meeting))
                self._wait(meeting)
        except BaseException:
            meeting.close()
            raise

    def close(self) -> None:
        """Let nobody reach this place any more; links are not closed."""
        for listener in self._listeners:
            listener.close()
        for greeting in (*self._early.values(), *(each for each, _ in self._unknown)):
            greeting.close()
        self._listeners.clear()
        self._early.clear()
        self._unknown.clear()

    def _turn(self, meeting: _Round) -> None:
        """Let everything go on as far as it can."""
        self._unknown = [each for each in self._unknown if self._is_still_unknown(*each)]
        for end in self._accepted():
            greeting = Greeting(end, listen_to(self._me, self._token, os.urandom(NONCE_BYTES)), self._ring_bytes)
            newest = greeting, self._clock.monotonic_ns()
            if self._is_still_unknown(*newest):
                self._unknown.append(newest)
            if len(self._unknown) > MOST_UNKNOWN:
                # A task manager speaks at once.
                silent = [number for number, (each, _) in enumerate(self._unknown) if not each.has_heard]
                self._send_away(self._unknown.pop(silent[0] if silent else 0)[0], "it said nothing, and others came")
        self._admit(meeting)
        for peer, dial in list(meeting.dials.items()):
            self._dial(meeting, peer, dial)
        for peer, greeting in list(meeting.greetings.items()):
            self._greet(meeting, peer, greeting)

    def _accepted(self) -> Iterator[socket.socket]:
        for listener in self._listeners:
            for _ in range(BACKLOG):
                try:
                    end, _ = listener.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    break
                except OSError as error:
                    raise WorkerLostError(f"{self._me} cannot take in who connects: {error}") from error
                yield end if self._tls is None else self._tls.accept(end)

    def _is_still_unknown(self, greeting: Greeting, came_ns: int) -> bool:
        """Hear who has connected; put aside who is of the job, and send away who is not."""
        try:
            greeting.proceed()
        except StrangerError as error:
            self._send_away(greeting, str(error))
            return False
        except (OSError, WorkerLostError) as error:
            _log.info("a connection to %s is not used: %s", self._me, error)
            greeting.close()
            return False
        if greeting.hello is not None:
            before = self._early.pop(greeting.hello.me, None)
            if before is not None:
                before.close()
            self._early[greeting.hello.me] = greeting
            return False
        if self._clock.monotonic_ns() - came_ns < GREETING_TIMEOUT_S * 1_000_000_000:
            return True
        self._send_away(greeting, f"it has not said who it is within {GREETING_TIMEOUT_S} s")
        return False

    def _send_away(self, greeting: Greeting, reason: str) -> None:
        greeting.close()
        self.strangers += 1
        # A flood of strangers is no flood of lines.
        if self.strangers & (self.strangers - 1) == 0:
            _log.warning(
                "a connection to %s is not by a task manager of its job: %s (the %d. such one)",
                self._me,
                reason,
                self.strangers,
            )

    def _admit(self, meeting: _Round) -> None:
        """Let those in who come for this meeting, close those of earlier ones, and keep those of later ones."""
        for name, greeting in list(self._early.items()):
            assert greeting.hello is not None
            is_meant = name in meeting.awaited and name < self._me and name not in meeting.greetings
            if greeting.hello.attempt > meeting.attempt and greeting.is_open():
                if is_meant:
                    raise WorkerLostError(
                        f"{name} meets for attempt {greeting.hello.attempt} already, and does not come to {self._me} "
                        f"for attempt {meeting.attempt} any more"
                    )
                continue
            del self._early[name]
            if greeting.hello.attempt == meeting.attempt and is_meant:
                greeting.recognise(self._abilities(greeting.family))
                meeting.greetings[name] = greeting
            else:
                greeting.close()

    def _dial(self, meeting: _Round, peer: str, dial: Dial) -> None:
        try:
            end = dial.proceed()
        except OSError as error:
            raise WorkerLostError(f"{peer} cannot be reached from {self._me}: {error}") from error
        if end is not None:
            del meeting.dials[peer]
            end = end if self._tls is None else self._tls.connect(end)
            hello = Hello(self._me, peer, meeting.attempt, self._abilities(end.family))
            greeting = Greeting(end, connect(hello, self._token, os.urandom(NONCE_BYTES)), self._ring_bytes)
            meeting.greetings[peer] = greeting

    def _greet(self, meeting: _Round, peer: str, greeting: Greeting) -> None:
        try:
            greeting.proceed()
        except StrangerError as error:
            raise WorkerLostError(f"where {peer} was to be reached is no task manager of the job: {error}") from error
        except OSError as error:
            raise WorkerLostError(
                f"{peer} did not go through with the handshake for attempt {meeting.attempt}: {error}; it has ended or "
                "given up, or has another token"
            ) from error
        if greeting.by_ring is None or greeting.has_unsent():
            return
        if not greeting.by_ring and self._transport is Transport.RING:
            raise WorkerLostError(
                f"{peer} and {self._me} cannot share memory, which the transport {Transport.RING.value!r} needs: "
                f"{greeting.reason_against_ring}"
            )
        if not greeting.by_ring and self._transport is None:
            _log.info("rows go to %s by a socket, not by shared memory: %s", peer, greeting.reason_against_ring)
        del meeting.greetings[peer]
        meeting.awaited.remove(peer)
        meeting.links[peer] = greeting.link(self._clock, peer)

    def _abilities(self, family: int) -> Ability:
        is_able = family == socket.AF_UNIX and self._transport is not Transport.TCP and can_share_memory()
        return Ability.RING if is_able else Ability.NONE

    def _absence(self, meeting: _Round) -> str:
        names = ", ".join(sorted(meeting.awaited))
        strangers = f"; {self.strangers} connections were not by task managers of the job" if self.strangers else ""
        return f"{names} did not meet {self._me} for attempt {meeting.attempt} within {MEET_TIMEOUT_S} s{strangers}"

    def _wait(self, meeting: _Round) -> None:
        """Wait until something can go on, or is to be looked at."""
        poll = select.poll()
        for listener in self._listeners:
            poll.register(listener, select.POLLIN)
        for greeting in (*(each for each, _ in self._unknown), *self._early.values(), *meeting.greetings.values()):
            poll.register(greeting, select.POLLIN | (select.POLLOUT if greeting.has_unsent() else 0))
        for dial in meeting.dials.values():
            pending = dial.pending()
            if pending is not None:
                poll.register(pending, select.POLLOUT)
        poll.poll(_LOOK_S * 1_000)
