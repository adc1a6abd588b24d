"""The size that a patient hand would find: brute force over an application's trace (docs/design/papers/sage.md 5).

Rows flow as in the simulated cluster, by its formulas of costs and heap, but for one application in long steps; a test
holds it against the whole simulation.

It holds the bounds of latency, and nothing else: a heap as large as the memory that is needed anyway costs nothing, and
garbage may be collected as long as that is cheaper than memory. Sage's own bound on garbage (P1) is not asked of it, so
the oversize has the price of that bound in it. That Sage leaves a heap alone that costs nothing is Sage's part (P5).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model import heap as heaps
from penstock.benchmarks.papers.cluster_model.services import MOST_LOAD
from penstock.benchmarks.papers.sage.applications import Application, latency_bound_s
from penstock.benchmarks.papers.sage.fleet import FULLNESS
from penstock.scheduler.resizer import Allocation

Values = NDArray[np.float64]
CORES_STEP = 0.01
HEAPS = np.concatenate((np.linspace(1.05, 1.5, 6), np.linspace(1.65, 3.0, 6)))
"""Heaps that are tried, over the most that lives."""
SPARE_THREADS = 3


@dataclass(frozen=True, slots=True)
class Optimum:
    """The cheapest size that holds the bounds, and its price in cores."""

    given: Allocation
    price: float


def price(own: Application, cores: float, memory_bytes: float) -> float:
    """Return what a size takes of hosts: cores, and memory at what a host has of it for a core."""
    host = float(own.parameters.value("sage", "host_memory_bytes")) / float(own.parameters.value("sage", "host_cores"))
    return cores + memory_bytes / host


def optimum(own: Application) -> Optimum:
    """Return the optimum over all numbers of threads, heaps and cores on a grid; of equal ones the smallest heap."""
    live = living(own)
    least = _least_threads(own, live)
    best: Optimum | None = None
    for threads in range(least, max(8 * least, own.partitions) + 1):
        if best is not None and threads > best.given.threads + SPARE_THREADS:
            break
        for given in _least_cores(own, live, threads):
            candidate = Optimum(given, price(own, given.cores, given.memory_bytes))
            if best is None or candidate.price < best.price * (1 - 1e-9):
                best = candidate
    if best is None:
        raise ValueError(f"no size holds the bounds of {own.name}")
    return best


def living(own: Application) -> Values:
    """Return live heap over a cycle, once all has settled: base + keys x bytes, keys as they come and go."""
    rate = np.array(own.rate.values)
    if not own.state_bytes:
        return np.full(len(rate), own.live_bytes)
    new = FULLNESS / (1 - FULLNESS) / (own.retention_s * own.mean_rate)
    expired = -np.expm1(-own.rate.each_s / own.retention_s)
    keys, over = FULLNESS, np.zeros(len(rate))
    for _ in range(4):
        for step, value in enumerate(rate):
            keys += (1 - keys) * -np.expm1(-new * value * own.rate.each_s) - keys * expired
            over[step] = keys
    return own.live_bytes + over / FULLNESS * own.state_bytes


def resident_bytes(own: Application, live: Values, heap: float, threads: int) -> float:
    """Return the most that is resident: committed heap, what is outside of it, and the threads' stacks."""
    committed = heaps.committed_bytes(np.zeros(1), live.max(keepdims=True), np.array([heap]))[0]
    return float(committed + own.nonheap_bytes + threads * own.parameters.value("application", "thread_bytes"))


def row_costs(own: Application, live: Values, heap: Values, threads: int) -> tuple[Values, Values]:
    """Return by step of the cycle and heap what a row takes of a core, and of a thread, which waits for answers."""

    def figure(section: str, name: str) -> float:
        return float(own.parameters.value(section, name))

    rate = np.array(own.rate.values)[:, np.newaxis]
    batch = np.clip(rate / threads * figure("task", "linger_s"), 1.0, figure("task", "batch_rows"))
    garbage = heaps.collection_s(
        np.array(own.allocated_bytes * own.grown_bytes),
        live[:, np.newaxis],
        heap,
        np.array(figure("application", "gc_s_per_byte")),
    )
    cpu = figure("task", "fetch_cpu_s") + own.row_cpu_s + figure("task", "batch_cpu_s") / batch + garbage
    if own.wait is None:
        return cpu, cpu
    load = np.minimum(MOST_LOAD, rate / own.most_calls_per_s)
    return cpu, cpu + np.array(own.wait.values)[:, np.newaxis] / (1 - load)


def holds(own: Application, live: Values, heap: Values, threads: int, cores: Values) -> NDArray[np.bool_]:
    """Return for which heaps and cores no more rows wait than the bound allows, and none pile up from cycle to cycle.

    Threads that read one partition more than the others are a class of their own; both share the cores max-min.
    """
    cpu_s, thread_s = row_costs(own, live, heap, threads)
    each, more = divmod(own.partitions, threads)
    count = np.array([[float(more)], [float(threads - more)]])
    part = np.array([[more * (each + 1)], [(threads - more) * each]]) / own.partitions
    dt, steps = own.rate.each_s, len(own.rate.values)
    bound = latency_bound_s() * own.mean_rate
    waiting, began = np.zeros((2, len(cores))), np.zeros(len(cores))
    fits = np.ones(len(cores), np.bool_)
    for step in range(-(steps // 3), steps):
        if step == 0:
            began = waiting.sum(axis=0)
        there = waiting + part * (own.rate.values[step] * dt)
        wanted = np.minimum(there, count * (dt / thread_s[step]))
        waiting = there - _shared(wanted * cpu_s[step], count, cores * dt) / cpu_s[step]
        if step >= 0:
            fits &= waiting.sum(axis=0) <= bound
    return np.asarray(fits & (waiting.sum(axis=0) <= began + 0.01 * bound), np.bool_)


def _shared(claims: Values, count: Values, capacity: Values) -> Values:
    """Return core seconds of two classes of equal threads, max-min over threads; a class may be empty."""
    each = claims / np.maximum(count, 1.0)
    low, few = np.minimum(each[0], each[1]), np.where(each[0] <= each[1], count[0], count[1])
    threads = count.sum()
    level = np.where(
        low * threads >= capacity, capacity / threads, (capacity - low * few) / np.maximum(threads - few, 1.0)
    )
    return np.asarray(np.minimum(each, level) * count, np.float64)


def _least_cores(own: Application, live: Values, threads: int) -> Iterator[Allocation]:
    """Yield for each heap with which the bounds can be held the least cores that hold them."""
    heap = HEAPS * live.max()
    cpu_s, _ = row_costs(own, live, heap, threads)
    demand = cpu_s * np.array(own.rate.values)[:, np.newaxis]
    least = demand.mean(axis=0)
    steps = int(np.log(1.2 * (demand.max(axis=0) / least).max()) / np.log1p(CORES_STEP))
    tried = least * (1 + CORES_STEP) ** np.arange(steps)[:, np.newaxis]
    fits = holds(own, live, np.tile(heap, steps), threads, tried.ravel()).reshape(tried.shape)
    for number in np.flatnonzero(fits.any(axis=0)):
        cores = float(tried[np.argmax(fits[:, number]), number])
        memory = max(float(heap[number]), resident_bytes(own, live, float(heap[number]), threads))
        yield Allocation(cores, memory, float(heap[number]), threads)


def _least_threads(own: Application, live: Values) -> int:
    """Return how few threads may do in the mean."""
    _, thread_s = row_costs(own, live, 3 * live.max(keepdims=True), 8)
    return max(1, int(np.ceil((thread_s[:, 0] * np.array(own.rate.values)).mean())))
