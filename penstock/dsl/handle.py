"""A job that runs in the background, in the hands of whoever started it."""

import threading
from collections.abc import Mapping, Sequence

from penstock.cluster.remote_job import RemoteJob
from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.plain import PlainJob
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.jobs.rescale_orders import RescaleSummary
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.moves.move_orders import MoveRecord, MoveSummary
from penstock.engine.plan.free_edges import Routes
from penstock.http_api.endpoints import Endpoint
from penstock.model.byte_counts import to_bytes
from penstock.model.control import limits_of
from penstock.runs.steered_job import LocalJob, SteeredJob
from penstock.runs.steering import drained, place_on

RunningJob = PlainJob | RecoveringJob | RemoteJob
"""A job that was made ready to run."""


class Handle:
    """A job that runs in the background."""

    def __init__(self, job: RunningJob, endpoint: Endpoint | None = None) -> None:
        """Start the thread; the endpoint is closed at its end."""
        self._job = job
        self._endpoint = endpoint or Endpoint()
        serve(job, self._endpoint)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"penstock-{job.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """The job's name."""
        return self._job.name

    @property
    def running(self) -> bool:
        """True if the job has not ended yet."""
        return self._thread.is_alive()

    def stop(self, *, drain: bool = False, savepoint: str | None = None) -> JobMetrics:
        """Stop and wait: what was read is processed and written. ``drain`` also closes windows that are open.

        With ``savepoint`` the last checkpoint is kept by this name.

        Raises:
            OptionError: the job has no checkpoint_dir, or the name is not one or is taken.
            UserError: the job stops already, and would not keep the savepoint.
            PenstockError: the job failed.
        """
        self._job.stop(drain=drain, savepoint=savepoint)
        return self.wait()

    def wait(self, timeout_s: float | None = None) -> JobMetrics:
        """Wait for the end and return the final metrics.

        Raises:
            TimeoutError: the job still runs.
            PenstockError: the job failed; whatever it raised is raised here.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"job {self.name!r} still runs after {timeout_s} s")
        if self._error is not None:
            raise self._error
        return self.metrics()

    def limit(
        self,
        query: str | None = None,
        *,
        min_accuracy: float | None = None,
        max_error: float | None = None,
        priority: int | None = None,
        shed: str | None = None,
        reset: bool = False,
    ) -> None:
        """Change minimum accuracy, maximum error or priority of a query, or what sheds load, within a cycle.

        With checkpoints it holds for later runs, too, that go on from these. ``reset`` takes back what was changed
        before: of the query, or all.

        Raises:
            OptionError: the job has no control of load, or the query no contract.
            RetryableError: the change could not be kept; nothing has changed.
        """
        self._job.change_limits(limits_of(shed, query, min_accuracy, priority, max_error, reset=reset))

    def rescale(self, operator: str, parallelism: int) -> RescaleSummary:
        """Let an operator have so many instances, and return once these run.

        On task managers instances come and go while all of it runs, where chains stay. Else the job goes on from a
        checkpoint with all its state dealt out anew, and stands still meanwhile (docs/how-to/more-than-one-core.md).

        Raises:
            OptionError: there is no such operator, or it cannot have so many, or the job takes no checkpoints.
            PenstockError: the job is over, or went on as before.
        """
        return self._job.rescale({operator: parallelism})

    def preview_rescale(self, operator: str, parallelism: int) -> RescalePreview:
        """Return what so many instances of an operator would change: what moves from where to where, and how long.

        Nothing is done. Raises as `rescale`.
        """
        return self._steered().preview_rescale({operator: parallelism})

    def move(self, instance: str, task_manager: str) -> MoveSummary:
        """Let what an instance has by keys, or reads, go to others of its task at a task manager; return once it has.

        Nothing else stands still. Instances are named as `places` names them: ``"count[0]"``.

        Raises:
            UserError: there is no such instance or task manager, or it cannot be; the text says why.
            PenstockError: the job is over, or a failure came in between.
        """
        return self._job.move(instance, task_manager)

    def moves(self) -> tuple[MoveRecord, ...]:
        """Return what became of the last hundred moves, also of those that other changes are made of, oldest first."""
        return self._steered().moves()

    def route(self, operator: str, shares: Sequence[float] = ()) -> Routes:
        """Let instances of an operator get these shares of the rows that may go to any of them, from the next batch on.

        Only their proportion counts, one for each instance; without any, rows go in turns again. Returns the shares
        that hold of all operators that have some, together 1 each.

        Raises:
            OptionError: no such rows come to it, or it has not as many instances.
            PenstockError: the job is over.
        """
        return self._steered().route(operator, shares)

    def task_managers(self) -> TaskManagers:
        """Return which task managers the job has; raises an OptionError if it has none."""
        return self._steered().task_managers()

    def places(self) -> Mapping[str, str]:
        """Return the task manager of each instance that is up, by the instance's name; {}: all are in this process."""
        return self._job.places()

    def scale(self, task_managers: int) -> TaskManagers:
        """Let the job have so many task managers, and return those there are once its instances are on them.

        What comes gets a share of the state while the job runs, where that can be; those that came last go.

        Raises:
            OptionError: less than one, or the job has none.
            PenstockError: the job is over.
        """
        return place_on(self._steered(), task_managers)

    def drain(self, task_manager: str) -> TaskManagers:
        """Let a task manager go for good, and return those that are left once it has gone.

        Others take over what it hosts while the job runs; where that cannot be, they begin it behind a checkpoint.

        Raises:
            OptionError: there is no such one, or no other.
            PenstockError: the job is over.
        """
        return drained(self._steered(), task_manager)

    def set_memory(self, budgets: Mapping[str, int | str | None]) -> MemorySummary:
        """Let operators have so many bytes (or ``"128MB"``) for the state of each instance, while they run.

        None gives one the memory of the program back. What is above goes to its pages bit by bit, and nothing stands
        still. It holds for later runs from the job's checkpoints, too.

        Raises:
            OptionError: an operator has no state by keys, or it cannot have so little or so much.
            RetryableError: the change could not be kept; nothing has changed.
        """
        return self._job.change_memory(
            {name: None if size is None else to_bytes(size, f"memory of {name!r}") for name, size in budgets.items()}
        )

    def metrics(self) -> JobMetrics:
        """Return a snapshot of the job's metrics."""
        return self._job.metrics()

    @property
    def metrics_url(self) -> str | None:
        """The URL of the metrics while the job runs; None without ``metrics_port``."""
        return self._job.metrics_url if isinstance(self._job, RemoteJob) else self._endpoint.url

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        """Take a savepoint, wait until it is committed, and return its epoch. The job goes on.

        Raises:
            OptionError: the job has no checkpoint_dir, or the name is not one or is taken.
            TimeoutError: it was not committed in time; it may be later.
            PenstockError: the job is over, or the savepoint could not be written.
        """
        return self._job.savepoint(name, timeout_s)

    def _steered(self) -> SteeredJob:
        return self._job.steered if isinstance(self._job, RemoteJob) else LocalJob(self._job)

    def _run(self) -> None:
        try:
            self._job.run()
        except BaseException as error:
            self._error = error
        finally:
            self._endpoint.close()


def serve(running: RunningJob, endpoint: Endpoint) -> None:
    """Let the endpoint serve a job; one whose head is elsewhere is served there."""
    if not isinstance(running, RemoteJob):
        endpoint.show(running)
