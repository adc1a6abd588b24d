"""A job without checkpoints: one attempt, from its start to the end of its inputs, a stop or an error."""

import sys
from collections.abc import Callable, Mapping

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.engine.core.job_events import Tell, tell_nobody
from penstock.engine.dataflow.attempt_start import FIRST
from penstock.engine.jobs.announced_life import AnnouncedLife
from penstock.engine.jobs.attempt import Attempt, AttemptContext, JobPlan, MakeAttempt, Progress
from penstock.engine.jobs.leases import Leases
from penstock.engine.jobs.life_cycle import JobState
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.plain_kept_log import PlainKeptLog
from penstock.engine.jobs.status import JobStatus
from penstock.engine.jobs.steerable_job import SteerableJob
from penstock.engine.restore.restorer import release_connectors
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph


class PlainJob(SteerableJob):
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
        warn: Callable[[str], None] | None = None,
        tell: Tell = tell_nobody,
    ) -> None:
        """Build and open everything; nothing runs yet.

        ``leases`` are those of the outputs; ``pause`` waits so many seconds while another run has one. ``warn`` takes
        what the user is to be told (None: it goes to stderr), ``tell`` the job's events.

        Raises:
            PlanError: an operator does not fit its inputs.
            InUseError: another run that lives writes to an output of this one.
        """
        self.name = plan.name
        self._plan, self._graph = plan, plan.graph
        self._life = AnnouncedLife(tell)
        self._leases = leases or Leases(None, ())
        self._attempt: Attempt | None = None
        kept = PlainKeptLog(plan.directory, plan.name, plan.sampling_seed)
        self._context = AttemptContext(clock or SystemClock(), warn=warn or _say, tell=tell, take_stretches=kept.add)
        try:
            self._leases.acquire(None, pause, warn or _say, self._wake)
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
        self._life.become(JobState.RUNNING)
        try:
            struck = self.attempt.proceed(self._is_fenced, None, progress)
            if struck is not None:
                raise struck.error
            self._leases.check()
        except BaseException as error:
            self.attempt.take_down(None, error)
            self._close()
            self._life.become(JobState.FAILED, error)
            raise
        try:
            self.attempt.finish()
        except BaseException as error:
            self._life.become(JobState.FAILED, error)
            raise
        finally:
            self._close()
        self._life.become(JobState.FINISHED)

    def stop(self, *, drain: bool = False, savepoint: str | None = None) -> None:
        """Ask the loop to stop: what was read is processed and written; ``drain`` also closes open windows.

        May be called from a signal handler.

        Raises:
            OptionError: a savepoint is to be kept.
        """
        if savepoint is not None:
            raise self._no_checkpoints()
        self.attempt.stop(drain=drain)

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        """Refuse.

        Raises:
            OptionError: the job takes no checkpoints.
        """
        raise self._no_checkpoints()

    def metrics(self) -> JobMetrics:
        """Return a snapshot, the last one when the job has ended; may be called from any thread while it runs."""
        return self.attempt.metrics()

    def status(self) -> JobStatus:
        """Return where it is in its life; from any thread."""
        return self._life.status(self.name, attempt=1)

    @property
    def graph(self) -> ExecutionGraph:
        """Its plan."""
        return self._graph

    def places(self) -> Mapping[str, str]:
        """Return the task manager of each instance, as `Attempt.places` does; from any thread."""
        return self.attempt.places()

    def _no_checkpoints(self) -> OptionError:
        return OptionError(f"job {self.name!r} takes no checkpoints: start it with a checkpoint_dir.")

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
