"""Starts a job with a head actor: connects to Ray, packs the plan, hands it over."""

import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from uuid import uuid4

from penstock.cluster.bound_operators import check_unbound
from penstock.cluster.job_order import JobOrder
from penstock.cluster.remote_job import RemoteJob
from penstock.engine.executors.managers.plan_parcel import pack_whole_plan
from penstock.engine.executors.ray.cluster import connected
from penstock.engine.executors.ray.worker_home import home_here
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.restore.restorer import release_connectors
from penstock.http_api.endpoints import tokens_of
from penstock.model.errors import BugError
from penstock.runs.job_start import EndOfInput
from penstock.runs.run_options import RunOptions

RUNNING = "ON RAY"
"""The first words of the line which says that a job's head is there."""


def start_on_cluster(plan: JobPlan, options: RunOptions, end: EndOfInput) -> RemoteJob:
    """Start the head actor of a planned job; it runs on when this process is gone, unless the cluster is its own.

    ``options`` say how many task managers there are.

    Raises:
        PlanError: something of the pipeline is bound to this process, or cannot go to another.
        InUseError: a job of this name runs on the cluster.
        OptionError: a token cannot be read.
        RetryableError: no cluster answers, or a source cannot look up its bounds now.
    """
    tokens = tokens_of(options)
    if options.task_managers is None:
        raise BugError("a job is submitted without a number of task managers")
    check_unbound(plan.graph.graph)
    try:
        parcel = pack_whole_plan(plan)
    finally:
        release_connectors(plan.graph)
    with ExitStack() as opened:
        opened.enter_context(connected(options.address, options.task_managers))
        from penstock.cluster.heads import start_head

        # The head is on the cluster, whatever its address is from here, and an actor is enough.
        own = replace(options, address=None, attached=True)
        order = JobOrder(options.name, uuid4().hex[:16], own, end, home_here(), time.time_ns() // 1_000, tokens)
        head = start_head(order, parcel)
        try:
            head.report(timeout_s=None)
        except BaseException:
            head.kill()
            raise
        print(f"{RUNNING}: the head of {options.name!r} is an actor; penstock status {options.name}", file=sys.stderr)
        return RemoteJob(options.name, head, opened.pop_all())
