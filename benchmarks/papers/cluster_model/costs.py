"""Costs of a row at each instance now: its task's work, state, garbage, warm-up, batches and remote calls.

As docs/design/simulated-cluster.md 3, 4, 7 and 8 have it; the simulated cluster asks at every slow tick.
"""

from dataclasses import dataclass

import numpy as np

from penstock.benchmarks.papers.cluster_model.flows import Costs
from penstock.benchmarks.papers.cluster_model.keyed_state import AccessCosts
from penstock.benchmarks.papers.cluster_model.services import MOST_LOAD, Services
from penstock.benchmarks.papers.cluster_model.spec import ClusterSpec
from penstock.benchmarks.papers.cluster_model.tallies import columns_of, floats
from penstock.benchmarks.papers.cluster_model.topology import Topology
from penstock.model.columns import Floats


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """Figures of tasks as columns."""

    cpu_s: Floats
    fetch_cpu_s: Floats
    sigma: Floats
    warm_up_factor: Floats
    warm_up_s: Floats
    batch_rows: Floats
    batch_cpu_s: Floats
    linger_s: Floats
    poll_rows_per_s: Floats
    fire_cpu_s: Floats
    calls: Floats
    in_flight: Floats
    service: Floats
    queue_rows: Floats
    window_s: Floats
    is_source: Floats


def figures_of(spec: ClusterSpec) -> TaskFigures:
    """Return the figures of all tasks; service -1: calls none."""
    services = {service.name: float(index) for index, service in enumerate(spec.services)}
    sources = {source.task for source in spec.sources}
    names = [name for name in TaskFigures.__slots__ if name not in ("service", "is_source")]
    return TaskFigures(
        **columns_of(spec.tasks, names),
        service=floats(-1.0 if task.service is None else services[task.service] for task in spec.tasks),
        is_source=floats(task.name in sources for task in spec.tasks),
    )


@dataclass(frozen=True, slots=True)
class CostInputs:
    """Inputs of costs, by instance: rows a second lately, age, what its application's garbage costs a row.

    ``keep`` is what sources keep of what they fetch; ``access`` by task number what state costs.
    """

    rate: Floats
    age_s: Floats
    garbage_s: Floats
    keep: Floats
    parallelism: Floats
    access: dict[int, AccessCosts]


def costs_of(top: Topology, tasks: TaskFigures, now: CostInputs, services: Services) -> Costs:
    """Return what units cost.

    cpu = c (1 + sigma (p - 1)) (1 + f exp(-age / w)) + batch / n + state + garbage;  n: rows of a batch

    c, f, w: the task's cost, slowness when it starts and how long that lasts; p: its instances.
    """
    t = top.task
    slow = 1 + tasks.warm_up_factor[t] * np.exp(-now.age_s / np.maximum(tasks.warm_up_s[t], 1e-9))
    scaled = 1 + tasks.sigma[t] * (now.parallelism - 1)
    batch = np.clip(now.rate * tasks.linger_s[t], 1.0, np.maximum(1.0, tasks.batch_rows[t]))
    cpu = tasks.cpu_s[t] * scaled * slow + tasks.batch_cpu_s[t] / batch + now.garbage_s
    wait = np.zeros(top.count)
    stall_per_s = np.full(top.count, np.inf)
    for task, access in now.access.items():
        rows = t == task
        cpu[rows] += access.cpu_s * slow[rows]
        wait[rows] = access.wait_s
        stall_per_s[rows] = access.most_per_s
    remote, remote_per_s = _remote(top, tasks, services)
    # A source's unit is a row fetched, of which only those that are kept cost more.
    part = np.where(tasks.is_source[t] > 0, now.keep, 1.0)
    fetch = np.where(tasks.is_source[t] > 0, tasks.fetch_cpu_s[t] * slow, 0.0)
    part = np.maximum(part, 1e-12)
    cpu_s = fetch + part * cpu
    busy_s = cpu_s + part * wait
    most = np.minimum(np.minimum(stall_per_s, remote_per_s) / part, tasks.poll_rows_per_s[t])
    return Costs(
        cpu_s=cpu_s,
        busy_s=busy_s,
        thread_s=busy_s + part * remote,
        most_per_s=most,
        is_remote=remote_per_s / part <= most,
        is_stall=(stall_per_s / part <= most) & np.isfinite(stall_per_s),
        fire_s=tasks.fire_cpu_s[t] * scaled * slow,
    )


def _remote(top: Topology, tasks: TaskFigures, services: Services) -> tuple[Floats, Floats]:
    """Return what a row waits for answers, and how many rows a second their services and windows of calls allow."""
    waits = np.zeros(top.count)
    most = np.full(top.count, np.inf)
    if not len(services.specs):
        return waits, most
    service = tasks.service[top.task].astype(np.int64)
    calls = np.where(service >= 0, tasks.calls[top.task], 0.0)
    per_row = calls * services.attempts()[service]
    latency = per_row * services.latency_s[service]
    in_flight = tasks.in_flight[top.task]
    waits = np.where(in_flight > 0, 0.0, latency)
    callers = np.bincount(service[calls > 0], minlength=len(services.specs))
    fair = MOST_LOAD * services.most_calls_per_s / np.maximum(1, callers)
    with np.errstate(divide="ignore"):
        most = np.where(calls > 0, fair[service] / np.maximum(per_row, 1e-12), np.inf)
        most = np.where((calls > 0) & (in_flight > 0), np.minimum(most, in_flight / np.maximum(latency, 1e-12)), most)
    return waits, most
