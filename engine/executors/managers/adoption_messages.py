"""Messages of an adoption: what a task manager holds when its head is lost, and the word of the head that follows."""

from typing import Any

import msgspec

from penstock.engine.control.job_control import KeepOrder
from penstock.model.keep_rates import KeepRates
from penstock.model.sic import SicTerms
from penstock.shedding.keep_settings import ShedderQueries
from penstock.shedding.kept_log import Stretch


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """The base class of all messages."""


class EpochCommitted(Message, frozen=True):
    """To a task manager: all sinks have committed this epoch; receipts up to it are needed no more."""

    epoch: int


class ReadHolding(Message, frozen=True):
    """To a task manager that has outlived its head: say what you hold. Answer: `Holding`."""


class Adopt(Message, frozen=True):
    """To a task manager that has outlived its head: the sender leads it from now on. Answer: `Adopted`.

    Its instances go on under the number ``attempt``, files of checkpoints are those of the ``run``; ``manifest`` is
    that of the last checkpoint (None: there is none), ``damaged`` has stored names of files to be uploaded again.
    """

    attempt: int
    run: int
    manifest: bytes | None
    damaged: tuple[str, ...] = ()


class GuardTerms(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The bounds of a guard: the minimums of ``sources`` by name; sources in ``exempt`` are kept whole.

    ``branches`` are producer, consumer, the source above, minimum, and priority; ``rest`` has the priority of what is
    behind no branch of a source.
    """

    sources: dict[str, float]
    branches: tuple[tuple[str, str, str, float, float], ...] = ()
    exempt: tuple[str, ...] = ()
    rest: dict[str, float] = {}


class SetKeep(Message, frozen=True):
    """To a task manager: let sources and branches keep these shares of their rows from the next read on.

    ``sources`` by name, ``branches`` as producer, consumer and rate. It holds for what is deployed later, too. With
    ``guard`` it is a decision of the controllers, until the next of which a guard may lower rates within these terms.
    ``sic`` has new terms of shedding by SIC; None: those before hold.
    """

    sources: dict[str, float]
    branches: tuple[tuple[str, str, float], ...] = ()
    guard: GuardTerms | None = None
    sic: SicTerms | None = None

    @classmethod
    def of(cls, rates: KeepRates, order: KeepOrder | None = None) -> "SetKeep":
        """Return the message that sets these; ``order``: the decision that they are of."""
        branches = tuple((*edge, rate) for edge, rate in rates.branches.items())
        if order is None:
            return cls(dict(rates.sources), branches)
        shedders = order.shedders
        terms = GuardTerms(
            dict(shedders.source_minimum),
            tuple(
                (*edge, shedders.origin[edge], least, shedders.branch_priority[edge])
                for edge, least in shedders.branch_minimum.items()
            ),
            tuple(sorted(order.exempt)),
            dict(shedders.rest_priority),
        )
        return cls(dict(rates.sources), branches, terms, order.sic)

    def order(self) -> KeepOrder | None:
        """Return the decision, None: it is none. Which queries there are stays with the head."""
        if self.guard is None:
            return None
        edges = {(each[0], each[1]): each for each in self.guard.branches}
        shedders = ShedderQueries(
            dict.fromkeys(self.guard.sources, ()),
            dict.fromkeys(edges, ()),
            {edge: each[2] for edge, each in edges.items()},
            self.guard.sources,
            {edge: each[3] for edge, each in edges.items()},
            self.guard.rest,
            {edge: each[4] for edge, each in edges.items()},
        )
        return KeepOrder(self.rates(), frozenset(self.guard.exempt), shedders, self.sic)

    def rates(self) -> KeepRates:
        """Return what it sets."""
        return KeepRates(self.sources, {(producer, consumer): rate for producer, consumer, rate in self.branches})


class HeldDeployment(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The part of a deployment that a task manager has: ``instances``, which began from the checkpoint ``begun_from``.

    That is 0 for none; ``fault`` says why it does not run as it should (None: it does). ``last_move`` is the number of
    the last move, 0: there was none; ``owners`` are those of the key groups of each task of which some have moved.
    Where it came beside another, while that ran, ``beside`` is the number of the first of its region; 0: it is that.
    """

    number: int
    attempt: int
    tasks: tuple[int, ...]
    instances: tuple[str, ...]
    begun_from: int
    fault: str | None
    last_move: int = 0
    owners: dict[int, tuple[int, ...]] = {}
    beside: int = 0


class KeptCut(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A cut that was taken at the barrier of ``epoch``, or when the instance had ``ended`` before.

    ``receipts`` are of the instance's sinks, by name, ``stretches`` what its source has read since the cut before.
    """

    instance: str
    epoch: int
    ended: bool
    receipts: dict[str, Any]
    stretches: tuple[Stretch, ...] = ()


class Holding(Message, frozen=True):
    """All that a task manager holds, for a head that may adopt it.

    ``run`` is that of the head which led it last, ``plan`` a digest of the plan, ``address`` where others meet it.
    ``begun`` is the last checkpoint that it was told to begin. ``passed`` has the last epoch at which each instance was
    cut, ``cuts`` those of which it was not told that they are committed, and those of instances that have ended.
    ``claims`` are of the sinks that have instances here, by name (see `Sink.claim`), ``keep`` has the keep rates that
    hold; None: none were set.
    """

    run: int
    plan: str
    address: str
    deployments: tuple[HeldDeployment, ...]
    begun: int
    passed: dict[str, int]
    cuts: tuple[KeptCut, ...]
    claims: dict[str, Any]
    keep: SetKeep | None = None


class Adopted(Message, frozen=True):
    """A task manager does from now on what its new head says; it holds this at that moment."""

    holding: Holding
