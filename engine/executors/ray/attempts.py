"""The executor ``ray``: the head is the process that runs the job, wherever it is, task managers are actors of Ray."""

import os
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from socket import socket

from penstock.engine.core.process_tuning import tune_process
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.head import Head, HeadParts
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt, ManagedOptions
from penstock.engine.executors.managers.manager_parts import parts_here
from penstock.engine.executors.managers.plan_parcel import pack_plan
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.setup import TOKEN_BYTES, ManagerSetup, storage_of
from penstock.engine.executors.ray.actor import ActorSettings
from penstock.engine.executors.ray.cluster import connected
from penstock.engine.executors.ray.control_listener import ControlListener
from penstock.engine.executors.ray.tls_of_cluster import tls_files_here
from penstock.engine.executors.ray.worker_home import home_here
from penstock.engine.jobs.attempt import AttemptContext, JobPlan, MakeAttempt
from penstock.engine.transport.addresses import Transport
from penstock.engine.transport.tls import Tls


@dataclass(frozen=True, slots=True)
class RayOptions:
    """Options of the executor: how many task managers on which cluster (None: see `connected`).

    ``spread`` puts them on as many nodes as there are, or else on as few. ``transport`` carries rows between them
    (None: the best for each two).
    """

    task_managers: int
    managed: ManagedOptions
    address: str | None = None
    spread: bool = False
    transport: Transport | None = None


def ray_attempts(options: RayOptions) -> MakeAttempt:
    """Return what makes the attempts of a job on actors of Ray.

    The first attempt starts them, they end with the job. A process that is connected to a cluster already, as a Ray
    actor is, uses that one.
    """
    heads: list[Head] = []

    def make(plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> ManagedAttempt:
        tune_process()
        if not heads:
            # What cannot travel is said before a cluster is begun.
            packed = pack_plan(plan)
            context.resources.enter_context(connected(options.address, options.task_managers))
            heads.append(context.resources.enter_context(_open_head(plan, packed, options, context)))
        return ManagedAttempt(plan, heads[0], context, options.managed, start)

    return make


def _open_head(plan: JobPlan, packed: bytes, options: RayOptions, context: AttemptContext) -> Head:
    import ray

    from penstock.engine.executors.ray.launcher import RayLauncher

    storage = storage_of(context)
    run = 1 if storage is None else storage.run
    setup = ManagerSetup(packed, secrets.token_bytes(TOKEN_BYTES), options.managed.host, storage, options.transport)
    host = ray.util.get_node_ip_address()
    home = home_here()
    files = tls_files_here(os.environ)
    tls = None if files is None else Tls(files)

    def make_pool(wake: Callable[[], None]) -> ManagerPool[Future[socket]]:
        with ExitStack() as opened:
            listener = ControlListener(setup.token, run, host, context.clock, tls)
            opened.callback(listener.close)
            launcher = RayLauncher(
                f"{plan.name}, run {run}",
                options.task_managers,
                "SPREAD" if options.spread else "PACK",
                listener.expect,
                listener.dismiss,
                lambda name: ActorSettings(name, plan.name, run, listener.address, setup.token, home),
                context.clock,
            )
            opened.callback(launcher.close, 0)
            pool = ManagerPool(
                launcher, ControlPlane, context.clock, plan.name, run, options.task_managers, wake, context.warn
            )
            context.resources.callback(opened.pop_all().close)
            return pool

    return Head(HeadParts(plan, setup, context.clock, make_pool, make_parts=partial(parts_here, host=host, tls=tls)))
