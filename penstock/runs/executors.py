"""The executor of a job, by its options: what makes its attempts."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.executors.embedded import EmbeddedOptions, embedded_attempts
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.jobs.attempt import MakeAttempt
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.transport.addresses import Transport
from penstock.model.control import ControlOptions
from penstock.runs.cores import usable_cores
from penstock.runs.run_options import EMBEDDED, PROCESSES, RAY, RunOptions

if TYPE_CHECKING:
    from penstock.engine.executors.ray.outliving import Outliving


def attempts_of(
    options: RunOptions, warn: Callable[[str], None], *, keeps: bool, outliving: "Outliving | None" = None
) -> MakeAttempt:
    """Return what makes attempts by the executor of the options; ``keeps``: windows stay open at the end of inputs.

    ``outliving`` is how task managers on Ray outlive this process, if it is a head actor.
    """
    if options.executor == EMBEDDED:
        if options.instances > 1:
            warn(
                f"ONE CORE: the embedded executor runs {options.instances} instances of each operator in turns, "
                f"which costs and gains nothing; executor={PROCESSES!r} (--executor {PROCESSES}) uses more cores."
            )
        return embedded_attempts(embedded_options(options, warn, keeps=keeps))
    from penstock.engine.executors.managers.managed_options import ManagedOptions

    bad_records = BadRecords(options.max_dead_letters, warn)
    host = HostOptions(options.dead_letters, keeps=keeps)
    managed = ManagedOptions(host, bad_records)
    transport = None if options.transport is None else Transport(options.transport)
    count = options.task_managers or usable_cores()
    if options.executor == RAY:
        from penstock.engine.executors.ray.attempts import RayOptions, ray_attempts

        on_ray = (options.address, options.spread, transport, outliving, control_of(options))
        return ray_attempts(RayOptions(count, managed, *on_ray))
    from penstock.engine.executors.processes.attempts import ProcessOptions, process_attempts

    return process_attempts(ProcessOptions(count, managed, transport, options.pin, control_of(options)))


def control_of(options: RunOptions) -> ControlOptions:
    """Return the control of load that the options ask for; its own log is in the job's directory.

    A head that is an actor has none there unless the whole path is said: its folder may be one that Ray deletes.
    """
    folder = options.job_directory
    own_log = None if options.has_head_actor and not folder.is_absolute() else folder / OWN_LOG
    return ControlOptions(options.action_log, options.control, own_log)


OWN_LOG = "actions.jsonl"
"""The action log of a job that acts, in its directory."""


def with_task_managers(options: RunOptions) -> RunOptions:
    """Return options that say how many task managers there are, as a cluster is asked that is there already.

    Raises:
        RetryableError: the cluster does not answer.
    """
    if options.executor != RAY or options.task_managers is not None:
        return options
    from penstock.engine.executors.ray.cluster import free_cpus, has_cluster

    free = free_cpus(options.address) if has_cluster(options.address) else usable_cores()
    return replace(options, task_managers=min(free, options.loop.key_groups))


def embedded_options(
    options: RunOptions, warn: Callable[[str], None], *, keeps: bool = False, async_calls: MakeCalls = IoThread
) -> EmbeddedOptions:
    """Return what the embedded executor takes of the options."""
    bad_records = BadRecords(options.max_dead_letters, warn)
    return EmbeddedOptions(
        letters=options.dead_letters,
        keeps=keeps,
        bad_records=bad_records,
        async_calls=async_calls,
        control=control_of(options),
    )
