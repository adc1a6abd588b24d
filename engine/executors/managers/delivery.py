"""Delivery of control messages: each once, in the order of sending, over a link that loses, repeats and reorders.

A `Delivery` is one end of such a link. It is pure: whoever owns it brings it what arrives and the time, and sends what
it returns.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

import msgspec

HEAD = "head"
"""The name of a job's head as an end of links."""

RESEND_NS = 200_000_000
"""How long an acknowledgement is awaited before a message is sent again; twice as long each further time."""

LONGEST_RESEND_NS = 2_000_000_000
"""How long that becomes at most."""

HEARTBEAT_NS = 1_000_000_000
"""How long an end is silent at most."""

WINDOW = 1_024
"""How far ahead of what is missing a message may be to be kept until it is there; others have to come again."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a link, ``here`` and ``there``, of one run of a job."""

    job: str
    run: int
    here: str
    there: str


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message on its way; without a ``body`` (sequence 0) it acknowledges, and says that its sender lives.

    ``run`` grows with every start of the job's head. ``sequence`` counts a sender's messages to a receiver from 1;
    ``acknowledged`` is the greatest up to which it has received all of the other's.
    """

    job: str
    run: int
    sender: str
    receiver: str
    sequence: int
    acknowledged: int
    body: bytes = b""


class Delivery:
    """One end of a link. A process that is started anew has a new name, and so a new link."""

    def __init__(self, ends: Ends, now_ns: int) -> None:
        """Begin with nothing sent and nothing received."""
        self.ends = ends
        self.heard_ns = now_ns
        """When the other end was last heard, be it with something known already."""
        self._dropped: Counter[str] = Counter()
        self._sent = 0
        self._received = 0
        self._early: dict[int, bytes] = {}
        self._unacknowledged: deque[tuple[int, bytes]] = deque()
        self._resend_ns = RESEND_NS
        self._resend_at_ns = now_ns
        self._heartbeat_at_ns = now_ns + HEARTBEAT_NS
        self._owes_acknowledgement = False

    @property
    def dropped(self) -> Mapping[str, int]:
        """The number of envelopes that were not taken in, by reason."""
        return self._dropped

    @property
    def waiting(self) -> int:
        """The number of messages that the other end has not acknowledged."""
        return len(self._unacknowledged)

    def send(self, body: bytes, now_ns: int) -> Envelope:
        """Return a message to send; `due` returns it again as long as it is not acknowledged."""
        if not self._unacknowledged:
            self._resend_ns = RESEND_NS
            self._resend_at_ns = now_ns + RESEND_NS
        self._sent += 1
        self._unacknowledged.append((self._sent, body))
        return self._envelope(self._sent, body, now_ns)

    def receive(self, envelope: Envelope, now_ns: int) -> list[bytes]:
        """Return the messages whose turn has come, oldest first.

        An envelope of another job, run or link is dropped, as is one that was received before.
        """
        if (envelope.job, envelope.run, envelope.sender, envelope.receiver) != self._expected():
            self._dropped["of another run or link"] += 1
            return []
        self.heard_ns = max(self.heard_ns, now_ns)
        self._acknowledge(envelope.acknowledged, now_ns)
        if not envelope.sequence:
            return []
        self._owes_acknowledgement = True
        if envelope.sequence <= self._received or envelope.sequence in self._early:
            self._dropped["received before"] += 1
            return []
        if envelope.sequence > self._received + WINDOW:
            self._dropped["too far ahead"] += 1
            return []
        self._early[envelope.sequence] = envelope.body
        ready = []
        while self._received + 1 in self._early:
            self._received += 1
            ready.append(self._early.pop(self._received))
        return ready

    def due(self, now_ns: int) -> list[Envelope]:
        """Return what must be sent now: what was not acknowledged in time, or a sign of life if one is owed."""
        if self._unacknowledged and self._resend_at_ns <= now_ns:
            self._resend_ns = min(2 * self._resend_ns, LONGEST_RESEND_NS)
            self._resend_at_ns = now_ns + self._resend_ns
            again = islice(self._unacknowledged, WINDOW)
            return [self._envelope(sequence, body, now_ns) for sequence, body in again]
        if self._owes_acknowledgement or self._heartbeat_at_ns <= now_ns:
            return [self._envelope(0, b"", now_ns)]
        return []

    def due_ns(self) -> int:
        """Return when `due` has something to send if nothing happens before; in the past: at once."""
        if self._owes_acknowledgement:
            return self.heard_ns
        if self._unacknowledged:
            return min(self._heartbeat_at_ns, self._resend_at_ns)
        return self._heartbeat_at_ns

    def _expected(self) -> tuple[str, int, str, str]:
        return self.ends.job, self.ends.run, self.ends.there, self.ends.here

    def _acknowledge(self, sequence: int, now_ns: int) -> None:
        if not self._unacknowledged or self._unacknowledged[0][0] > sequence:
            return
        while self._unacknowledged and self._unacknowledged[0][0] <= sequence:
            self._unacknowledged.popleft()
        self._resend_ns = RESEND_NS
        self._resend_at_ns = now_ns + RESEND_NS

    def _envelope(self, sequence: int, body: bytes, now_ns: int) -> Envelope:
        self._owes_acknowledgement = False
        self._heartbeat_at_ns = now_ns + HEARTBEAT_NS
        ends = self.ends
        return Envelope(ends.job, ends.run, ends.here, ends.there, sequence, self._received, body)
