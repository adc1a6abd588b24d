"""Links of simulated task managers, in memory: in order, late, and gone with either end."""

import socket
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.core.elements import Batch, Element
from penstock.engine.executors.simulation.control_faults import ControlFaults
from penstock.engine.transport.batch_body import Body
from penstock.engine.transport.link import Arrival, Arrived, Granted, Link, StateArrived
from penstock.engine.transport.picked_rows import Picks, put_together
from penstock.model.errors import WorkerLostError


@dataclass(frozen=True, slots=True)
class _LastOne:
    """The other side has said that it ends."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """The other side is gone."""

    reason: str


_Cargo = Arrival | _LastOne | _Gone


class MemoryLink(Link):
    """One end. What it is told arrives at the other when that one's `deliver` is called.

    Its descriptor, for the loop's poll, is that of a real socket, which carries nothing but the news that there is
    something.
    """

    def __init__(self, name: str, faults: ControlFaults, now_ns: Callable[[], int]) -> None:
        """Begin without another end: `join` it."""
        self.name = name
        self._faults, self._now_ns = faults, now_ns
        self._sock, self._news = socket.socketpair()
        for end in (self._sock, self._news):
            end.setblocking(False)
        self._other: MemoryLink | None = None
        self._unsent: deque[_Cargo] = deque()
        self._coming: deque[tuple[int, _Cargo]] = deque()
        self._arrived: list[Arrival] = []
        self._last_ns = 0
        self._lost: str | None = None
        self._ended = False
        self.is_closed = False

    def join(self, other: "MemoryLink") -> None:
        """Let it be the other end of another."""
        self._other, other._other = other, self

    def fileno(self) -> int:
        """Return the descriptor of the news."""
        return self._sock.fileno()

    def send(self, channel: int, element: Element, picks: Picks | None, rows: int, size: int) -> None:
        """Keep it for the next `flush`."""
        if isinstance(element, Batch) and picks is not None:
            element = element.with_rows(put_together([(element.rows, picks)]))
        self._unsent.append(Arrived(channel, element, rows, size))

    def send_state(self, body: Body, size: int, *, more: bool) -> None:
        """Keep it for the next `flush`."""
        content = np.empty(body.size, np.uint8)
        body.write(content)
        self._unsent.append(StateArrived(pa.py_buffer(content).slice(0, size)))

    def grant(self, channel: int, size: int) -> None:
        """Keep it for the next `flush`."""
        self._unsent.append(Granted(channel, size))

    def flush(self) -> None:
        """Let all leave."""
        while self._unsent:
            self._leave(self._unsent.popleft())

    def has_unsent(self) -> bool:
        """Return whether something was not flushed."""
        return bool(self._unsent)

    def is_blocked(self) -> bool:
        """Return False: there is always room."""
        return False

    def carries_state(self) -> bool:
        """Return False: everything arrives whole."""
        return False

    def passed(self) -> int:
        """Return 0: nothing of it is ever on its way in part."""
        return 0

    def receive(self) -> Sequence[Arrival]:
        """Return what was delivered."""
        while not self.is_closed:
            try:
                if not self._sock.recv(4_096):
                    break
            except BlockingIOError:
                break
        arrived, self._arrived = self._arrived, []
        if not arrived and self._lost is not None and not self._ended:
            raise WorkerLostError(self._lost)
        return arrived

    def end(self) -> None:
        """Say that nothing follows."""
        self._unsent.append(_LastOne())

    def has_ended(self) -> bool:
        """Return whether the other side has said that."""
        return self._ended

    def close(self) -> None:
        """Let go; the other end hears of it."""
        if not self.is_closed:
            self.lose("the other side has closed it")

    def lose(self, reason: str) -> None:
        """Be gone: what has left arrives, unless this end is that of a process that was killed."""
        self.is_closed = True
        self._leave(_Gone(reason))
        self._unsent.clear()
        self._coming.clear()
        self._sock.close()
        self._news.close()

    def break_apart(self) -> None:
        """Break while both ends live: what is under way is lost."""
        for end in (self, self._other):
            if end is not None and not end.is_closed and end._lost is None:
                end._coming.clear()
                end._coming.append((self._now_ns(), _Gone("the connection was reset")))

    def forget_some(self, share: float) -> None:
        """Lose the later part of what this end has sent and has not arrived: it was killed while it wrote."""
        other = self._other
        if other is not None:
            kept = int(len(other._coming) * share)
            while len(other._coming) > kept:
                other._coming.pop()

    def due_ns(self) -> int | None:
        """Return when the next thing arrives here, None: nothing is under way."""
        return self._coming[0][0] if self._coming else None

    def deliver(self) -> str:
        """Let what is due arrive; return what it was."""
        now_ns, count = self._now_ns(), 0
        while self._coming and self._coming[0][0] <= now_ns:
            _, cargo = self._coming.popleft()
            count += 1
            match cargo:
                case _LastOne():
                    self._ended = True
                case _Gone(reason):
                    self._lost = reason
                    self._coming.clear()
                    self._news.close()
                    return f"the loss of {self.name} is seen"
                case _:
                    self._arrived.append(cargo)
        with suppress(BlockingIOError):
            self._news.send(b"\0")
        return f"{count} elements arrive by {self.name}"

    def _leave(self, cargo: _Cargo) -> None:
        other = self._other
        if other is None or other.is_closed or other._lost is not None:
            return
        other._last_ns = max(other._last_ns, self._now_ns() + self._faults.delay_ns())
        other._coming.append((other._last_ns, cargo))


class MeetingBoard:
    """Who has come to which meeting, and the links that were made there."""

    def __init__(self, faults: ControlFaults, now_ns: Callable[[], int]) -> None:
        """Begin without meetings."""
        self._faults, self._now_ns = faults, now_ns
        self._came: dict[int, set[str]] = {}
        self._left: set[tuple[int, str]] = set()
        self._gone: set[str] = set()
        self._ends: dict[tuple[int, str, str], MemoryLink] = {}

    def come(self, attempt: int, name: str) -> None:
        """A task manager has come to the meeting of an attempt."""
        self._came.setdefault(attempt, set()).add(name)

    def is_decided(self, attempt: int, peers: Collection[str]) -> bool:
        """Return whether all peers have come, or one never will."""
        return self._missing(attempt, peers) is not None or self._came.get(attempt, set()).issuperset(peers)

    def links(self, attempt: int, name: str, peers: Collection[str], why_not: str) -> Mapping[str, Link]:
        """Return the links of one that has come to all its peers.

        Raises:
            WorkerLostError: one is gone, or has not come: ``why_not`` says why it is awaited no longer.
        """
        missing = self._missing(attempt, peers)
        came = self._came.get(attempt, set())
        if missing is None and not came.issuperset(peers):
            missing = why_not
        if missing is not None:
            self.leave(attempt, name)
            raise WorkerLostError(missing)
        return {peer: self._end(attempt, name, peer) for peer in peers}

    def leave(self, attempt: int, name: str) -> None:
        """One that has come to a meeting has given it up."""
        self._left.add((attempt, name))
        for (number, one, _), end in list(self._ends.items()):
            if number == attempt and one == name and not end.is_closed:
                end.lose(f"{one} has given up")

    def forget(self, name: str, share: float) -> None:
        """The process of one is killed: of what it has sent and has not arrived only a share will."""
        for (_, one, _), end in self._ends.items():
            if one == name and not end.is_closed:
                end.forget_some(share)

    def kill(self, name: str) -> None:
        """The process of one is gone, and with it its ends."""
        self._gone.add(name)
        for (_, one, _), end in self._ends.items():
            if one == name:
                end.close()

    def welcome(self, name: str) -> None:
        """Another process has begun under the name of one that is gone."""
        self._gone.discard(name)

    def begin_anew(self) -> None:
        """Forget all meetings: nobody is left who came to one."""
        self.close()
        for known in (self._came, self._left, self._gone, self._ends):
            known.clear()

    def open_links(self) -> list[MemoryLink]:
        """Return the ends that are not closed."""
        return [end for end in self._ends.values() if not end.is_closed]

    def choices(self, now_ns: int) -> Iterator[tuple[MemoryLink, str]]:
        """Yield the ends at which something is due, with the task manager that each belongs to."""
        for (_, name, _), end in self._ends.items():
            due_ns = None if end.is_closed else end.due_ns()
            if due_ns is not None and due_ns <= now_ns:
                yield end, name

    def next_ns(self) -> int | None:
        """Return when something arrives next."""
        times = (end.due_ns() for end in self._ends.values() if not end.is_closed)
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    def close(self) -> None:
        """Let go of all ends."""
        for end in self._ends.values():
            if not end.is_closed:
                end.lose("everything is over")

    def _missing(self, attempt: int, peers: Collection[str]) -> str | None:
        for peer in sorted(peers):
            if peer in self._gone or (attempt, peer) in self._left:
                return f"{peer} cannot be reached"
        return None

    def _end(self, attempt: int, name: str, peer: str) -> MemoryLink:
        end = self._ends.get((attempt, name, peer))
        if end is None:
            end = MemoryLink(f"{attempt}: {peer} -> {name}", self._faults, self._now_ns)
            other = MemoryLink(f"{attempt}: {name} -> {peer}", self._faults, self._now_ns)
            end.join(other)
            self._ends[attempt, name, peer], self._ends[attempt, peer, name] = end, other
        return end
