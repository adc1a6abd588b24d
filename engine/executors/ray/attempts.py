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
from penstock.engine.executors.managers.attempts import ManagedAttempts
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.head import Head, HeadParts
from penstock.engine.executors.managers.managed_options import ManagedOptions
from penstock.engine.executors.managers.manager_parts import parts_here
from penstock.engine.executors.managers.manager_ranks import ManagerRanks
from penstock.engine.executors.managers.plan_parcel import pack_plan
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.scaling import levers_of
from penstock.engine.executors.managers.setup import TOKEN_BYTES, ManagerSetup, storage_of
from penstock.engine.executors.ray.actor import ActorSettings
from penstock.engine.executors.ray.cluster import connected
from penstock.engine.executors.ray.control_listener import ControlListener
from penstock.engine.executors.ray.outliving import Outliving, job_title
from penstock.engine.executors.ray.tls_of_cluster import tls_files_here
from penstock.engine.executors.ray.worker_home import home_here
from penstock.engine.jobs.attempt import AttemptContext, JobPlan, MakeAttempt
from penstock.engine.plan.resources import rank_needs
from penstock.engine.transport.addresses import Transport
from penstock.engine.transport.tls import Tls
from penstock.model.control import NO_CONTROL, ControlOptions


@dataclass(frozen=True, slots=True)
class RayOptions:
    """Options of the executor: how many task managers on which cluster (None: see `connected`).

    ``spread`` puts them on as many nodes as there are, or else on as few. ``transport`` carries rows between them
    (None: the best for each two). ``control`` is that of load, where the head is. With
    ``outliving`` they outlive this process, if it is lost, for another head; not if instances need more than a core.
    """

    task_managers: int
    managed: ManagedOptions
    address: str | None = None
    spread: bool = False
    transport: Transport | None = None
    outliving: Outliving | None = None
    control: ControlOptions = NO_CONTROL


def ray_attempts(options: RayOptions) -> MakeAttempt:
    """Return what makes the attempts of a job on actors of Ray.

    The first attempt starts them, they end with the job. A process that is connected to a cluster already, as a Ray
    actor is, uses that one. Those that outlived a head are adopted by the one that follows.
    """
    outliving = options.outliving
    adopts = outliving is not None and outliving.follows
    return ManagedAttempts(options.managed, partial(_open_head, options), adopts=adopts)


def _open_head(options: RayOptions, plan: JobPlan, context: AttemptContext) -> Head:
    tune_process()
    # What cannot travel is said before a cluster is begun.
    packed = pack_plan(plan)
    context.resources.enter_context(connected(options.address, options.task_managers))
    import ray

    from penstock.engine.executors.ray.launcher import RayLauncher
    from penstock.engine.executors.ray.quota_actor import QuotaKeeperOnRay
    from penstock.engine.executors.ray.reserved_places import Wanted

    storage = storage_of(context)
    needs = rank_needs(plan.graph, options.task_managers)
    # Without checkpoints a job whose head is lost has failed. Another head would not know who has what is needed.
    outliving = None if storage is None or needs.ranks else options.outliving
    run = 1 if storage is None else storage.run
    token = secrets.token_bytes(TOKEN_BYTES) if outliving is None else outliving.token
    alone_s = 0.0 if outliving is None else outliving.alone_s
    setup = ManagerSetup(packed, token, options.managed.host, storage, options.transport)
    host = ray.util.get_node_ip_address()
    home = home_here()
    files = tls_files_here(os.environ)
    tls = None if files is None else Tls(files)
    title = f"{plan.name}, run {run}" if outliving is None else job_title(plan.name, run)
    launchers: list[RayLauncher] = []

    def make_pool(wake: Callable[[], None]) -> ManagerPool[Future[socket]]:
        with ExitStack() as opened:
            listener = ControlListener(setup.token, run, host, context.clock, tls)
            opened.callback(listener.close)
            launcher = RayLauncher(
                Wanted(title, options.task_managers, "SPREAD" if options.spread else "PACK", needs),
                listener,
                lambda name: ActorSettings(name, plan.name, run, listener.address, setup.token, home, alone_s),
                context.clock,
                outliving,
                goes_on=options.outliving is not None and options.outliving.follows,
            )
            launchers.append(launcher)
            opened.callback(launcher.close, 0)
            pool = ManagerPool(
                launcher, ControlPlane, context.clock, plan.name, run, options.task_managers, wake, context.warn
            )
            context.resources.callback(opened.pop_all().close)
            return pool

    parts = HeadParts(
        plan,
        setup,
        context.clock,
        make_pool,
        make_parts=partial(parts_here, host=host, tls=tls),
        control=options.control,
        levers=levers_of(plan, context, options.control, QuotaKeeperOnRay),
        warn=context.warn,
        ranks=ManagerRanks(options.task_managers, lambda name: launchers[0].rank(name)) if needs.ranks else None,
        waits=True,
    )
    return context.resources.enter_context(Head(parts))
