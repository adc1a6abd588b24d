"""The executor ``processes``: the head is this process, task managers are processes of this machine."""

import secrets
from dataclasses import dataclass

from penstock.engine.core.process_tuning import tune_process
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.executors.managers.head import Head, HeadParts
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.executors.managers.plan_parcel import pack_plan
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.setup import ManagerSetup, Storage
from penstock.engine.executors.processes.launcher import ProcessLauncher
from penstock.engine.jobs.attempt import AttemptContext, JobPlan, MakeAttempt
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.transport.meeting import Transport

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """Options of the executor: the number of task managers, what their instances need, what carries rows between them.

    ``bad_records`` are those of the whole run, over all attempts; without ``transport`` the best one is taken that works.
    """

    task_managers: int
    host: HostOptions
    bad_records: BadRecords
    transport: Transport | None = None


def process_attempts(options: ProcessOptions) -> MakeAttempt:
    """Return what makes the attempts of a job on task managers, which the first of them starts.

    They are ended with the job.
    """
    heads: list[Head] = []

    def make(plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> ManagedAttempt:
        tune_process()
        if not heads:
            heads.append(context.resources.enter_context(_open_head(plan, options, context)))
        return ManagedAttempt(plan, heads[0], context, options, start)

    return make


def _open_head(plan: JobPlan, options: ProcessOptions, context: AttemptContext) -> Head:
    session = context.checkpoints
    storage, run = None, 1
    if session is not None:
        run = session.repository.run
        storage = Storage(session.repository.files, run, context.allowed)
    setup = ManagerSetup(
        pack_plan(plan), secrets.token_bytes(TOKEN_BYTES), options.host, storage, options.transport
    )

    def make_pool(wake):
        launcher = ProcessLauncher(plan.name, run)
        return ManagerPool(launcher, context.clock, plan.name, run, options.task_managers, wake, context.warn)

    return Head(HeadParts(plan, setup, context.clock, make_pool))
