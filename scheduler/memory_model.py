"""What a row of a stateful task costs with other instances and other memory.

Estimated from one window's figures and sampled stack distances, so that the present sizes cost what was measured.
Called by `memory_choice` (docs/design/papers/justin-ds2.md 7).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.model.columns import Bools, Floats, Ints
from penstock.model.memory_levels import split
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.packing import task_bytes
from penstock.scheduler.stack_distances import FIRST, PER_DOUBLING, bucket_of, buckets_within
from penstock.scheduler.state_access import StateAccess
from penstock.scheduler.true_rates import TaskRates, or_nan

OWN_SHARE_LEAST = 0.05
"""State never explains more of a row's cost than all but this part."""
USEFUL: Floats = 2.0 ** (np.arange(-2 * PER_DOUBLING, PER_DOUBLING + 1) / PER_DOUBLING)
"""Useful parts of a cache that are tried: a quarter to twice."""
FORGETS = 0.8
"""What a window counts when one more has come."""
DOUBT = 0.02
"""What a latency of hits that is assumed counts beside a window's figures."""
HIT_SHARE = 0.5
"""Where nobody says what a hit costs: this part of an access, until windows with other miss rates tell."""
MISSES_LEAST = 0.01
"""Misses of which a cost can be told, as a part of accesses."""
GROWTH_MOST = 2.0
"""State is never expected to grow to more than this multiple."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What windows told of a task; NaN: nothing yet.

    ``flush_s_bytes``: the most of stall * memtable. ``weight``, ``misses``, ``latencies``, ``squares``, ``products``:
    sums over windows, of which older ones count less, of 1, x, y, x * x and x * y, where x is the miss rate and y the
    latency of an access (ms). ``state_bytes`` were there at ``time_s``. ``free_in``: rows a second that had to enter
    when last no source was held back.
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

    def after(self, miss: float, latency_ms: float) -> "Seen":
        """Return what is known after one more window; NaN: not measured, or nothing was read."""
        if np.isnan(miss + latency_ms):
            return self
        return replace(
            self,
            weight=FORGETS * self.weight + 1,
            misses=FORGETS * self.misses + miss,
            latencies=FORGETS * self.latencies + latency_ms,
            squares=FORGETS * self.squares + miss * miss,
            products=FORGETS * self.products + miss * latency_ms,
        )

    def miss_s(self, hit_ms: float | None) -> float:
        """Return what a miss costs more than a hit (s): the slope of y = t_hit + t_miss * x; NaN if nothing missed.

        t_miss = (n * Sxy - Sx * Sy) / (n * Sxx - Sx * Sx),  least squares over the windows and the point (0, hit_ms)
          hit_ms   what a hit is thought to cost; its point has weight `DOUBT`. In windows that all missed alike it
                   tells; where miss rates differ they tell for themselves
        """
        if self.misses < MISSES_LEAST * self.weight or self.weight == 0:
            return float("nan")
        assumed_ms = HIT_SHARE * self.latencies / self.weight if hit_ms is None else hit_ms
        weight, latencies = self.weight + DOUBT, self.latencies + DOUBT * assumed_ms
        slope = (weight * self.products - self.misses * latencies) / (weight * self.squares - self.misses**2)
        return slope / 1e3 if slope > 0 else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class MemoryModel:
    """Columns by stateful task, which is the row ``task`` of the snapshot.

    ``parallelism`` and ``managed_bytes``: now. ``own_s``: c0, cost of a row but for misses and stalls. ``gets``: a,
    accesses for a row. ``miss_s``: t_miss; NaN: never seen. ``stall_s``: flush stalls of a row at the present memtable;
    ``flush_s_bytes``: the most of stall * memtable that was seen. ``served``: hit rate by buckets that fit, one column
    each. ``useful``: e, with which the present hit rate is what was measured (indexes and filters take their part of a
    cache, distances are sampled). ``growth``: g >= 1, of the state until sizes can be looked at again. ``wanted``: rows
    a second that shall be carried.
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
        t_miss  what a miss costs more than a hit (s); where none was seen, more misses than now are never chosen
        s, w0   flush stalls of a row (s) at the present memtable (bytes); w(m) is that of the budget m
        """
        return self._fixed_s(managed) + self._missed_s(self.miss_rate(parallelism, managed))

    def _fixed_s(self, managed: Floats) -> Floats:
        """Return c0 + s * w0 / w(m); of a smaller memtable also what was seen with one before."""
        memtable, _ = split(managed)
        memtable_now = split(self.managed_bytes)[0][:, None]
        stalled = self.stall_s[:, None] * memtable_now / memtable
        smaller = np.where(memtable < memtable_now, self.flush_s_bytes[:, None] / memtable, 0.0)
        return self.own_s[:, None] + np.maximum(stalled, smaller)

    def _missed_s(self, misses: Floats) -> Floats:
        """Return a * miss * t_miss."""
        missed = (self.gets * self.miss_s)[:, None] * misses
        unseen = np.isnan(self.miss_s)
        if unseen.any():
            now = self.miss_rate(self.parallelism[:, None], self.managed_bytes[:, None])
            missed = np.where(unseen[:, None], np.where(misses > now + 1e-9, np.inf, 0.0), missed)
        return missed

    def instances_needed(self, managed: Floats, most: Floats) -> Floats:
        """Return the least p <= most with p >= wanted * cost(p, m); infinite if there is none.

        The more instances, the larger the cache in all and the cheaper a row: what suffices goes on to suffice, so that
        halving finds the least.
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
    """Return what instances cost, in cores: p * (1 + memory of a task / bytes that cost as much as a core)."""
    return parallelism * (1 + task_bytes(0) / core_bytes + managed / core_bytes)


def estimated(
    snapshot: ClusterSnapshot,
    rates: TaskRates,
    access: StateAccess,
    hit_ms: float | None,
    seen: Sequence[Seen],
    growth: Floats,
) -> MemoryModel:
    """Return the model of every stateful task; a figure that was not measured makes ``own_s`` NaN.

    ``hit_ms``: a get that hits, None if nobody knows. The last two by task: what was seen, this window included, and g.
    What shall be carried is what came.
    """
    task = np.flatnonzero(snapshot.tasks.is_stateful).astype(np.int32)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost_s = (rates.parallelism / rates.true_rate)[task]
        gets = (access.gets / rates.rate_in)[task]
        stall_s = (access.stall_share * rates.parallelism / rates.rate_in)[task]
    miss_s = np.array([seen[one].miss_s(hit_ms) for one in task.tolist()], np.float64)
    # A task that only writes has no access to be sampled, and none that could miss.
    served = np.where((access.gets == 0)[task][:, None], 1.0, _served(snapshot, task))
    managed = access.managed_bytes[task]
    figures = (managed, served[:, -1], access.hit_rate[task], access.latency_ms[task], gets, stall_s)
    known = ~np.isnan(np.sum(figures, axis=0))
    cache = np.where(known, split(np.nan_to_num(managed))[1], 0.0)
    useful, misses = _anchored(served, cache, 1 - access.hit_rate[task])
    explained = (1 - OWN_SHARE_LEAST) * cost_s
    stall_s = np.minimum(stall_s, explained)
    with np.errstate(divide="ignore", invalid="ignore"):
        miss_s = np.minimum(miss_s, np.where(gets * misses > 0, (explained - stall_s) / (gets * misses), np.inf))
    spent = np.where(np.isnan(miss_s) | (gets == 0), 0.0, gets * misses * np.nan_to_num(miss_s, posinf=0.0))
    own_s = np.where(known, cost_s - spent - stall_s, np.nan)
    flush = np.fmax([seen[one].flush_s_bytes for one in task.tolist()], stall_s * split(managed)[0])
    parallelism, came = rates.parallelism[task], rates.rate_in[task]
    return MemoryModel(
        task, parallelism, managed, own_s, gets, miss_s, stall_s, flush, served, useful, growth[task], came
    )


def _anchored(served: Floats, cache: Floats, misses: Floats) -> tuple[Floats, Floats]:
    """Return the useful part of each cache with which sampled distances tell best what missed, and what they then tell.

    Of equally good ones that closest to the whole cache.
    """
    tries = USEFUL[np.argsort(np.abs(np.log(USEFUL)), kind="stable")]
    told = 1 - np.take_along_axis(served, buckets_within(cache[:, None] * tries), axis=1)
    best = np.nan_to_num(np.abs(told - misses[:, None]), nan=np.inf).round(9).argmin(axis=1)[:, None]
    return tries[best[:, 0]], np.take_along_axis(told, best, axis=1)[:, 0]


def _served(snapshot: ClusterSnapshot, task: Ints) -> Floats:
    """Return hit rates by buckets that fit, tasks x (buckets + 1); NaN for a task of which no access was sampled."""
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
