"""The adoption of instances that outlived the head of their job: what a new head goes on with, or why it does not.

Values, and what an executor offers whose instances may outlive a head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.jobs.attempt import Attempt, AttemptContext, JobPlan, MakeAttempt
from penstock.engine.jobs.life_cycle import Adopting, JobLifeCycle
from penstock.engine.restore.restorer import adopt_sinks
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import PenstockError
from penstock.model.failpoints import failpoint
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners
from penstock.state.checkpoints.results import PublishedCheckpoint


@dataclass(frozen=True, slots=True)
class AdoptedDeployment:
    """A region as it was built once: its number, its tasks, and the task manager of each instance.

    ``last_move`` is the number of its last move; ``owners`` are those of each task of which key groups have moved.
    """

    number: int
    tasks: frozenset[TaskId]
    places: Mapping[str, str]
    last_move: int = 0
    owners: Mapping[TaskId, Owners] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Adopt:
    """Instances go on as they are, under the greatest number of an ``attempt`` that any of them had.

    ``managers`` are the task managers that go on, with instances or without. ``receipts`` are what the writers of each
    sink have prepared behind the last checkpoint, each with its epoch, ``claims`` what sinks left as these began.
    """

    attempt: int
    managers: tuple[str, ...]
    deployments: tuple[AdoptedDeployment, ...]
    receipts: Mapping[str, Sequence[tuple[int, Any]]] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RestoreAnew:
    """All instances are built anew, from the last checkpoint; ``reason`` says why nothing is adopted."""

    reason: str


class AdoptionNotices(Protocol):
    """Takes what the user is told of an adoption; see `JobNotices`."""

    def adopted(self, managers: int, attempt: int, epoch: int) -> None:
        """Say that instances of the run before go on."""

    def not_adopted(self, reason: str) -> None:
        """Say why they do not."""


@runtime_checkable
class AdoptingAttempts(MakeAttempt, Protocol):
    """Makes attempts of a job whose instances may outlive its head."""

    def survivors(
        self, plan: JobPlan, context: AttemptContext, last: PublishedCheckpoint
    ) -> Adopt | RestoreAnew | None:
        """Return what becomes of instances that live on after the head before; None: there are none.

        Those that are not adopted end when an attempt is made.
        """

    def adopt(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, adoption: Adopt) -> Attempt:
        """Return the attempt of instances that live; the sinks have adopted their writers.

        Raises:
            PenstockError: a task manager is lost meanwhile; nothing of the attempt is left.
        """


def adopted_attempt(
    make: MakeAttempt,
    plan: JobPlan,
    context: AttemptContext,
    restored: RestoredState | None,
    life: JobLifeCycle,
    news: AdoptionNotices,
) -> Attempt | None:
    """Return the attempt of a run before whose instances live, None: there is none that a job may go on with.

    ``restored`` is the last checkpoint, None: there is none. No sink has been asked to recover.

    Raises:
        PenstockError: a task manager was lost while it was adopted.
    """
    if not isinstance(make, AdoptingAttempts) or context.checkpoints is None:
        return None
    repository = context.checkpoints.repository
    newest = repository.newest()
    epoch = 0 if restored is None else restored.epoch
    verdict = make.survivors(plan, context, newest if newest.epoch == epoch else PublishedCheckpoint(epoch, 0))
    if isinstance(verdict, Adopt) and newest.epoch != epoch:
        verdict = RestoreAnew(f"the newest checkpoint is that of epoch {newest.epoch}, and it goes on from {epoch}")
    if isinstance(verdict, Adopt):
        try:
            adopt_sinks(plan.graph, restored, verdict.receipts, verdict.claims)
        except PenstockError as error:
            verdict = RestoreAnew(str(error))
    if isinstance(verdict, RestoreAnew):
        news.not_adopted(verdict.reason)
    if not isinstance(verdict, Adopt):
        return None
    failpoint("job.sinks_adopted")
    life.on(Adopting(verdict.attempt))
    attempt = make.adopt(plan, context, AttemptStart(life.attempt, restored, newest.epoch), verdict)
    news.adopted(len(verdict.managers), verdict.attempt, epoch)
    return attempt
