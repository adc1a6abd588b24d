"""The embedded executor: a whole job in this process, on one thread, alone or as attempts of a recovering job."""

import time
from typing import TYPE_CHECKING

from penstock.engine.core.contract import Clock
from penstock.engine.core.process_tuning import tune_process
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.worker import Worker
from penstock.engine.executors.embedded_attempt import EmbeddedAttempt, EmbeddedOptions
from penstock.engine.jobs.attempt import AttemptContext, JobPlan, MakeAttempt, Progress
from penstock.engine.jobs.leases import Leases
from penstock.engine.jobs.plain import PlainJob

if TYPE_CHECKING:
    from penstock.engine.executors.embedded_control import EmbeddedControl

__all__ = ["EmbeddedJob", "EmbeddedOptions", "Progress", "embedded_attempts"]


def embedded_attempts(options: EmbeddedOptions) -> MakeAttempt:
    """Return what makes the attempts of a job in this process, which is tuned for that before there is a job."""
    tune_process()
    controls: list[EmbeddedControl] = []

    def make(plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> EmbeddedAttempt:
        if options.control.watches:
            # Most jobs have none, and are to start soon.
            from penstock.engine.executors.embedded_control import open_control

            if not controls:
                controls.append(open_control(options.control, plan, context))
            controls[0].change_plan(plan)
        return EmbeddedAttempt(plan, options, context, start, controls[0] if controls else None)

    return make


class EmbeddedJob(PlainJob):
    """A job without checkpoints in this process, whose instances and loop can be looked at."""

    def __init__(
        self,
        plan: JobPlan,
        options: EmbeddedOptions | None = None,
        *,
        clock: Clock | None = None,
        leases: Leases | None = None,
    ) -> None:
        """Build and open everything, as `PlainJob` does."""
        super().__init__(plan, embedded_attempts(options or EmbeddedOptions()), time.sleep, clock=clock, leases=leases)

    @property
    def attempt(self) -> EmbeddedAttempt:
        """The attempt that runs its instances."""
        attempt = super().attempt
        assert isinstance(attempt, EmbeddedAttempt)
        return attempt

    @property
    def build(self) -> Build:
        """Everything that runs."""
        return self.attempt.build

    @property
    def worker(self) -> Worker:
        """The loop."""
        return self.attempt.worker
