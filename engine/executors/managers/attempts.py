"""The attempts of a job on task managers, all under one head, which ends with the job."""

from collections.abc import Callable, Mapping

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.adoption import adoption, plan_digest
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.executors.managers.managed_options import ManagedOptions
from penstock.engine.jobs.adoption import Adopt, RestoreAnew
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.state.checkpoints.results import PublishedCheckpoint

OpenHead = Callable[[JobPlan, AttemptContext], Head]
"""Opens the head of a job, which `waits`; it is closed with the job."""


class ManagedAttempts:
    """Makes attempts. The first opens the head, and starts task managers or adopts those of the head before."""

    def __init__(self, options: ManagedOptions, open_head: OpenHead, *, adopts: bool) -> None:
        """Begin without a head; ``adopts``: there may have been one before, whose task managers live."""
        self._options, self._open, self._adopts = options, open_head, adopts
        self._head: Head | None = None
        self._has_begun = False
        self._answers: Mapping[str, ms.Holding] = {}

    def __call__(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> ManagedAttempt:
        """Make an attempt; survivors that were not adopted are let go."""
        head = self._begun(plan, context, ())
        return ManagedAttempt(plan, head, context, self._options, start)

    def survivors(
        self, plan: JobPlan, context: AttemptContext, last: PublishedCheckpoint
    ) -> Adopt | RestoreAnew | None:
        """Return what becomes of task managers that outlived the head before; None: there are none."""
        if not self._adopts or self._head is not None:
            return None
        self._head = self._open(plan, context)
        self._answers = self._head.await_survivors()
        if not self._answers:
            return None
        return adoption(plan.graph, plan_digest(plan.graph, plan.loop.key_groups), last, self._answers)

    def adopt(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, adoption: Adopt) -> ManagedAttempt:
        """Return the attempt that goes on.

        Raises:
            PenstockError: a task manager is lost meanwhile; nothing of the attempt is left.
        """
        head = self._begun(plan, context, adoption.managers)
        return ManagedAttempt(plan, head, context, self._options, start, adoption)

    def _begun(self, plan: JobPlan, context: AttemptContext, adopted: tuple[str, ...]) -> Head:
        """Return the head; before its first attempt it counts the adopted ones as its own, and starts the others."""
        if self._head is None:
            self._head = self._open(plan, context)
        if not self._has_begun:
            self._has_begun = True
            last = max((item.number for held in self._answers.values() for item in held.deployments), default=0)
            self._head.adopt({name: self._answers[name].address for name in adopted}, last)
            self._head.begin()
        return self._head
