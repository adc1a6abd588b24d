"""A job without checkpoints: one attempt, from its start to the end of its inputs, a stop or an error."""

import sys
from collections.abc import Callable

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.attempt_start import FIRST
from penstock.engine.jobs.attempt import Attempt, AttemptContext, JobPlan, MakeAttempt, Progress
from penstock.engine.jobs.leases import Leases
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.restore.restorer import release_connectors


class PlainJob:
    """A job of one attempt. `run` works in the calling thread; `stop` may be called from any other."""

    has_run = True  # It is built, so it can stop in order.

    def __init__(
        self,
        plan: JobPlan,
        make_attempt: MakeAttempt,
        pause: Callable[[float], None],
        *,
        clock: Clock | None = None,
        leases: Leases | None = None,
    ) -> None:
        """Build and open everything; nothing runs yet.

        ``leases`` are those of the outputs; ``pause`` waits so many seconds while another run has one.

        Raises:
            PlanError: an operator does not fit its inputs.
            InUseError: another run that lives writes to an output of this one.
        """
        self.name = plan.name
        self._graph = plan.graph
        self._leases = leases or Leases(None, ())
        self._attempt: Attempt | None = None
        self._context = AttemptContext(clock or SystemClock(), warn=_say)
        try:
            self._leases.acquire(None, pause, _say, self._wake)
            self._attempt = make_attempt(plan, self._context, FIRST)
        except BaseException:
            self._close()
            raise

    @property
    def attempt(self) -> Attempt:
        """The attempt that runs its instances."""
        assert self._attempt is not None
        return self._attempt

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
            self._close()
            raise
        try:
            self.attempt.finish()
        finally:
            self._close()

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

    def _close(self) -> None:
        self._context.resources.close()
        release_connectors(self._graph)
        self._leases.release()


def _say(text: str) -> None:
    print(text, file=sys.stderr)
