"""Instance capacity: from the network at first, then from latency, or from the true rate (Flink-ER, 3.1).

Rows a second by instance. Capacity stands on vertices, because every link into a vertex has its vertex's limit. Called
by `flink_er`.
"""

import numpy as np

from penstock.model.columns import Floats, Ints
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.true_rates import or_nan

MIB = float(1 << 20)
LEAST = 1e-3
"""epsilon: the least capacity, rows a second, so that a vertex can recover."""

LEAST_MS = 1e-3
"""A row is not seen to take less."""


def available_bandwidth(most: Floats, other: Floats, heartbeat: Floats, checkpoint: Floats) -> Floats:
    """Return a link's bandwidth for data (Flink-ER, eq 9): B_avail = B_max - (B_os + B_heartbeat + B_checkpoint).

    All in MB/s; the share that changes with time (B_dynamic) is part of ``other``. At least 0.
    """
    return np.maximum(most - (other + heartbeat + checkpoint), 0.0)


def network_capacity(available: Floats, row_bytes: Floats) -> Floats:
    """Return the first capacity of a vertex: c0(vi, vj) over all n_in links into vj (Flink-ER, eq 10).

    c0(vi, vj) = B_avail * 2^20 / (n_in(vj) * bytes per row); B_avail in MB/s of the machine of vj.
    """
    return available * MIB / row_bytes


def first_capacity(snapshot: ClusterSnapshot) -> Floats:
    """Return equations 9 and 10 for every instance: infinite where no link leads to it, NaN where it is not known."""
    machines = snapshot.machines
    limit = or_nan(machines.network_limit_bytes, len(machines))
    parts = (machines.network_other_bytes, machines.network_heartbeat_bytes, machines.network_checkpoint_bytes)
    used = [np.nan_to_num(or_nan(part, len(machines))) for part in parts]
    other, heartbeat, checkpoint = (part / snapshot.window_s / MIB for part in used)
    available = available_bandwidth(limit / MIB, other, heartbeat, checkpoint)
    of = snapshot.instances
    capacity = network_capacity(available[of.machine], _row_bytes(snapshot)[of.task])
    has_link = np.bincount(snapshot.edges.consumer, minlength=len(snapshot.tasks)) > 0
    return np.where(has_link[of.task], capacity, np.inf)


def unknown_network(snapshot: ClusterSnapshot, capacity: Floats) -> str:
    """Return the figures without which instances that take rows have no first capacity; "": all have one."""
    instances, machines = snapshot.instances, snapshot.machines
    blind = np.isnan(capacity) & (np.nan_to_num(or_nan(instances.records_in, len(instances))) > 0)
    limit = or_nan(machines.network_limit_bytes, len(machines))[instances.machine[blind]]
    figures = {"machines.network_limit_bytes": limit, "edges.row_bytes": _row_bytes(snapshot)[instances.task[blind]]}
    return " and ".join(name for name, values in figures.items() if np.isnan(values).any())


def _row_bytes(snapshot: ClusterSnapshot) -> Floats:
    """Return the bytes of a row that comes to a task; NaN: not measured."""
    row_bytes = np.full(len(snapshot.tasks), np.nan)
    if snapshot.edges.row_bytes is not None:
        np.fmax.at(row_bytes, snapshot.edges.consumer, snapshot.edges.row_bytes)
    return row_bytes


def step_literal(latency_ms: Floats, limit_ms: float) -> Floats:
    """Return eta_i = |1000 / l_c - 1000 / l_i| rows/s (Flink-ER, eqs 13 and 14), as printed.

    It assumes one row in flight, so it approaches a capacity of 20,000 in steps of 2 rows/s.
    """
    return np.abs(1000.0 / limit_ms - 1000.0 / np.maximum(latency_ms, LEAST_MS))


def step_paper(flow: Floats, latency_ms: Floats, limit_ms: float) -> Floats:
    """Return eta_i = f_i |l_i / l_c - 1|: equation 14 times the rows in flight, by Little's law."""
    return flow * np.abs(latency_ms / limit_ms - 1.0)


def detect(capacity: Floats, flow: Floats, latency_ms: Floats, limit_ms: float, step: Floats) -> Floats:
    """Return the capacity after a monitoring period (Flink-ER, Algorithm 1), with "<<" and "about" made concrete.

    l_v > theta = l_c             c - eta, at least epsilon and the measured flow
    l_v < 0.5 theta, f >= 0.95 c  c + eta
    f > c                         f, because what was measured disproves the estimate
    Vertices without load or latency keep theirs.
    """
    detected = capacity.copy()
    loaded = (flow > 0) & ~np.isnan(latency_ms)
    slow = loaded & (latency_ms > limit_ms)
    detected[slow] = np.maximum(capacity - step, np.maximum(flow, LEAST))[slow]
    idle = loaded & ~slow & (latency_ms < 0.5 * limit_ms) & (flow >= 0.95 * capacity)
    detected[idle] = (capacity + step)[idle]
    return np.where(loaded & (flow > detected), flow, detected)


def true_capacity(records_in: Floats, useful_ns: Floats, core_wait_ns: Floats) -> Floats:
    """Return rows per second of the time in which an instance worked or waited for its core; NaN if it took no rows.

    The true rate of DS2, section 3.1, where it runs now: an instance that shares its core takes less there, and load
    that is handed out, or an instance elsewhere, must know it. ``useful_ns``: busy and in remote calls.
    """
    active_s = (useful_ns + core_wait_ns) / 1e9
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where((records_in > 0) & (active_s > 0), records_in / active_s, np.nan)


def capacity_beside(records_in: Floats, busy_ns: Floats, useful_ns: Floats, machine: Ints, window_s: float) -> Floats:
    """Return the rows/s for which an instance gets its core from the others of its machine; NaN if it took no rows.

    c_i >= (records / busy) (b_i + max_j b_j) / 2, and no more than the true rate: with more to do, an instance gets at
    least as much time as the busiest one beside it, b being shares of the window. So one that works little, and waits
    for its core all the time, is not full: who has the core is.
    """
    busy, most = busy_ns / (window_s * 1e9), np.zeros(int(machine.max(initial=-1)) + 2)
    np.fmax.at(most, machine, busy)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shared = records_in / (busy * window_s) * (busy + most[machine]) / 2
        return np.where((records_in > 0) & (busy > 0), np.minimum(shared, records_in / (useful_ns / 1e9)), np.nan)


def capacity_alone(snapshot: ClusterSnapshot) -> Floats:
    """Return `true_capacity` of every instance."""
    instances, rows = snapshot.instances, len(snapshot.instances)
    useful_ns = or_nan(instances.busy_ns, rows) + or_nan(instances.remote_wait_ns, rows)
    return true_capacity(or_nan(instances.records_in, rows), useful_ns, or_nan(instances.core_wait_ns, rows))


def free_cores(snapshot: ClusterSnapshot) -> int | None:
    """Return how many cores are free, None: not measured. Where no instance can be, nobody measures CPU."""
    machines = snapshot.machines
    if machines.cpu_percent is None:
        return None
    free = (machines.cores - machines.cpu_percent / 100.0)[machines.cores > 0]
    return None if np.isnan(free).any() else int(np.maximum(free, 0.0).sum())
