"""Instances and memory of stateful tasks chosen together, upwards and downwards, in one decision (beyond Justin).

papers.md, section 8: the hit rate of every budget is told from sampled stack distances, so that memory need not be
tried level by level. Run by the head and by `penstock decide`, beside `justin`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.memory_levels import BASE_BYTES, MIB
from penstock.model.plan import Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.ds2 import Ds2, Proposal, need
from penstock.scheduler.justin import justins_ds2
from penstock.scheduler.memory_model import MemoryModel, estimated, price
from penstock.scheduler.scaling_round import decided, open_round
from penstock.scheduler.state_access import StateAccess, state_access
from penstock.scheduler.turns import Turns

BUDGETS = tuple(int(BASE_BYTES * 2 ** (step / 4)) for step in range(-2, 9))
"""From about 112 MiB, the least of which a memtable of 32 MiB is made, to Justin's highest level, 632 MiB."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What earlier windows told of a task: the cost of a miss, and stall * memtable."""

    miss_s: float = float("nan")
    flush_s_bytes: float = 0.0


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
    core. ``hit_ms``: a get that hits. It acts when ``ds2``'s band is left, when flush stalls take more than
    ``stall_most`` of the time, or when other memory at the present instances saves ``saving_least`` of a task's price.
    """

    ds2: Ds2 = field(default_factory=justins_ds2)
    budgets: tuple[int, ...] = BUDGETS
    core_bytes: float = 512.0 * MIB
    hit_ms: float = 0.01
    stall_most: float = 0.05
    saving_least: float = 0.1

    def __post_init__(self) -> None:
        if self.ds2.band is None or not self.budgets:
            raise ValueError("it needs a DS2 with a band, and budgets to choose from")
        if not (self.core_bytes > 0 and self.hit_ms >= 0 and self.stall_most > 0 and 0 < self.saving_least < 1):
            raise ValueError("prices and thresholds are above 0, a saving below 1")

    def start(self) -> ChoiceMemory:
        """Return that nothing was seen yet."""
        return ChoiceMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: ChoiceMemory) -> tuple[Decision, ChoiceMemory]:
        """Size the applications whose turn it is and which one of the three triggers names."""
        of, proposal, access = snapshot.tasks.application, self.ds2.propose(snapshot), state_access(snapshot)
        model = self.model(snapshot, proposal, access, memory)
        blind = np.zeros(len(of), np.bool_)
        blind[model.task] = np.isnan(model.own_s) & (proposal.rates.rate_in[model.task] > 0)
        opened = open_round(snapshot, self.ds2.pace, memory.turns, proposal.rates, proposal.missing | blind)
        acts = opened.may_act & (self.ds2.left_band(snapshot, proposal) | self._stalls(snapshot, proposal, model))
        anew = self._anew(snapshot, proposal, access, model, acts[of])
        thrifty = self._thrifty(snapshot, proposal, model, (opened.may_act & ~acts)[of])
        reason = "busy time or flush stalls left their band" if anew else "less memory carries the same"
        sizes = [*anew, *thrifty]
        changed = np.zeros(len(of), np.bool_)
        changed[[size.task for size in sizes]] = True
        numbers = need(snapshot, proposal, changed) | _expected(snapshot, model, sizes)
        decision, turns = decided(snapshot, self.ds2.pace, opened, sizes, reason, numbers)
        return decision, ChoiceMemory(turns, _seen(snapshot, model, memory))

    def model(
        self, snapshot: ClusterSnapshot, proposal: Proposal, access: StateAccess, memory: ChoiceMemory
    ) -> MemoryModel:
        """Return what rows cost at other sizes, with what earlier windows told."""
        seen = [memory.seen.get(name, Seen()) for name in _names(snapshot)]
        miss_s, flush_s_bytes = np.array([one.miss_s for one in seen]), np.array([one.flush_s_bytes for one in seen])
        return estimated(snapshot, proposal.rates, access, self.hit_ms, miss_s, flush_s_bytes)

    def choose(self, model: MemoryModel, proposal: Proposal, snapshot: ClusterSnapshot) -> Choice:
        """Return the cheapest sizes: minimise price(p, m) over m and p >= (1 + factor) * T * cost(p, m)."""
        budgets = self._choices(model)
        needed = self._needed(model, proposal, snapshot, budgets)
        cost = price(needed, budgets, self.core_bytes)
        # Where no budget carries the target, all instances that there may be, each with what makes its rows cheapest.
        most = np.broadcast_to(_most(model, snapshot)[:, None], budgets.shape)
        with np.errstate(invalid="ignore"):
            short = np.asarray(~np.isfinite(cost).any(axis=1))
            ranked = np.where(short[:, None], model.row_cost_s(most, budgets), cost)
        best = np.where(np.isnan(ranked), np.inf, ranked).argmin(axis=1)[:, None]
        chosen = np.take_along_axis(np.where(short[:, None], most, needed), best, axis=1)[:, 0]
        return Choice(chosen, np.take_along_axis(budgets, best, 1)[:, 0], np.take_along_axis(cost, best, 1)[:, 0])

    def cost(
        self, model: MemoryModel, proposal: Proposal, snapshot: ClusterSnapshot, parallelism: Floats, managed: Floats
    ) -> Floats:
        """Return the price of sizes, by stateful task, once they carry the target: of max(p, instances needed)."""
        needed = self._needed(model, proposal, snapshot, managed[:, None])[:, 0]
        return price(np.maximum(parallelism, needed), managed, self.core_bytes)

    def _needed(self, model: MemoryModel, proposal: Proposal, snapshot: ClusterSnapshot, budgets: Floats) -> Floats:
        target = proposal.target_in[model.task]
        with np.errstate(invalid="ignore"):
            return model.instances_needed(target, budgets, self.ds2.factor, _most(model, snapshot))

    def _anew(
        self, snapshot: ClusterSnapshot, proposal: Proposal, access: StateAccess, model: MemoryModel, acts: Bools
    ) -> list[TaskSize]:
        """Return the new sizes of the tasks that are acted on: the cheapest, without memory where there is no state."""
        tasks, best = snapshot.tasks, self.choose(model, proposal, snapshot)
        parallelism, managed = proposal.parallelism.copy(), np.where(tasks.is_stateful, np.nan, 0.0)
        sized = ~np.isnan(model.own_s) & ~tasks.is_source[model.task]
        parallelism[model.task[sized]] = best.parallelism[sized]
        managed[model.task[sized]] = best.managed_bytes[sized]
        other = ~np.isnan(managed) & ~(np.abs(managed - access.managed_bytes) < 1)
        changed = acts & ((parallelism != proposal.rates.parallelism) | other)
        return [_size(task, parallelism[task], managed[task]) for task in np.flatnonzero(changed).tolist()]

    def _thrifty(
        self, snapshot: ClusterSnapshot, proposal: Proposal, model: MemoryModel, acts: Bools
    ) -> list[TaskSize]:
        """Return the budgets with which the present instances carry the target for clearly less."""
        budgets = self._choices(model)
        needed = self._needed(model, proposal, snapshot, budgets)
        now = price(model.parallelism, model.managed_bytes, self.core_bytes)
        cost = price(model.parallelism[:, None], budgets, self.core_bytes)
        cost = np.where(needed <= model.parallelism[:, None], cost, np.inf)
        least = cost.argmin(axis=1)
        row = np.arange(len(least))
        saves = acts[model.task] & ~np.isnan(model.own_s) & (cost[row, least] <= (1 - self.saving_least) * now)
        return [
            _size(int(model.task[one]), model.parallelism[one], budgets[one, least[one]])
            for one in np.flatnonzero(saves).tolist()
        ]

    def _choices(self, model: MemoryModel) -> Floats:
        """Return the budgets to choose from, tasks x choices; the present one is among them."""
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


def _seen(snapshot: ClusterSnapshot, model: MemoryModel, memory: ChoiceMemory) -> Mapping[tuple[str, str], Seen]:
    names = _names(snapshot)
    told = {name: memory.seen[name] for name in names if name in memory.seen}
    figures = zip(model.task.tolist(), model.miss_s.tolist(), model.flush_s_bytes.tolist(), strict=True)
    for task, miss_s, flush_s_bytes in figures:
        if not np.isnan(flush_s_bytes):
            told[names[task]] = Seen(miss_s, flush_s_bytes)
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


def _size(task: int, parallelism: float, managed: float) -> TaskSize:
    return TaskSize(task, int(parallelism), managed_bytes=None if np.isnan(managed) else int(managed))
