"""The share of a job in a quota that several jobs have together, as the job's head sees it.

Who keeps the book of leases is a `QuotaKeeper`: a file for the jobs of one machine, an actor for those of a Ray
cluster. A head renews its lease once a second, and asks before it takes more.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from penstock.scheduler.shared_quota import Ask, Lease, OtherHolding


@dataclass(frozen=True, slots=True)
class QuotaView:
    """What a renewal says: the lease that a job had before it, None: it had none, and what others have."""

    before: Lease | None
    others: tuple[OtherHolding, ...]


class QuotaKeeper(Protocol):
    """Keeps the leases of all jobs on one quota. One thread calls it; nothing waits."""

    term_s: float
    """How long a lease lives without its head: longer than what the head had goes on without it."""

    def renew(self, lease: Lease) -> QuotaView | None:
        """Renew a lease; return what the last renewal that was answered said, None: none was yet.

        Raises:
            PenstockError: the book cannot be had.
        """

    def take(self, ask: Ask) -> "Future[Lease]":
        """Ask for more; the answer is the job's lease after that.

        Raises:
            PenstockError: the book cannot be had; the answer may raise it, too.
        """

    def leave(self, job: str) -> None:
        """Give up a lease: the job is over."""


@dataclass(frozen=True, slots=True)
class Held:
    """Cores, and bytes of memory, of a job."""

    cores: float
    memory_bytes: float


NOTHING = Held(0.0, 0.0)


class QuotaShare:
    """The lease of one job, over all plans of a run."""

    def __init__(
        self, keeper: QuotaKeeper, job: str, priority: int, most_cores: float | None, most_memory: float | None
    ) -> None:
        """Begin without a lease; the quota of all jobs is ``most_cores`` and ``most_memory`` bytes, None: no bound."""
        self._keeper, self._job, self._priority = keeper, job, priority
        self._most = inf if most_cores is None else most_cores, inf if most_memory is None else most_memory
        self._asked: Future[Lease] | None = None
        self._held: Held | None = None
        self._before = NOTHING
        self._goal: Held | None = None
        self.view: QuotaView | None = None
        """What is known of others, None: nothing yet, and nothing may be decided."""
        self.before: Lease | None = None
        """The lease that an earlier head of the job left, None: there was none, or it is not known yet."""

    @property
    def others(self) -> Sequence[OtherHolding]:
        """What others have."""
        return () if self.view is None else self.view.others

    @property
    def free_cores(self) -> float:
        """The cores of the quota that others leave."""
        return self._most[0] - sum(item.cores for item in self.others)

    def see(self, held: Held) -> None:
        """Take in what the job has, while nothing of it changes."""
        if self._goal is None:
            self._held = held

    def renew(self, wants: Held = NOTHING) -> None:
        """Renew the lease of what the job has; ``wants`` is what it would have if the quota allowed it.

        Raises:
            PenstockError: the book cannot be had.
        """
        if self._held is None or self._asked is not None:
            # What was asked for is not held yet, and must not be given back meanwhile.
            return
        held, own = self._held, (self._priority, self._keeper.term_s)
        lease = Lease(self._job, held.cores, held.memory_bytes, *own, wants.cores, wants.memory_bytes)
        known, self.view = self.view, self._keeper.renew(replace(lease, follows=self.view is None))
        if known is None and self.view is not None:
            self.before = self.view.before

    def ask(self, goal: Held) -> None:
        """Ask for what the job is to have.

        Raises:
            PenstockError: the book cannot be had.
        """
        assert self._held is not None
        # What shrinks is given back once it has shrunk.
        least = _larger(goal, self._held)
        self._asked = self._keeper.take(Ask(self._job, least.cores, least.memory_bytes, *self._most))
        self._goal, self._before = goal, self._held

    @property
    def is_asking(self) -> bool:
        """Whether there is no answer yet to what was asked for."""
        return self._asked is not None

    def answer(self) -> Held | None:
        """Return what the job may have of what it asked for, once; None: there is no answer yet.

        Raises:
            PenstockError: the book cannot be had; the job has what it had.
        """
        if self._asked is None or not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        try:
            lease = asked.result()
        except BaseException:
            self._goal = None
            raise
        assert self._held is not None and self._goal is not None
        granted = Held(min(lease.cores, self._goal.cores), min(lease.memory_bytes, self._goal.memory_bytes))
        self._held, self._goal = _larger(granted, self._held), granted
        return granted

    def decline(self) -> None:
        """Take nothing of what was granted: it is not enough."""
        self._held, self._goal = self._before, None

    def ended(self, *, is_done: bool) -> None:
        """Take in that a change is over; one that failed leaves what there was granted until the job is seen again."""
        if is_done and self._goal is not None:
            self._held = self._goal
        self._goal = None


def _larger(one: Held, other: Held) -> Held:
    return Held(max(one.cores, other.cores), max(one.memory_bytes, other.memory_bytes))
