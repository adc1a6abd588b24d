"""A job: the graph that streams append to, and what starts it.

`run` and `start` are also module-level functions over one default job. A command such as ``penstock explain FILE``
puts a `Launcher` in their place, so that the file's own call hands the graph over and starts nothing.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, Unpack

from penstock.dsl.handle import Handle, RunningJob, serve
from penstock.dsl.query_promises import with_promises
from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.core.contract import Clock
from penstock.engine.core.failpoint_settings import arm_from
from penstock.engine.core.job_events import Notice, Tell, tell_nobody
from penstock.engine.executors.embedded import EmbeddedJob, Progress
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.end_of_input import begin_run
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.engine.jobs.recovery import StartInterrupted
from penstock.engine.plan.planner import plan
from penstock.engine.plan.resources import refuse_in_caller, refuse_resources
from penstock.engine.plan.schemas import output_schemas
from penstock.http_api.endpoints import open_endpoint
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
    options.check_control()
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
