"""The executor ``processes``: the head is this process, task managers are processes of this machine."""

import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.control.quota_file import QuotaFile
from penstock.engine.core.process_tuning import tune_process
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.head import Head, HeadParts
from penstock.engine.executors.managers.host_probe import usable_core_numbers
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.executors.managers.managed_options import ManagedOptions
from penstock.engine.executors.managers.plan_parcel import pack_plan
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.scaling import levers_of
from penstock.engine.executors.managers.setup import TOKEN_BYTES, ManagerSetup, storage_of
from penstock.engine.executors.processes.launcher import ProcessLauncher, cores_to_pin
from penstock.engine.jobs.attempt import AttemptContext, JobPlan, MakeAttempt
from penstock.engine.transport.addresses import Transport
from penstock.model.control import NO_CONTROL, ControlOptions


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """Options of the executor: the number of task managers, and what carries rows between them (None: the best).

    With ``pin`` each has a core of its own. ``control`` is that of load.
    """

    task_managers: int
    managed: ManagedOptions
    transport: Transport | None = None
    pin: bool = False
    control: ControlOptions = NO_CONTROL


def process_attempts(options: ProcessOptions) -> MakeAttempt:
    """Return what makes the attempts of a job on task managers.

    The first attempt starts them, they end with the job.
    """
    heads: list[Head] = []

    def make(plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> ManagedAttempt:
        tune_process()
        if not heads:
            heads.append(context.resources.enter_context(_open_head(plan, options, context)))
        return ManagedAttempt(plan, heads[0], context, options.managed, start)

    return make


def _open_head(plan: JobPlan, options: ProcessOptions, context: AttemptContext) -> Head:
    cores = cores_to_pin(options.task_managers, usable_core_numbers()) if options.pin else ()
    storage = storage_of(context)
    run = 1 if storage is None else storage.run
    token = secrets.token_bytes(TOKEN_BYTES)
    setup = ManagerSetup(pack_plan(plan), token, options.managed.host, storage, options.transport)

    def make_pool(wake: Callable[[], None]) -> ManagerPool[socket.socket]:
        launcher = ProcessLauncher(plan.name, run, cores=cores)
        try:
            return ManagerPool(
                launcher, ControlPlane, context.clock, plan.name, run, options.task_managers, wake, context.warn
            )
        except BaseException:
            launcher.close(0)
            raise

    parts = HeadParts(
        plan,
        setup,
        context.clock,
        make_pool,
        control=options.control,
        levers=levers_of(plan, context, options.control, QuotaFile),
        warn=context.warn,
    )
    return Head(parts)
