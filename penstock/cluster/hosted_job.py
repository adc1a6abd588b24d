"""A job in a thread of its own, as a head actor hosts it: started once, stopped and asked after from any thread."""

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from penstock.cluster.job_order import HeadReport, HeadState, StopOrder
from penstock.engine.executors.managers.failures import Failure, failure_of
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.engine.jobs.plain import PlainJob
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.model.control import Limits
from penstock.model.errors import UserError

MOST_LINES = 10_000
"""So many of a job's latest lines are kept."""

MakeJob = Callable[[Callable[[str], None]], PlainJob | RecoveringJob]
"""Makes a job ready to run; it is handed what takes the lines that the user is to read."""


class Events(Protocol):
    """What becomes of a job, told in its thread; the next head of the job goes by it."""

    def ended(self, state: HeadState, failure: Failure | None) -> None:
        """Take that the job is over."""


class HostedJob:
    """A job that runs in a thread of its own. All methods may be called from any thread."""

    def __init__(self, name: str, since_us: int, head: int, events: Events) -> None:
        """Begin without a job. ``since_us`` and ``head`` are those of `HeadReport`."""
        self._name, self._since_us, self._head, self._events = name, since_us, head, events
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._next_line = 0
        self._job: PlainJob | RecoveringJob | None = None
        self._stop: StopOrder | None = None
        self._state = HeadState.STARTING
        self._failure: Failure | None = None
        self.metrics_url: str | None = None
        self.over = threading.Event()
        """Set once the job is over."""

    def start(self, make: MakeJob) -> None:
        """Make the job and run it, in a thread."""
        threading.Thread(target=self._run, args=(make,), name=f"penstock-{self._name}", daemon=True).start()

    def end(self, state: HeadState, failure: Failure | None) -> None:
        """Let the job be over that a head before this one has ended, or that cannot go on."""
        self._state, self._failure = state, failure
        self.over.set()

    def say(self, text: str) -> None:
        """Keep a line for whoever asks."""
        with self._lock:
            self._lines.append(text)
            self._next_line += 1

    def report(self, since: int) -> HeadReport:
        """Return the job at this moment, with its lines from the number ``since`` on; of those that are not kept none.

        What was said before the job's end is there once the report says that it is over.
        """
        state, failure = self._state, self._failure
        with self._lock:
            first = self._next_line - len(self._lines)
            lines = tuple(islice(self._lines, max(0, since - first), None))
            next_line = self._next_line
        if state is HeadState.RUNNING and self._stop is not None:
            state = HeadState.STOPPING
        return HeadReport(
            self._name, state, self._since_us, self._head, self.metrics(), lines, next_line, failure, self.metrics_url
        )

    def metrics(self) -> JobMetrics:
        """Return a snapshot of the job's metrics."""
        job = self._job
        return no_metrics(self._name) if job is None else job.metrics()

    def stop(self, order: StopOrder) -> None:
        """Ask for the end; a job that is over stays as it is.

        Raises:
            OptionError: the savepoint cannot be kept.
        """
        with self._lock:
            job = self._job
            if job is None:
                self._stop = order
        if job is not None:
            job.stop(drain=order.drain, savepoint=order.savepoint)
            self._stop = order

    def savepoint(self, name: str, timeout_s: float | None) -> int:
        """Take a savepoint and return its epoch; see `RecoveringJob.savepoint`.

        Raises:
            PenstockError: the job has not begun, takes no checkpoints, is over, or the savepoint could not be written.
        """
        job = self._job
        if job is None:
            raise UserError(f"job {self._name!r} is {self._state} and takes no savepoint now: ask again")
        if isinstance(job, PlainJob):
            raise UserError(f"job {self._name!r} takes no checkpoints: start it with a checkpoint_dir")
        return job.savepoint(name, timeout_s)

    def change_limits(self, change: Limits) -> Limits:
        """Lay limits over those that hold, and return all of them; see `RunningLimits.change`.

        Raises:
            PenstockError: the job has not begun, has no control of load, or cannot have these.
        """
        return self.running().change_limits(change)

    def running(self) -> PlainJob | RecoveringJob:
        """Return the job itself.

        Raises:
            UserError: it has not begun.
        """
        job = self._job
        if job is None:
            raise UserError(f"job {self._name!r} is {self._state} and cannot be changed now: ask again")
        return job

    def _run(self, make: MakeJob) -> None:
        state, failure = HeadState.FAILED, None
        try:
            job = make(self.say)
            with self._lock:
                self._job, stop = job, self._stop
            if stop is not None:
                job.stop(drain=stop.drain, savepoint=stop.savepoint)
            self._state = HeadState.RUNNING
            job.run()
            state = HeadState.DONE if job.drained else HeadState.STOPPED
        except BaseException as error:
            failure = failure_of(error)
        finally:
            try:
                self._events.ended(state, failure)
            finally:
                self.end(state, failure)
