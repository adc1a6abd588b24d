"""The embedded executor: a whole job in this process, on one thread, alone or as attempts of a recovering job."""

import sys
import time

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.engine.core.process_tuning import tune_process
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.worker import Worker
from penstock.engine.executors.embedded_attempt import EmbeddedAttempt, EmbeddedOptions
from penstock.engine.jobs.attempt import AttemptContext, JobPlan, MakeAttempt, Progress
from penstock.engine.jobs.leases import Leases
from penstock.engine.jobs.metrics import JobMetrics

__all__ = ["EmbeddedJob", "EmbeddedOptions", "Progress", "embedded_attempts"]


def embedded_attempts(options: EmbeddedOptions) -> MakeAttempt:
    """Return what makes the attempts of a recovering job in this process."""

    def make(plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> EmbeddedAttempt:
        tune_process()
        return EmbeddedAttempt(plan, options, context.clock, context, start)

    return make


class EmbeddedJob:
    """A job without checkpoints. `run` turns the loop in the calling thread; `stop` may be called from any other."""

    has_run = True  # It is built, so it can stop in order.

    def __init__(
        self,
        plan: JobPlan,
        options: EmbeddedOptions | None = None,
        *,
        clock: Clock | None = None,
        leases: Leases | None = None,
    ) -> None:
        """Build and open everything; nothing runs yet. ``leases`` are those of the outputs.

        Raises:
            PlanError: an operator does not fit its inputs.
            InUseError: another run that lives writes to an output of this one.
        """
        tune_process()
        self.name = plan.name
        self._leases = leases or Leases(None, ())
        self._attempt: EmbeddedAttempt | None = None
        try:
            self._leases.acquire(None, time.sleep, _say, self._wake)
            self._attempt = EmbeddedAttempt(plan, options or EmbeddedOptions(), clock or SystemClock())
        except BaseException:
            self._leases.release()
            raise

    @property
    def attempt(self) -> EmbeddedAttempt:
        """The attempt that runs its instances."""
        assert self._attempt is not None
        return self._attempt

    @property
    def build(self) -> Build:
        """Everything that runs."""
        return self.attempt.build

    @property
    def worker(self) -> Worker:
        """The loop."""
        return self.attempt.worker

    @property
    def drained(self) -> bool:
        """True if it has run to the end of its inputs, or was told to end as if it had."""
        return self.attempt.drained

    def run(self, progress: Progress | None = None) -> None:
        """Run to the end of all inputs or to a stop; close sinks and check the ledger.

        On an error everything is aborted and the error is raised.
        """
        try:
            struck = self.attempt.proceed(self._is_fenced, None, progress)
            if struck is not None:
                raise struck.error
            self._leases.check()
        except BaseException as error:
            self.attempt.take_down(None, error)
            self._leases.release()
            raise
        try:
            self.attempt.finish()
        finally:
            self._leases.release()

    def stop(self, *, drain: bool = False) -> None:
        """Ask the loop to stop: what was read is processed and written; ``drain`` also closes open windows.

        May be called from a signal handler.
        """
        self.attempt.stop(drain=drain)

    def metrics(self) -> JobMetrics:
        """Return a snapshot, the last one when the job has ended; may be called from any thread while it runs."""
        return self.attempt.metrics()

    def _is_fenced(self) -> bool:
        return self._leases.fenced is not None

    def _wake(self) -> None:
        if self._attempt is not None:
            self._attempt.wake()


def _say(text: str) -> None:
    print(text, file=sys.stderr)
