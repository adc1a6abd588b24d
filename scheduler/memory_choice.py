"""Instances and memory of stateful tasks chosen together, upwards and downwards, in one decision (beyond Justin).

The hit rate of every budget is predicted from sampled stack distances, so that memory need not be tried level by
level (docs/design/papers/justin-ds2.md 7). Run by `penstock decide`, beside `justin`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.memory_levels import BASE_BYTES, MIB
from penstock.model.plan import Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.autoscaler_rules import aligned
from penstock.scheduler.ds2 import Ds2, Proposal, need
from penstock.scheduler.justin import justins_ds2
from penstock.scheduler.memory_model import GROWTH_MOST, MemoryModel, Seen, estimated, price
from penstock.scheduler.scaling_round import decided, open_round
from penstock.scheduler.state_access import StateAccess, state_access
from penstock.scheduler.true_rates import or_nan, sum_by
from penstock.scheduler.turns import Turns

BUDGETS = tuple(int(BASE_BYTES * 2 ** (step / 4)) for step in range(-2, 9))
"""From about 112 MiB, the least of which a memtable of 32 MiB is made, to Justin's highest level, 632 MiB."""
SAME_RATE = 0.05
"""Rates that differ by no more than this part are the same."""


@dataclass(frozen=True, slots=True)
class ChoiceMemory:
    """Turns by application, and what was seen by the names of application and task."""

    turns: Turns = field(default_factory=dict)
    seen: Mapping[tuple[str, str], Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Columns by stateful task: the cheapest sizes that carry the target, and their price in cores.

    The price is never above that of any other p and m once they are given the instances that they need.
    """

    parallelism: Floats
    managed_bytes: Floats
    cost: Floats


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """The improved policy.

    ``budgets``: managed memory that an instance may be given, bytes. ``core_bytes``: memory that costs as much as a
    core. ``hit_ms``: a get that hits, None if nobody knows. It acts when ``ds2``'s band is left, when flush stalls take
    more than ``stall_most`` of the time, or when other memory saves ``saving_least`` of a task's price. ``aligns``: the
    platform aligns instances with key groups, as Flink does, so that their price is that of what it makes of them.
    """

    ds2: Ds2 = field(default_factory=justins_ds2)
    budgets: tuple[int, ...] = BUDGETS
    core_bytes: float = 512.0 * MIB
    hit_ms: float | None = None
    stall_most: float = 0.05
    saving_least: float = 0.1
    aligns: bool = False

    def __post_init__(self) -> None:
        if self.ds2.band is None or not self.budgets:
            raise ValueError("it needs a DS2 with a band, and budgets to choose from")
        if not (self.core_bytes > 0 and self.stall_most > 0 and 0 < self.saving_least < 1):
            raise ValueError("prices and thresholds are above 0, a saving below 1")
        if self.hit_ms is not None and self.hit_ms < 0:
            raise ValueError("a hit takes no less than 0 ms")

    def start(self) -> ChoiceMemory:
        """Return that nothing was seen yet."""
        return ChoiceMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: ChoiceMemory) -> tuple[Decision, ChoiceMemory]:
        """Size the applications whose turn it is and which one of the three triggers names."""
        of, proposal, access = snapshot.tasks.application, self.ds2.propose(snapshot), state_access(snapshot)
        seen = self.seen(snapshot, proposal, access, memory)
        model = self.model(snapshot, proposal, access, memory, seen)
        blind = np.zeros(len(of), np.bool_)
        blind[model.task] = np.isnan(model.own_s) & (proposal.rates.rate_in[model.task] > 0)
        opened = open_round(snapshot, self.ds2.pace, memory.turns, proposal.rates, proposal.missing | blind)
        acts = opened.may_act & (self.ds2.left_band(snapshot, proposal) | self._stalls(snapshot, proposal, model))
        rests = opened.may_act & ~acts & ~self._held_back(snapshot, proposal)
        anew = self._anew(snapshot, proposal, access, model, acts[of]) if acts.any() else []
        thrifty = self._thrifty(snapshot, model, rests[of]) if rests.any() else []
        reason = "busy time or flush stalls left their band" if anew else "other memory carries the same for less"
        sizes = [*anew, *thrifty]
        changed = np.zeros(len(of), np.bool_)
        changed[[size.task for size in sizes]] = True
        numbers = need(snapshot, proposal, changed) | _expected(snapshot, model, sizes)
        decision, turns = decided(snapshot, self.ds2.pace, opened, sizes, reason, numbers)
        return decision, ChoiceMemory(turns, _kept(snapshot, model, seen))

    def seen(
        self, snapshot: ClusterSnapshot, proposal: Proposal, access: StateAccess, memory: ChoiceMemory
    ) -> list[Seen]:
        """Return what is known of every task, this window included."""
        instances, held = snapshot.instances, self._held_back(snapshot, proposal)[snapshot.tasks.application]
        state = sum_by(instances.task, or_nan(instances.state_bytes, len(instances)), len(snapshot.tasks))
        before = [memory.seen.get(name, Seen()) for name in _names(snapshot)]
        free_in = np.where(held | np.isnan(proposal.target_in), [one.free_in for one in before], proposal.target_in)
        misses = np.where(access.gets > 0, 1 - access.hit_rate, np.nan)
        columns = (before, misses.tolist(), access.latency_ms.tolist(), state.tolist(), free_in.tolist())
        return [
            replace(one.after(miss, ms), state_bytes=there, time_s=snapshot.time_s, free_in=free)
            for one, miss, ms, there, free in zip(*columns, strict=True)
        ]

    def model(
        self,
        snapshot: ClusterSnapshot,
        proposal: Proposal,
        access: StateAccess,
        memory: ChoiceMemory,
        seen: list[Seen],
    ) -> MemoryModel:
        """Return what rows cost at other sizes, and how many shall be carried: (1 + factor) * T.

        T is the target; of sources that are held back, what had to enter when they last were free. If they bring more
        than that nobody knows T, and it is at least what DS2's proposal would carry, so that no step is shorter than
        DS2's.
        """
        growth = self._growth(snapshot, proposal, memory, seen)
        model = estimated(snapshot, proposal.rates, access, self.hit_ms, seen, growth)
        task, held = model.task, self._held_back(snapshot, proposal)[snapshot.tasks.application[model.task]]
        target, free_in = proposal.target_in[task], np.array([seen[one].free_in for one in task.tolist()])
        is_known = target <= (1 + SAME_RATE) * free_in
        wanted = (1 + self.ds2.factor) * np.where(held & is_known, np.fmax(target, free_in), target)
        asked = proposal.parallelism[task]
        with np.errstate(divide="ignore", invalid="ignore"):
            carried = asked / model.row_cost_s(asked[:, None], model.managed_bytes[:, None])[:, 0]
        leaps = held & ~is_known & (asked > model.parallelism)
        return replace(model, wanted=np.where(leaps, np.fmax(wanted, carried), wanted))

    def _held_back(self, snapshot: ClusterSnapshot, proposal: Proposal) -> Bools:
        """Return the applications of which nobody says what they should read: it is what they do, and they wait.

        So it is with generators, which emit what they are let (Justin, section 3).
        """
        tasks, rates, band = snapshot.tasks, proposal.rates, self.ds2.band
        assert band is not None, "only with a band"
        untold = tasks.is_source & np.isnan(or_nan(tasks.target_rate, len(tasks)))
        same = np.abs(proposal.target_in - rates.rate_in) <= SAME_RATE * rates.rate_in
        held = np.zeros(len(snapshot.applications), np.bool_)
        np.logical_or.at(held, tasks.application, untold & same & (rates.output_wait_share > band.back_pressure))
        return held

    def _growth(self, snapshot: ClusterSnapshot, proposal: Proposal, memory: ChoiceMemory, seen: list[Seen]) -> Floats:
        """Return by how much the state of every task will have grown when its sizes can be looked at again.

        g = 1 + (S - S0) / S * h / dt * T / r, in [1, GROWTH_MOST]
          S, S0  bytes of state now and dt seconds before, at the last snapshot
          h      stabilisation and window (s)
          T, r   rows a second that must enter, and that did
        """
        before = [memory.seen.get(name, Seen()) for name in _names(snapshot)]
        there, then = (np.array([one.state_bytes for one in each]) for each in (seen, before))
        since_s = snapshot.time_s - np.array([one.time_s for one in before])
        ahead_s = self.ds2.pace.warm_up_s + self.ds2.pace.interval_s
        with np.errstate(divide="ignore", invalid="ignore"):
            more = (there - then) / there * ahead_s / since_s * proposal.target_in / proposal.rates.rate_in
        return np.asarray(np.clip(1 + np.where(np.isfinite(more), more, 0.0), 1.0, GROWTH_MOST))

    def choose(self, model: MemoryModel, snapshot: ClusterSnapshot) -> Choice:
        """Return the cheapest sizes: minimise price(p, m) over m and p >= wanted * cost(p, m)."""
        budgets = self._choices(model)
        needed = self._needed(model, snapshot, budgets)
        cost = price(needed, budgets, self.core_bytes)
        # Where no budget carries the target, all instances that there may be, each with what makes its rows cheapest.
        most = np.broadcast_to(_most(model, snapshot)[:, None], budgets.shape)
        with np.errstate(invalid="ignore"):
            short = np.asarray(~np.isfinite(cost).any(axis=1))
            ranked = np.where(short[:, None], model.row_cost_s(most, budgets), cost)
        best = np.where(np.isnan(ranked), np.inf, ranked).argmin(axis=1)[:, None]
        chosen = np.take_along_axis(np.where(short[:, None], most, needed), best, axis=1)[:, 0]
        return Choice(chosen, np.take_along_axis(budgets, best, 1)[:, 0], np.take_along_axis(cost, best, 1)[:, 0])

    def cost(self, model: MemoryModel, snapshot: ClusterSnapshot, parallelism: Floats, managed: Floats) -> Floats:
        """Return the price of sizes, by stateful task, once they carry what is wanted: of max(p, instances needed)."""
        needed = self._needed(model, snapshot, managed[:, None])[:, 0]
        return price(np.maximum(parallelism, needed), managed, self.core_bytes)

    def _needed(self, model: MemoryModel, snapshot: ClusterSnapshot, budgets: Floats) -> Floats:
        most = _most(model, snapshot)
        with np.errstate(invalid="ignore"):
            needed = model.instances_needed(budgets, most)
        return _aligned(needed, most) if self.aligns else needed

    def _anew(
        self, snapshot: ClusterSnapshot, proposal: Proposal, access: StateAccess, model: MemoryModel, acts: Bools
    ) -> list[TaskSize]:
        """Return the new sizes of the tasks that are acted on: the cheapest, without memory where there is no state."""
        tasks, best = snapshot.tasks, self.choose(model, snapshot)
        parallelism, managed = proposal.parallelism.copy(), np.where(tasks.is_stateful, np.nan, 0.0)
        sized = ~np.isnan(model.own_s) & ~tasks.is_source[model.task]
        parallelism[model.task[sized]] = best.parallelism[sized]
        managed[model.task[sized]] = best.managed_bytes[sized]
        other = ~np.isnan(managed) & ~(np.abs(managed - access.managed_bytes) < 1)
        changed = acts & ((parallelism != proposal.rates.parallelism) | other)
        return [_size(task, parallelism[task], managed[task]) for task in np.flatnonzero(changed).tolist()]

    def _thrifty(self, snapshot: ClusterSnapshot, model: MemoryModel, acts: Bools) -> list[TaskSize]:
        """Return what carries the target for clearly less: less memory, or more of it in fewer instances.

        Instances are saved only where memory is what saves them: against those that the present memory needs.
        """
        budgets, there, count = self._choices(model), model.managed_bytes[:, None], model.parallelism[:, None]
        needed = self._needed(model, snapshot, budgets)
        plain = np.minimum(needed[:, -1:], count)
        fewer = (needed < plain) & (budgets > there)
        parallelism = np.where(fewer, needed, count)
        cost = np.where(needed <= count, price(parallelism, budgets, self.core_bytes), np.inf)
        now = price(np.where(fewer, plain, count), there, self.core_bytes)
        cost = np.where(cost <= (1 - self.saving_least) * now, cost, np.inf)
        best, row = cost.argmin(axis=1), np.arange(len(cost))
        saves = acts[model.task] & ~np.isnan(model.own_s) & np.isfinite(cost[row, best])
        return [
            _size(int(model.task[one]), parallelism[one, best[one]], budgets[one, best[one]])
            for one in np.flatnonzero(saves).tolist()
        ]

    def _choices(self, model: MemoryModel) -> Floats:
        """Return the budgets to choose from, tasks x choices; the present one is the last."""
        common = np.broadcast_to(np.sort(np.array(self.budgets, np.float64)), (len(model.task), len(self.budgets)))
        present = np.where(model.managed_bytes > 0, model.managed_bytes, common[:, 0])
        return np.concatenate([common, present[:, None]], axis=1)

    def _stalls(self, snapshot: ClusterSnapshot, proposal: Proposal, model: MemoryModel) -> Bools:
        """Return the applications of which a task stalls on flushes and a larger memtable is to be had."""
        stalling = np.zeros(len(snapshot.applications), np.bool_)
        share = model.stall_s * proposal.rates.rate_in[model.task] / model.parallelism
        more = model.managed_bytes < max(self.budgets)
        np.logical_or.at(stalling, snapshot.tasks.application[model.task], (share > self.stall_most) & more)
        return stalling


def _kept(snapshot: ClusterSnapshot, model: MemoryModel, seen: list[Seen]) -> Mapping[tuple[str, str], Seen]:
    """Return what is remembered of the stateful tasks, by name."""
    names, told = _names(snapshot), {}
    for task, flush_s_bytes in zip(model.task.tolist(), model.flush_s_bytes.tolist(), strict=True):
        worst = seen[task].flush_s_bytes if np.isnan(flush_s_bytes) else flush_s_bytes
        told[names[task]] = replace(seen[task], flush_s_bytes=worst)
    return told


def _expected(snapshot: ClusterSnapshot, model: MemoryModel, sizes: list[TaskSize]) -> dict[str, float]:
    """Return, of every stateful task that is given memory, the hit rate that is expected with its new sizes."""
    row = {task: index for index, task in enumerate(model.task.tolist())}
    given = [size for size in sizes if size.managed_bytes]
    parallelism, managed = np.ones((len(row), 1)), np.ones((len(row), 1))
    for size in given:
        parallelism[row[size.task]], managed[row[size.task]] = size.parallelism, size.managed_bytes
    hits = 1 - model.miss_rate(parallelism, managed)[:, 0]
    names = _names(snapshot)
    return {"/".join(names[size.task]) + " hit_rate_expected": float(hits[row[size.task]]) for size in given}


def _names(snapshot: ClusterSnapshot) -> list[tuple[str, str]]:
    applications, tasks = snapshot.applications.name, snapshot.tasks
    return [(applications[of], name) for of, name in zip(tasks.application.tolist(), tasks.name, strict=True)]


def _most(model: MemoryModel, snapshot: ClusterSnapshot) -> Floats:
    """Return how many instances a stateful task may have: as many as it has key groups."""
    return np.maximum(snapshot.tasks.key_groups[model.task].astype(np.float64), 1.0)


def _aligned(needed: Floats, most: Floats) -> Floats:
    """Return instances that divide the key groups, or give each fewer, as Flink makes them."""
    groups = np.repeat(most, needed.shape[1])
    flat = np.where(np.isfinite(needed), needed, 1.0).ravel()
    return np.where(np.isfinite(needed), aligned(np.maximum(flat, 1.0), groups, groups).reshape(needed.shape), np.inf)


def _size(task: int, parallelism: float, managed: float) -> TaskSize:
    return TaskSize(task, int(parallelism), managed_bytes=None if np.isnan(managed) else int(managed))
