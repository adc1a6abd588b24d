"""Makes a planned job ready to run, in the process that its head is in: the caller's, or that of a head actor."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.job_events import Tell, tell_nobody
from penstock.engine.jobs import end_of_input
from penstock.engine.jobs.attempt import JobPlan, MakeAttempt
from penstock.engine.jobs.leases import make_leases
from penstock.engine.jobs.plain import PlainJob
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.jobs.recovery_options import JobEnvironment, RecoveryOptions
from penstock.model.errors import OptionError
from penstock.model.installation import installed_version
from penstock.model.job_graph import JobGraph
from penstock.runs.run_options import RunOptions, check_named


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """``keeps``: windows stay open when all inputs have ended; ``says``: the user hears of that choice."""

    keeps: bool
    says: bool


def end_of_input_of(graph: JobGraph, options: RunOptions) -> EndOfInput:
    """Return what becomes of open windows at the end of a pipeline's inputs.

    Raises:
        OptionError: they are to be kept without checkpoints.
    """
    keeps = end_of_input.keeps_open(graph, options.at_end, checkpoints=options.checkpoints.directory is not None)
    return EndOfInput(keeps, end_of_input.says_end(graph, options.at_end))


def check_recoverable(graph: JobGraph, options: RunOptions) -> None:
    """Refuse a pipeline that cannot go on from its checkpoints, and a savepoint without them.

    Raises:
        PlanError: an operator with state has no name.
        OptionError: ``savepoint_on_stop`` without ``checkpoint_dir``.
    """
    if options.checkpoints.directory is None:
        if options.savepoint_on_stop is not None:
            raise OptionError("savepoint_on_stop needs a checkpoint_dir")
    elif not options.generated_names:
        check_named(graph)


def ready_job(
    plan: JobPlan,
    options: RunOptions,
    end: EndOfInput,
    attempts: MakeAttempt,
    warn: Callable[[str], None],
    tell: Tell = tell_nobody,
) -> PlainJob | RecoveringJob:
    """Make a planned job ready to run; with a checkpoint directory it goes on where it was, and survives failures.

    ``warn`` takes what the user is to be told, ``tell`` the job's events.

    Raises:
        PlanError: the pipeline cannot be run so.
    """
    if options.checkpoints.directory is None:
        leases = make_leases(plan.name, plan.graph, SystemClock(), None, "", take_over=options.take_over)
        return PlainJob(plan, attempts, time.sleep, leases=leases, warn=warn, tell=tell)
    recovery = RecoveryOptions(
        options.checkpoints,
        options.restarts,
        installed_version("penstock") or "unknown",
        restore=replace(options.restore, afresh=options.at_end == "close"),
        savepoint_on_stop=options.savepoint_on_stop,
        says_end=end.says,
        take_over=options.take_over,
    )
    return RecoveringJob(plan, recovery, attempts, JobEnvironment(warn=warn, tell=tell))
