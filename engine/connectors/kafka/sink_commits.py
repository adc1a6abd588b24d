"""The commits of one Kafka sink: takes its transactional ids at a start, settles them, publishes epoch after epoch.

It drives the state machines of the ids against whatever carries messages to the broker; called by `sink`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol
from uuid import uuid4

from penstock.engine.connectors.kafka.kept_epochs import KeptEpochs
from penstock.engine.connectors.kafka.receipts import Marker, Receipt, from_receipts
from penstock.engine.connectors.kafka.settlement import settle, settled_ids
from penstock.engine.connectors.kafka.transactions import (
    Broke,
    Command,
    Commit,
    Committed,
    Event,
    Fenced,
    Found,
    GiveUp,
    Look,
    Open,
    Opened,
    Publish,
    Refused,
    Rest,
    Send,
    Sent,
    Take,
    TransactionalId,
)
from penstock.model.errors import BugError, FatalError, RetryableError
from penstock.model.failpoints import failpoint


class TroubleError(Exception):
    """A step of a transport failed; ``event`` is what the state machine is told."""

    def __init__(self, event: Broke | Fenced | Refused) -> None:
        """Carry the event."""
        super().__init__(str(event))
        self.event = event


class Transport(Protocol):
    """Carries messages to the broker under one transactional id. Every method may raise `TroubleError`."""

    def open(self) -> None:
        """Throw away what is open, and open anew; whoever had the id is fenced, and its transaction ended."""

    def marker(self) -> Marker | None:
        """Read the marker; what is open stays as it is."""

    def send(self, publish: Publish) -> None:
        """Begin a transaction and bring messages and marker into it."""

    def commit(self) -> None:
        """Commit the transaction; returns only when it is committed."""

    def close(self) -> None:
        """Throw away what is open."""


class SinkCommits:
    """`Sink.recover` and `Sink.commit` of an exactly-once Kafka sink. Used by one thread at a time."""

    def __init__(
        self,
        ids: Sequence[str],
        transport: Callable[[str], Transport],
        kept: KeptEpochs,
        *,
        accept_duplicates: bool = False,
        draw: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        """``ids`` are the transactional ids of the sink's instances; ``draw`` makes ids of starts and runs."""
        self._own = tuple(ids)
        self._make = transport
        self._kept = kept
        self._accept = accept_duplicates
        self._draw = draw
        self._claim: Marker | None = None
        self._machines: dict[str, TransactionalId] = {}
        self._transports: dict[str, Transport] = {}

    @property
    def last_claim(self) -> Marker | None:
        """The marker that the last `recover` has left under every id; None: nothing was recovered."""
        return self._claim

    @property
    def claim(self) -> Marker:
        """The `last_claim`.

        Raises:
            BugError: nothing was recovered.
        """
        if self._claim is None:
            raise BugError("a Kafka sink commits before it was recovered")
        return self._claim

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """Take all ids, then publish what the checkpoint promises and was not published; nothing if one id refuses.

        Raises:
            FatalError: going on would publish something twice, or what is kept is damaged or gone.
            RetryableError: the broker cannot be reached; the same call may work later.
        """
        pending = from_receipts(receipts, epoch or 0)
        self._claim = None
        markers: dict[str, Marker | None] = {}
        for name in settled_ids(self._own, pending):
            self._drive(name, Take())
            markers[name] = self._machine(name).marker
        failpoint("kafka.recover.taken")
        settlement = settle(epoch, pending, markers, start=self._draw(), accept_duplicates=self._accept)
        for name, publish in settlement.publishes.items():
            self._drive(name, publish)
            failpoint("kafka.recover.settled")
        for name in [name for name in self._transports if name not in self._own]:
            self._transports.pop(name).close()
            del self._machines[name]
        self._claim = settlement.claim
        self._forget([item for publish in settlement.publishes.values() for item in publish.receipts])
        if not settlement.doubts:
            with suppress(RetryableError):
                self._kept.clean(settlement.claim)

    def grow(self, ids: Sequence[str]) -> None:
        """Take those ids that are new, too, under the claim of the others, for writers that join theirs.

        Whoever had one is fenced; what it had not published was settled when the run began.

        Raises:
            RetryableError: the broker cannot be reached.
        """
        for name in ids:
            if name not in self._own:
                self._drive(name, Take())
                self._drive(name, Publish(self.claim, ()))
                self._own = (*self._own, name)
                failpoint("kafka.id.joined")

    def adopt(self, epoch: int, claim: Marker) -> None:
        """Take all ids from a process that is gone, and go on under its claim, which writers that live have.

        A transaction that it had open is ended; what it had not published is published by the next `commit`.

        Raises:
            FatalError: another start has had an id since, or something behind ``epoch`` is published.
            RetryableError: the broker cannot be reached.
        """
        self._claim = None
        for name in self._own:
            self._drive(name, Take())
            marker = self._machine(name).marker
            if marker is None or (marker.run, marker.start) != (claim.run, claim.start) or marker.epoch > epoch:
                raise FatalError(
                    f"transactional id {name!r} is not as the writers that live have left it: its marker is {marker}, "
                    f"and theirs is {claim}, behind checkpoint {epoch}"
                )
        self._claim = claim

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        """Publish everything that the receipts stand for and is not published; one transaction for each id, in order.

        Raises:
            FatalError: another start has taken the ids, or what is kept is damaged or gone.
            RetryableError: the broker cannot be reached; what is published stays published once.
        """
        left = Marker(self.claim.run, epoch, self.claim.start)
        # Those of another run were settled when this one began.
        mine = [item for item in from_receipts(receipts, epoch) if item.run == left.run]
        unknown = {item.transactional_id for item in mine if item.epoch > self.claim.epoch} - set(self._own)
        if unknown:
            raise BugError(f"checkpoint {epoch} has output of transactional ids that nobody settled: {sorted(unknown)}")
        for name in self._own:
            published = self._machine(name).marker
            due = [item for item in mine if item.transactional_id == name]
            if published is None:
                raise BugError(f"transactional id {name!r} has no marker and was settled")
            due = [item for item in due if item.epoch > published.epoch]
            if due:
                self._drive(name, Publish(left, tuple(due)))
                self._forget(due)

    def close(self) -> None:
        """Throw away what is open; `recover` opens it again."""
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()
        self._machines.clear()
        self._claim = None

    def _machine(self, name: str) -> TransactionalId:
        if name not in self._machines:
            self._machines[name] = TransactionalId(name)
            self._transports[name] = self._make(name)
        return self._machines[name]

    def _drive(self, name: str, event: Event) -> None:
        """Tell an id what is wanted, and do what it says until that is done."""
        machine = self._machine(name)
        transport = self._transports[name]
        command = machine.on(event)
        while not isinstance(command, Rest):
            if isinstance(command, GiveUp):
                transport.close()
                raise command.error
            command = machine.on(_done(transport, command))

    def _forget(self, receipts: Sequence[Receipt]) -> None:
        """Delete kept files that are published; one that stays is deleted at the next start."""
        failpoint("kafka.kept.before_delete")
        with suppress(RetryableError):
            self._kept.delete(receipts)
        failpoint("kafka.kept.deleted")


def _done(transport: Transport, command: Command) -> Event:
    """Carry a command out and return what came of it."""
    try:
        match command:
            case Open():
                transport.open()
                failpoint("kafka.id.opened")
                return Opened()
            case Look():
                return Found(transport.marker())
            case Send():
                failpoint("kafka.transaction.before")
                transport.send(command.publish)
                failpoint("kafka.transaction.sent")
                return Sent()
            case Commit():
                transport.commit()
                failpoint("kafka.transaction.committed")
                return Committed()
    except TroubleError as trouble:
        return trouble.event
    except (FatalError, RetryableError) as error:
        return Refused(error)
    raise BugError(f"{command} is nothing to be carried out")
