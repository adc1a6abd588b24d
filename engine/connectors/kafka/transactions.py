"""The state machine of one transactional id: events in, the next command out (docs/design/kafka.md 3).

It decides what is sent, what is sent again and when a producer must never be used again. `sink_commits` drives it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.engine.connectors.kafka.receipts import Marker, Receipt
from penstock.engine.core.event_log import EventLog
from penstock.model.errors import BugError, FatalError, FencedError, PenstockError, RetryableError

TRIES = 4
"""So often something may go wrong before one call gives up."""


class ProducerState(Enum):
    """States of a producer under its transactional id."""

    DOWN = "there is no producer that may be used"
    FENCING = "a new producer takes the id, which ends whatever an older one has begun"
    LOOKING = "the marker is being read"
    READY = "the marker is known and no transaction is open"
    SENDING = "a transaction is open and takes messages and the marker"
    COMMITTING = "the transaction is being committed"
    CONTESTED = "another producer has fenced this one: the marker tells whether it has written"
    LOST = "another start has taken the id: this process must not write under it again"


@dataclass(frozen=True, slots=True)
class Take:
    """Event: make sure that this process alone has the id, and learn the marker."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Event: publish what these receipts stand for and leave this marker, in one transaction.

    ``claim``: it is the first one of a start. ``may_be_gone``: a kept file that is not there any more was published
    before.
    """

    marker: Marker
    receipts: tuple[Receipt, ...] = ()
    claim: bool = False
    may_be_gone: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """Event: the new producer has the id."""


@dataclass(frozen=True, slots=True)
class Found:
    """Event: this is the marker, None if there is none."""

    marker: Marker | None


@dataclass(frozen=True, slots=True)
class Sent:
    """Event: the messages and the marker are in the open transaction."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Event: the broker says that the transaction is committed."""


@dataclass(frozen=True, slots=True)
class Broke:
    """Event: a command failed in a way that a new producer may mend; whether it took effect is not known."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """Event: another producer has opened under the id, so that this one can do nothing any more.

    With ``error`` it only looks so, since what is to be published is gone: if nobody has written, that is raised.
    """

    error: PenstockError | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Event: a command failed, and will fail again."""

    error: PenstockError


Event = Take | Publish | Opened | Found | Sent | Committed | Broke | Fenced | Refused


@dataclass(frozen=True, slots=True)
class Open:
    """Command: throw the producer away, if there is one, and let a new one take the id."""


@dataclass(frozen=True, slots=True)
class Look:
    """Command: read the marker."""


@dataclass(frozen=True, slots=True)
class Send:
    """Command: begin a transaction, send what is to be published, and the marker."""

    publish: Publish


@dataclass(frozen=True, slots=True)
class Commit:
    """Command: commit the transaction."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Command: nothing; what was wanted is done."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Command: throw the producer away and raise."""

    error: PenstockError


Command = Open | Look | Send | Commit | Rest | GiveUp

_S = ProducerState
_FAILURES: Mapping[type[Event], frozenset[ProducerState]] = {
    Broke: frozenset({_S.FENCING, _S.DOWN}),
    Fenced: frozenset({_S.CONTESTED}),
    Refused: frozenset({_S.DOWN}),
}
TRANSITIONS: Mapping[ProducerState, Mapping[type[Event], frozenset[ProducerState]]] = {
    _S.DOWN: {Take: frozenset({_S.FENCING}), Publish: frozenset({_S.FENCING})},
    _S.FENCING: {**_FAILURES, Opened: frozenset({_S.LOOKING}), Fenced: frozenset({_S.FENCING, _S.DOWN})},
    _S.LOOKING: {**_FAILURES, Found: frozenset({_S.READY, _S.SENDING, _S.DOWN, _S.LOST})},
    _S.READY: {Take: frozenset({_S.FENCING}), Publish: frozenset({_S.SENDING})},
    _S.SENDING: {**_FAILURES, Sent: frozenset({_S.COMMITTING})},
    _S.COMMITTING: {**_FAILURES, Committed: frozenset({_S.READY})},
    _S.CONTESTED: {
        Found: frozenset({_S.FENCING, _S.DOWN, _S.LOST}),
        Broke: frozenset({_S.CONTESTED, _S.DOWN}),
        Refused: frozenset({_S.DOWN}),
    },
    _S.LOST: {Take: frozenset({_S.FENCING})},
}
"""Which state may follow which event. Only a new start of the sink takes an id back that was lost."""


class TransactionalId:
    """One transactional id. A producer is never used again after anything went wrong with it."""

    def __init__(self, name: str) -> None:
        """``name`` is the id itself."""
        self.name = name
        self.state = _S.DOWN
        self._marker: Marker | None = None
        self._looked = False
        self._wanted: Publish | None = None
        self._tries = 0
        self._error: PenstockError | None = None
        self._log = EventLog(f"transactional id {name!r}")

    @property
    def marker(self) -> Marker | None:
        """The marker of what is published, as far as this process knows; None: there is none.

        Raises:
            BugError: it was never read.
        """
        if not self._looked:
            raise BugError(f"the marker of transactional id {self.name!r} was never read")
        return self._marker

    def on(self, event: Event) -> Command:
        """Return what to do next."""
        self._log.add(f"{self.state.name}: {event}")
        legal = TRANSITIONS[self.state].get(type(event))
        if legal is None:
            raise self._log.bug(f"{type(event).__name__} cannot come in state {self.state.name}")
        after, command = self._decide(event)
        if after not in legal:
            raise self._log.bug(f"{type(event).__name__} cannot lead from {self.state.name} to {after.name}")
        self.state = after
        return command

    def _decide(self, event: Event) -> tuple[ProducerState, Command]:
        match event:
            case Take():
                self._wanted, self._tries, self._looked = None, 0, False
                return _S.FENCING, Open()
            case Publish():
                return self._publish(event)
            case Opened():
                return _S.LOOKING, Look()
            case Found():
                return self._marker_read(event.marker)
            case Sent():
                return _S.COMMITTING, Commit()
            case Committed():
                assert self._wanted is not None
                return self._done(self._wanted.marker)
            case Broke():
                return self._again(event.reason, Look() if self.state is _S.CONTESTED else Open())
            case Fenced():
                if self.state is _S.FENCING:
                    return self._again(f"another producer opened transactional id {self.name!r} meanwhile", Open())
                self._error = event.error
                return _S.CONTESTED, Look()
            case Refused():
                return _S.DOWN, GiveUp(event.error)

    def _publish(self, wanted: Publish) -> tuple[ProducerState, Command]:
        if self.marker == wanted.marker:
            raise self._log.bug(f"what {wanted.marker} stands for is published and shall be published again")
        self._wanted, self._tries = wanted, 0
        return (_S.SENDING, Send(wanted)) if self.state is _S.READY else (_S.FENCING, Open())

    def _marker_read(self, marker: Marker | None) -> tuple[ProducerState, Command]:
        """The marker alone decides: what a fenced or timed-out producer has been told does not."""
        wanted = self._wanted
        if wanted is None:
            return self._done(marker) if self.state is _S.LOOKING else self._again("the id was contested", Open())
        if marker not in (self._marker, wanted.marker):
            return self._lost(wanted, marker)
        if self.state is _S.CONTESTED:
            # What is gone was published, if the marker is there that was to go with it: by who has the same claim.
            if self._error is not None and marker != wanted.marker:
                return _S.DOWN, GiveUp(self._error)
            return self._again(f"another producer opened transactional id {self.name!r}", Open())
        return self._done(marker) if marker == wanted.marker else (_S.SENDING, Send(wanted))

    def _lost(self, wanted: Publish, marker: Marker | None) -> tuple[ProducerState, Command]:
        if wanted.claim:
            return _S.DOWN, GiveUp(
                RetryableError(f"another process published under transactional id {self.name!r} while this one started")
            )
        if marker is not None and marker.start == wanted.marker.start:
            return _S.DOWN, GiveUp(self._went_back(marker))
        by = "the marker is gone" if marker is None else f"its marker is that of epoch {marker.epoch}"
        return _S.LOST, GiveUp(
            FencedError(
                f"another run has taken over: transactional id {self.name!r} was taken over by another start of this "
                f"job ({by}); this one stops, and what it has not published is published by that one or after a "
                "restart; run each job once only, under a name of its own"
            )
        )

    def _went_back(self, marker: Marker) -> FatalError:
        epoch = self._marker.epoch if self._marker is not None else marker.epoch
        return FatalError(
            f"Kafka said that the output up to checkpoint {epoch} is committed under transactional id {self.name!r}, "
            f"and now says so up to {marker.epoch} only: the broker lost a commit, and nobody can tell what of it can "
            "be read. Kafka 4.3.0 to 4.4.0 lose commits of partitions that have no leader for a moment (KAFKA-20734): "
            "use another version; to go on, start with --accept-duplicates (accept_duplicates=True)"
        )

    def _done(self, marker: Marker | None) -> tuple[ProducerState, Command]:
        self._marker, self._looked, self._wanted = marker, True, None
        return _S.READY, Rest()

    def _again(self, reason: str, command: Open | Look) -> tuple[ProducerState, Command]:
        self._tries += 1
        if self._tries >= TRIES:
            return _S.DOWN, GiveUp(RetryableError(f"{reason}; gave up after {TRIES} tries"))
        return (_S.FENCING if isinstance(command, Open) else _S.CONTESTED), command
