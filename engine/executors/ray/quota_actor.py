"""The book of leases of the jobs of a Ray cluster: an actor, which is there while one of them has a lease.

It keeps nothing that heads do not say again within a second: one that was started anew learns the leases from those,
and grants nothing before it has.
"""

from concurrent.futures import Future
from typing import Any

import ray

from penstock.engine.control.quota_file import check_name, monotonic_s
from penstock.engine.control.quota_share import QuotaView
from penstock.model.errors import RetryableError
from penstock.scheduler.shared_quota import Ask, Book, Lease, others_of, renewed, taken, without

TERM_S = 75.0
"""Task managers on Ray live on for 60 s without a head; another one has the lease of the head before it."""

LEARNS_S = 5.0
"""So long after it was started the actor grants nothing: heads say what they have once a second."""

SPACE = "penstock-quota"
"""The namespace of the actors, apart from that of jobs."""


class QuotaActor:
    """Keeps the leases on one quota."""

    def __init__(self, learns_s: float = LEARNS_S) -> None:
        """Begin with none."""
        self._book: Book = {}
        self._grants_s = monotonic_s() + learns_s

    def renew(self, lease: Lease) -> QuotaView:
        """Renew a lease; return what there was of it and of others."""
        before = self._book.get(lease.job)
        self._book = renewed(self._book, lease, monotonic_s())
        return QuotaView(before, others_of(self._book, lease.job))

    def take(self, ask: Ask, has: Lease) -> Lease:
        """Take what there is; ``has`` is the lease of who asks, which the actor may not know yet."""
        at_s = monotonic_s()
        if at_s < self._grants_s:
            return has
        if ask.job not in self._book:
            self._book = renewed(self._book, has, at_s)
        self._book = taken(self._book, ask, at_s)
        return self._book[ask.job]

    def leave(self, job: str) -> None:
        """Give up a lease, and end with the last one."""
        self._book = without(self._book, job)
        if not self._book:
            ray.actor.exit_actor()


class QuotaKeeperOnRay:
    """A `QuotaKeeper` that calls the actor of a name; it waits for no answer."""

    term_s = TERM_S

    def __init__(self, name: str, learns_s: float = LEARNS_S) -> None:
        """Find or start the actor, on the cluster that this process is connected to.

        Raises:
            OptionError: that is no name of a quota.
        """
        check_name(name)
        self._name, self._learns_s = name, learns_s
        self._actor = self._found()
        self._lease: Lease | None = None
        self._renewal: Future[QuotaView] | None = None
        self._last: QuotaView | None = None

    def renew(self, lease: Lease) -> QuotaView | None:
        """Renew a lease once the last renewal is answered; return the last answer."""
        self._lease = lease
        if self._renewal is not None and self._renewal.done():
            answered, self._renewal = self._renewal, None
            try:
                view = answered.result()
            except ray.exceptions.RayError as error:
                self._actor = self._found()
                raise RetryableError(f"the actor of quota {self._name!r} does not answer: {error}") from error
            # What an earlier head had is said once.
            self._last = view if self._last is None else QuotaView(self._last.before, view.others)
        if self._renewal is None:
            self._renewal = self._actor.renew.remote(lease).future()
        return self._last

    def take(self, ask: Ask) -> "Future[Lease]":
        """Ask for more."""
        asked: Future[Lease] = self._actor.take.remote(ask, self._lease).future()
        answer: Future[Lease] = Future()

        def tell(done: "Future[Lease]") -> None:
            error = done.exception()
            if error is None:
                answer.set_result(done.result())
            else:
                answer.set_exception(RetryableError(f"the actor of quota {self._name!r} does not answer: {error}"))

        asked.add_done_callback(tell)
        return answer

    def leave(self, job: str) -> None:
        """Give up a lease; one that cannot be is void after its term."""
        if ray.is_initialized():
            self._actor.leave.remote(job)

    def _found(self) -> Any:
        return (
            ray.remote(QuotaActor)
            .options(
                name=self._name, namespace=SPACE, lifetime="detached", get_if_exists=True, num_cpus=0, max_restarts=-1
            )
            .remote(self._learns_s)
        )
