"""A job: the graph that streams append to, and what starts it.

`run` and `start` are also module-level functions over one default job. A command such as ``penstock explain FILE``
puts a `Launcher` in their place, so that the file's own call hands the graph over and starts nothing.
"""

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, Unpack

from penstock.cluster.remote_job import RemoteJob
from penstock.dsl.query_promises import with_promises
from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.core.contract import Clock
from penstock.engine.core.failpoint_settings import arm_from
from penstock.engine.core.job_events import Notice, Tell, tell_nobody
from penstock.engine.executors.embedded import EmbeddedJob, Progress
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.end_of_input import begin_run
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.engine.jobs.plain import PlainJob
from penstock.engine.jobs.recovery import RecoveringJob, StartInterrupted
from penstock.engine.jobs.rescale_orders import RescaleSummary
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.plan.planner import plan
from penstock.engine.plan.resources import refuse_in_caller, refuse_resources
from penstock.engine.plan.schemas import output_schemas
from penstock.http_api.endpoints import Endpoint, open_endpoint
from penstock.model.byte_counts import to_bytes
from penstock.model.control import limits_of
from penstock.model.errors import PlanError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.job_graph import Input, JobGraph, OperatorNode, OperatorSpec, SinkSpec
from penstock.model.schema import TimeColumn, refuse_hidden
from penstock.model.source_location import user_location
from penstock.runs.compilation_notice import announce_compilation
from penstock.runs.executors import attempts_of, embedded_options, with_task_managers
from penstock.runs.interrupts import interrupts
from penstock.runs.job_options import JobOptions
from penstock.runs.job_start import check_recoverable, end_of_input_of, ready_job
from penstock.runs.run_options import EMBEDDED, RAY, RunOptions, make_options

RunningJob = PlainJob | RecoveringJob | RemoteJob
"""A job that was made ready to run."""


class Job:
    """A pipeline under construction. Readers add sources to it, streams add operators."""

    def __init__(self) -> None:
        """Start empty."""
        self.graph = JobGraph()
        self.promised: dict[OperatorId, set[str]] = {}
        """What the program has said of the query behind each sink, by the names that a file has for it."""
        self._numbers: dict[str, int] = {}

    def add(
        self,
        spec: OperatorSpec,
        inputs: Sequence[Input] = (),
        *,
        kind: str,
        time: TimeColumn | None = None,
    ) -> OperatorId:
        """Append an operator, checking it against its inputs, and return its id.

        Raises:
            PlanError: the operator does not fit its inputs; the message names the user's file and line.
        """
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        operator = OperatorId(f"{kind}-{number}")
        where = user_location()
        schemas = [self.graph[edge.operator].outputs[edge.output] for edge in inputs]
        try:
            outputs = dict(output_schemas(spec, schemas, str(operator), time))
            refuse_hidden(outputs.values())
        except PlanError as error:
            raise located(error, where) from None
        self.graph.add(OperatorNode(operator, str(operator), spec, tuple(inputs), outputs, where=where))
        return operator

    def change(self, operator: OperatorId, **changes: Any) -> None:
        """Replace attributes of an operator. A sink that takes the name of an older sink replaces that sink."""
        node = replace(self.graph[operator], **changes)
        self.graph.add(node)
        if "name" in changes and isinstance(node.spec, SinkSpec):
            for other in list(self.graph.operators.values()):
                if other.name == node.name and other.id != operator and isinstance(other.spec, SinkSpec):
                    del self.graph.operators[other.id]

    def plan(self, parallelism: int = 1, *, apart: bool = False) -> ExecutionGraph:
        """Return the optimised physical plan; with ``apart`` that of a job on task managers."""
        return plan(self.graph, parallelism, apart=apart)

    def run(self, name: str | None = None, **options: Unpack[JobOptions]) -> JobMetrics:
        """Run to the end of all inputs in this thread and return the final metrics.

        Ctrl-C stops the job cleanly: what was read is processed and written, windows that are open stay unwritten.
        A second Ctrl-C aborts. ``options`` are those of `JobOptions`.
        """
        chosen = make_options(name, options)
        launcher = _launchers[-1] if _launchers else None
        if launcher is not None:
            return launcher.launch(self, chosen)
        return execute(self, chosen)

    def start(self, name: str | None = None, **options: Unpack[JobOptions]) -> "Handle":
        """Start in a thread of its own and return at once."""
        chosen = make_options(name, options)
        launcher = _launchers[-1] if _launchers else None
        if launcher is not None:
            return launcher.start(self, chosen)
        endpoint = open_endpoint(chosen)
        try:
            return Handle(make_ready(self, chosen, endpoint.tell), endpoint)
        except BaseException:
            endpoint.close()
            raise


class Launcher(Protocol):
    """A command's replacement of `Job.run`."""

    def launch(self, job: Job, options: RunOptions) -> JobMetrics:
        """Take the job over instead of `run`; may raise `Captured` to end the user's file there."""

    def start(self, job: Job, options: RunOptions) -> "Handle":
        """Take the job over instead of `start`; may raise `Captured` as well."""


class Captured(BaseException):
    """Ends a user's file once its graph has been handed over."""


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

    def _run(self) -> None:
        try:
            self._job.run()
        except BaseException as error:
            self._error = error
        finally:
            self._endpoint.close()


def located(error: PlanError, where: str) -> PlanError:
    """Return the error with the user's ``file:line`` in its text; as it is if it names a line of that file already."""
    file = where.rpartition(":")[0]
    text = str(error)
    if re.search(re.escape(file) + r":\d", text):
        return error
    return type(error)(f"{text} (at {where})")


def embed(
    job: Job, options: RunOptions, *, clock: Clock | None = None, async_calls: MakeCalls = IoThread
) -> EmbeddedJob:
    """Plan a job for one run in this process, without checkpoints and leases."""
    return EmbeddedJob(_job_plan(job, options), embedded_options(options, _warn, async_calls=async_calls), clock=clock)


def make_ready(job: Job, options: RunOptions, tell: Tell = tell_nobody) -> RunningJob:
    """Plan a job to run; with a checkpoint directory it goes on where it was, and survives failures.

    ``tell`` takes its events, and what the user is told.

    Raises:
        PlanError: the pipeline cannot be run so.
    """

    def warn(text: str) -> None:
        _warn(text)
        tell(Notice(text))

    arm_from(os.environ)
    job = beside_file(job, options)
    options = with_task_managers(options)
    end = end_of_input_of(job.graph, options)
    check_recoverable(job.graph, options)
    begin_run(job.graph)
    if options.has_head_actor:
        from penstock.cluster.submission import start_on_cluster

        return start_on_cluster(_job_plan(job, options), options, end)
    announce_compilation()
    attempts = attempts_of(options, warn, keeps=end.keeps)
    return ready_job(_job_plan(job, options), options, end, attempts, warn, tell)


def beside_file(job: Job, options: RunOptions) -> Job:
    """Return a job with what the file of its options promises of queries, where its program does not.

    Raises:
        OptionError: it has no such query, or that cannot be promised of it.
    """
    if options.config is None or not options.config.queries:
        return job
    promised = Job()
    promised.graph = with_promises(job.graph, job.promised, options.config)
    return promised


def _job_plan(job: Job, options: RunOptions) -> JobPlan:
    planned = job.plan(options.instances, apart=options.executor != EMBEDDED)
    if options.executor == RAY:
        refuse_in_caller(planned)
    else:
        refuse_resources(planned, options.executor)
    return JobPlan(options.name, planned, options.loop, options.job_directory)


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def serve(running: RunningJob, endpoint: Endpoint) -> None:
    """Let the endpoint serve a job; one whose head is elsewhere is served there."""
    if not isinstance(running, RemoteJob):
        endpoint.show(running)


def execute(job: Job, options: RunOptions, progress: Progress | None = None) -> JobMetrics:
    """Run a job in this thread, with Ctrl-C as a clean stop."""
    with open_endpoint(options) as endpoint, interrupts() as signals:
        try:
            running = make_ready(job, options, endpoint.tell)
        except StartInterrupted:
            return not_begun(options)
        serve(running, endpoint)
        signals.guard(running)
        running.run(progress)
    return running.metrics()


def not_begun(options: RunOptions) -> JobMetrics:
    """Say that a job was stopped before it began, and return its metrics."""
    print(f"STOPPED: {options.name!r} had not begun", file=sys.stderr)
    return no_metrics(options.name)


@contextmanager
def launching(launcher: Launcher) -> Iterator[None]:
    """Let every `run` and `start` inside go to the launcher."""
    _launchers.append(launcher)
    try:
        yield
    finally:
        _launchers.remove(launcher)


_launchers: list[Launcher] = []
"""The launchers in place, innermost last; of the whole process, so that jobs run in threads go to them as well."""

_default_job = Job()


def default_job() -> Job:
    """Return the job that module-level readers and `run` use."""
    return _default_job


def run(name: str | None = None, **options: Unpack[JobOptions]) -> JobMetrics:
    """Run the default job; see `Job.run`."""
    return _default_job.run(name, **options)


def start(name: str | None = None, **options: Unpack[JobOptions]) -> Handle:
    """Start the default job in the background; see `Job.start`."""
    return _default_job.start(name, **options)
