"""A model of the cost of a row of a stateful task at another parallelism and with other memory.

Estimated from one window's figures and sampled stack distances, so that the present sizes cost what was measured.
Called by `memory_choice` (docs/design/papers/justin-ds2.md 7).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.model.columns import Bools, Floats, Ints
from penstock.model.memory_levels import split
from penstock.model.reuse_distances import PER_DOUBLING
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.packing import task_bytes
from penstock.scheduler.stack_distances import FIRST, bucket_of, buckets_within
from penstock.scheduler.state_access import StateAccess
from penstock.scheduler.true_rates import TaskRates, or_nan

OWN_SHARE_LEAST = 0.05
"""State explains at most all but this share of a row's cost."""
USEFUL_CANDIDATES: Floats = 2.0 ** (np.arange(-2 * PER_DOUBLING, PER_DOUBLING + 1) / PER_DOUBLING)
"""Candidates for the useful part of a cache: a quarter to twice its size."""
DECAY = 0.8
"""The weight of a window relative to the next one."""
ASSUMED_HIT_WEIGHT = 0.02
"""The weight of the assumed latency of hits, relative to a window's figures."""
HIT_SHARE = 0.5
"""The assumed cost of a hit, as a share of an access, until windows with different miss rates show it."""
MISSES_LEAST = 0.01
"""The smallest share of misses from which their cost can be estimated."""
MISSES_BEYOND, MISSES_TRIED = 2.0, 0.05
"""No size is chosen at which more accesses miss than so many times the most that were seen, or this share of all."""
GROWTH_MOST = 2.0
"""The upper bound of the expected growth factor of state."""


@dataclass(frozen=True, slots=True)
class TaskObservations:
    """Accumulated observations of a task; NaN: none yet.

    ``flush_s_bytes``: the largest stall * memtable. ``weight``, ``misses``, ``latencies``, ``squares``, ``products``:
    sums over windows, of which older ones count less, of 1, x, y, x * x and x * y, where x is the miss rate and y the
    latency of an access (ms). ``state_bytes`` was the size at ``time_s``. ``free_in``: the rate (rows/s) that
    had to enter when no source was last held back. ``most_missed``: the largest miss rate of a window; older ones fade.
    """

    flush_s_bytes: float = 0.0
    weight: float = 0.0
    misses: float = 0.0
    latencies: float = 0.0
    squares: float = 0.0
    products: float = 0.0
    state_bytes: float = float("nan")
    time_s: float = float("nan")
    free_in: float = float("nan")
    most_missed: float = 0.0

    def with_window(self, miss: float, latency_ms: float) -> "TaskObservations":
        """Return the observations with one more window; NaN: not measured, or nothing was read."""
        if np.isnan(miss + latency_ms):
            return self
        return replace(
            self,
            weight=DECAY * self.weight + 1,
            misses=DECAY * self.misses + miss,
            latencies=DECAY * self.latencies + latency_ms,
            squares=DECAY * self.squares + miss * miss,
            products=DECAY * self.products + miss * latency_ms,
            most_missed=max(miss, miss + DECAY * (self.most_missed - miss)),
        )

    def miss_s(self, hit_ms: float | None) -> float:
        """Return the extra cost of a miss over a hit (s): the slope of y = t_hit + t_miss * x; NaN if nothing missed.

        t_miss = (n * Sxy - Sx * Sy) / (n * Sxx - Sx * Sx),  least squares over the windows and the point (0, hit_ms)
          hit_ms   assumed latency of a hit; its point has weight `ASSUMED_HIT_WEIGHT`. It decides where all windows
                   have the same miss rate, and hardly counts where miss rates differ
        """
        if self.misses < MISSES_LEAST * self.weight or self.weight == 0:
            return float("nan")
        assumed_ms = HIT_SHARE * self.latencies / self.weight if hit_ms is None else hit_ms
        weight, latencies = self.weight + ASSUMED_HIT_WEIGHT, self.latencies + ASSUMED_HIT_WEIGHT * assumed_ms
        slope = (weight * self.products - self.misses * latencies) / (weight * self.squares - self.misses**2)
        return slope / 1e3 if slope > 0 else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class MemoryModel:
    """Columns by stateful task, which is the row ``task`` of the snapshot.

    ``parallelism`` and ``managed_bytes``: now. ``own_s``: c0, cost of a row but for misses and stalls. ``gets``: a,
    accesses for a row. ``miss_s``: t_miss; NaN: never observed. ``stall_s``: flush stalls of a row at the present
    memtable;
    ``flush_s_bytes``: the largest stall * memtable observed. ``served``: hit rate by buckets that fit, one column
    each. ``useful``: e, with which the present hit rate is what was measured (indexes and filters take their part of a
    cache, distances are sampled). ``growth``: g >= 1, of the state until its size can next be changed. ``wanted``:
    the rate (rows/s) to be carried. ``most_missed``: the largest miss rate that is risked, at least that of now; that
    of now where no miss was seen.
    """

    task: Ints
    parallelism: Floats
    managed_bytes: Floats
    own_s: Floats
    gets: Floats
    miss_s: Floats
    stall_s: Floats
    flush_s_bytes: Floats
    served: Floats
    useful: Floats
    growth: Floats
    wanted: Floats
    most_missed: Floats

    def miss_rate(self, parallelism: Floats, managed: Floats) -> Floats:
        """Return miss(p, m) = 1 - hit(e * cache(m) * p / (g * p0)), for tables of tasks x choices.

        p0        instances when the distances d were sampled; with p of them each sees p0 / p of the keys, so that an
                  access hits if d * g * p0 / p <= cache(m)
        cache(m)  bytes of the budget m that are not memtable
        hit(c)    part of the accesses whose stack distance is c or less
        e, g      useful part of a cache, and by how much distances grow as the state does
        """
        _, cache = split(managed)
        fitting = buckets_within(cache * parallelism * (self.useful / self.parallelism / self.growth)[:, None])
        return np.clip(1 - np.take_along_axis(self.served, fitting, axis=1), 0.0, 1.0)

    def row_cost_s(self, parallelism: Floats, managed: Floats) -> Floats:
        """Return 1 / capacity of an instance: c0 + a * miss(p, m) * t_miss + s * w0 / w(m).

        c0      useful time of a row but for misses and stalls (s)
        a       accesses to state for a row
        t_miss  extra cost of a miss over a hit (s), up to ``most_missed``; beyond that the cost is infinite, as a store
                whose buckets come and go all the time pays more for each
        s, w0   flush stalls of a row (s) at the present memtable (bytes); w(m) is that of the budget m
        """
        return self._fixed_s(managed) + self._missed_s(self.miss_rate(parallelism, managed))

    def _fixed_s(self, managed: Floats) -> Floats:
        """Return c0 + s * w0 / w(m); at least what was observed with a smaller memtable before."""
        memtable, _ = split(managed)
        memtable_now = split(self.managed_bytes)[0][:, None]
        stalled = self.stall_s[:, None] * memtable_now / memtable
        smaller = np.where(memtable < memtable_now, self.flush_s_bytes[:, None] / memtable, 0.0)
        return self.own_s[:, None] + np.maximum(stalled, smaller)

    def _missed_s(self, misses: Floats) -> Floats:
        """Return a * miss * t_miss; infinite beyond ``most_missed``."""
        missed = np.where(np.isnan(self.miss_s), 0.0, self.gets * self.miss_s)[:, None] * misses
        return np.where(misses > self.most_missed[:, None] + 1e-9, np.inf, missed)

    def instances_needed(self, managed: Floats, most: Floats) -> Floats:
        """Return the least p <= most with p >= wanted * cost(p, m); infinite if there is none.

        More instances mean a larger total cache and cheaper rows, so sufficiency is monotonic and bisection finds the
        least.
        """
        least, fixed_s = (self.wanted * (1 - 1e-9))[:, None], self._fixed_s(managed)

        def suffice(parallelism: Floats) -> Bools:
            cost_s = fixed_s + self._missed_s(self.miss_rate(parallelism, managed))
            return np.asarray((least == 0) | (parallelism >= least * cost_s))

        low = np.zeros_like(managed)
        high = np.broadcast_to(most[:, None], managed.shape).copy()
        carries = suffice(high)
        while (high - low > 1).any():
            middle = np.maximum(np.floor((low + high) / 2), 1.0)
            enough = suffice(middle)
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        return np.where(carries, high, np.inf)


def price(parallelism: Floats, managed: Floats, core_bytes: float) -> Floats:
    """Return the price of instances, in cores: p * (1 + memory of a task / bytes that cost as much as a core)."""
    return parallelism * (1 + task_bytes(0) / core_bytes + managed / core_bytes)


def estimated_model(
    snapshot: ClusterSnapshot,
    rates: TaskRates,
    access: StateAccess,
    hit_ms: float | None,
    observations: Sequence[TaskObservations],
    growth: Floats,
) -> MemoryModel:
    """Return the model of every stateful task; a figure that was not measured makes ``own_s`` NaN.

    ``hit_ms``: latency of a get that hits, None if unknown. By task: ``observations``, this window included, and the
    ``growth`` g. The rate to be carried is the arrival rate.
    """
    # State that has no budget, as it lies by no keys, is in memory whole.
    task = np.flatnonzero(snapshot.tasks.is_stateful & (access.managed_bytes != 0)).astype(np.int32)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost_s = (rates.parallelism / rates.true_rate)[task]
        gets = (access.gets / rates.rate_in)[task]
        stall_s = (access.stall_share * rates.parallelism / rates.rate_in)[task]
    miss_s = np.array([observations[row].miss_s(hit_ms) for row in task.tolist()], np.float64)
    # A task that only writes has no access to be sampled, and none that could miss.
    served = np.where((access.gets == 0)[task][:, None], 1.0, _hit_rates(snapshot, task))
    managed = access.managed_bytes[task]
    figures = (managed, served[:, -1], access.hit_rate[task], access.latency_ms[task], gets, stall_s)
    complete = ~np.isnan(np.sum(figures, axis=0))
    cache = np.where(complete, split(np.nan_to_num(managed))[1], 0.0)
    useful, misses = _fitted_useful_part(served, cache, 1 - access.hit_rate[task])
    explained = (1 - OWN_SHARE_LEAST) * cost_s
    stall_s = np.minimum(stall_s, explained)
    with np.errstate(divide="ignore", invalid="ignore"):
        miss_s = np.minimum(miss_s, np.where(gets * misses > 0, (explained - stall_s) / (gets * misses), np.inf))
    spent = np.where(np.isnan(miss_s) | (gets == 0), 0.0, gets * misses * np.nan_to_num(miss_s, posinf=0.0))
    own_s = np.where(complete, cost_s - spent - stall_s, np.nan)
    flush = np.fmax([observations[row].flush_s_bytes for row in task.tolist()], stall_s * split(managed)[0])
    parallelism, arrival_rate = rates.parallelism[task], rates.rate_in[task]
    most = np.maximum(MISSES_BEYOND * np.array([observations[row].most_missed for row in task.tolist()]), MISSES_TRIED)
    model = MemoryModel(
        task,
        parallelism,
        managed,
        own_s,
        gets,
        miss_s,
        stall_s,
        flush,
        served,
        useful,
        growth[task],
        arrival_rate,
        most,
    )
    now = model.miss_rate(parallelism[:, None], managed[:, None])[:, 0]
    return replace(model, most_missed=np.where(np.isnan(miss_s), now, np.fmax(most, now)))


def _fitted_useful_part(served: Floats, cache: Floats, misses: Floats) -> tuple[Floats, Floats]:
    """Return the useful part of each cache for which sampled distances best predict the misses, and that prediction.

    Ties go to the part closest to the whole cache.
    """
    candidates = USEFUL_CANDIDATES[np.argsort(np.abs(np.log(USEFUL_CANDIDATES)), kind="stable")]
    predicted = 1 - np.take_along_axis(served, buckets_within(cache[:, None] * candidates), axis=1)
    best = np.nan_to_num(np.abs(predicted - misses[:, None]), nan=np.inf).round(9).argmin(axis=1)[:, None]
    return candidates[best[:, 0]], np.take_along_axis(predicted, best, axis=1)[:, 0]


def _hit_rates(snapshot: ClusterSnapshot, task: Ints) -> Floats:
    """Return hit rates by number of buckets that fit, tasks x (buckets + 1); NaN for tasks without samples."""
    reuse = snapshot.reuse
    row = np.full(len(snapshot.tasks), -1, np.int64)
    row[task] = np.arange(len(task))
    mine = row[reuse.task] >= 0
    cell = row[reuse.task][mine] * (FIRST + 1) + bucket_of(or_nan(reuse.distance_bytes, len(reuse))[mine])
    weights = or_nan(reuse.accesses, len(reuse))[mine]
    counts = np.bincount(cell, weights=weights, minlength=len(task) * (FIRST + 1)).reshape(len(task), FIRST + 1)
    total = counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.cumsum(counts[:, :FIRST], axis=1) / total
    return np.concatenate([np.where(total > 0, 0.0, np.nan), hits], axis=1)
