"""Instances and memory of stateful tasks chosen together, upwards and downwards, in one decision (beyond Justin).

The hit rate of every budget is predicted from sampled stack distances, so that memory need not be tried level by
level (docs/design/papers/justin-ds2.md 7). Run by `penstock decide`, beside `justin`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.memory_levels import BASE_BYTES, MIB
from penstock.model.plan import Decision, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.autoscaler_rules import aligned_parallelism
from penstock.scheduler.ds2 import Ds2, ScalingProposal, need
from penstock.scheduler.justin import justin_ds2
from penstock.scheduler.memory_model import GROWTH_MOST, MemoryModel, TaskObservations, estimated_model, price
from penstock.scheduler.pacing import PaceStates
from penstock.scheduler.scaling_round import open_round, round_decision
from penstock.scheduler.state_access import StateAccess, state_access
from penstock.scheduler.true_rates import any_by, or_nan, sum_by

BUDGETS = tuple(int(BASE_BYTES * 2 ** (step / 4)) for step in range(-2, 9))
"""From about 112 MiB, the least of which a memtable of 32 MiB is made, to Justin's highest level, 632 MiB."""
SAME_RATE = 0.05
"""Rates that differ by no more than this part are the same."""


@dataclass(frozen=True, slots=True)
class ChoiceMemory:
    """The policy's memory: pace by application, observations by the names of application and task."""

    pace_states: PaceStates = field(default_factory=dict)
    observations: Mapping[tuple[str, str], TaskObservations] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class SizeChoice:
    """Columns by stateful task: the cheapest sizes that carry the target, and their price in cores.

    No other p and m are cheaper once they have the instances that they need.
    """

    parallelism: Floats
    managed_bytes: Floats
    cost: Floats


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """The improved policy.

        ``budgets``: managed memory that an instance may have, bytes. ``core_bytes``: memory that costs as much as a
    core. ``hit_ms``: latency of a get that hits, None if unknown. It acts when ``ds2``'s band is left, when flush
    stalls
        take more than ``stall_most`` of the time, or when other memory saves ``saving_least`` of a task's price.
        ``aligns``: the platform aligns instances with key groups, as Flink does, so that their price is that of what it
        makes of them.
    """

    needs_bounded_state: ClassVar[bool] = True

    ds2: Ds2 = field(default_factory=justin_ds2)
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
        """Return the empty memory."""
        return ChoiceMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: ChoiceMemory) -> tuple[Decision, ChoiceMemory]:
        """Size the due applications for which one of the three triggers fires."""
        of, proposal, access = snapshot.tasks.application, self.ds2.propose(snapshot), state_access(snapshot)
        observations = self.observations(snapshot, proposal, access, memory)
        model = self.model(snapshot, proposal, access, memory, observations)
        blind = np.zeros(len(of), np.bool_)
        blind[model.task] = np.isnan(model.own_s) & (proposal.rates.rate_in[model.task] > 0)
        scaling_round = open_round(
            snapshot, self.ds2.pace, memory.pace_states, proposal.rates, proposal.missing | blind
        )
        acts = scaling_round.may_act & (
            self.ds2.left_band(snapshot, proposal) | self._flush_stalled(snapshot, proposal, model)
        )
        rests = scaling_round.may_act & ~acts & ~self._held_back(snapshot, proposal)
        resized = self._cheapest_sizes(snapshot, proposal, access, model, acts[of]) if acts.any() else []
        savings = self._saving_sizes(snapshot, model, rests[of]) if rests.any() else []
        reason = "busy time or flush stalls left their band" if resized else "other memory carries the same for less"
        sizes = [*resized, *savings]
        changed = np.zeros(len(of), np.bool_)
        changed[[size.task for size in sizes]] = True
        numbers = need(snapshot, proposal, changed) | _expected_hit_rates(snapshot, model, sizes)
        cores = self.ds2.cores(snapshot, proposal, scaling_round.may_act, sizes)
        decision, pace_states = round_decision(snapshot, self.ds2.pace, scaling_round, sizes, reason, numbers, cores)
        return decision, ChoiceMemory(pace_states, _observations_by_name(snapshot, model, observations))

    def observations(
        self, snapshot: ClusterSnapshot, proposal: ScalingProposal, access: StateAccess, memory: ChoiceMemory
    ) -> list[TaskObservations]:
        """Return the observations of every task, this window included."""
        instances, held_back = snapshot.instances, self._held_back(snapshot, proposal)[snapshot.tasks.application]
        state = sum_by(instances.task, or_nan(instances.state_bytes, len(instances)), len(snapshot.tasks))
        before = [memory.observations.get(name, TaskObservations()) for name in snapshot.task_names()]
        free_in = np.where(
            held_back | np.isnan(proposal.target_in), [previous.free_in for previous in before], proposal.target_in
        )
        misses = np.where(access.gets > 0, 1 - access.hit_rate, np.nan)
        columns = (before, misses.tolist(), access.latency_ms.tolist(), state.tolist(), free_in.tolist())
        return [
            replace(
                previous.with_window(miss, latency_ms),
                state_bytes=state_bytes,
                time_s=snapshot.time_s,
                free_in=free_rate,
            )
            for previous, miss, latency_ms, state_bytes, free_rate in zip(*columns, strict=True)
        ]

    def model(
        self,
        snapshot: ClusterSnapshot,
        proposal: ScalingProposal,
        access: StateAccess,
        memory: ChoiceMemory,
        observations: list[TaskObservations],
    ) -> MemoryModel:
        """Return the cost of rows at other sizes, and the rate to be carried: (1 + factor) * T.

        T is the target; for sources that are held back, the rate that had to enter when they were last unhindered. If
        they now bring more, T is unknown, and is at least what DS2's proposal would carry, so that no step is shorter
        than DS2's.
        """
        growth = self._growth(snapshot, proposal, memory, observations)
        model = estimated_model(snapshot, proposal.rates, access, self.hit_ms, observations, growth)
        task, held_back = model.task, self._held_back(snapshot, proposal)[snapshot.tasks.application[model.task]]
        target, free_in = proposal.target_in[task], np.array([observations[row].free_in for row in task.tolist()])
        is_known = target <= (1 + SAME_RATE) * free_in
        wanted = (1 + self.ds2.factor) * np.where(held_back & is_known, np.fmax(target, free_in), target)
        proposed = proposal.parallelism[task]
        with np.errstate(divide="ignore", invalid="ignore"):
            carried = proposed / model.row_cost_s(proposed[:, None], model.managed_bytes[:, None])[:, 0]
        undershoots = held_back & ~is_known & (proposed > model.parallelism)
        return replace(model, wanted=np.where(undershoots, np.fmax(wanted, carried), wanted))

    def _held_back(self, snapshot: ClusterSnapshot, proposal: ScalingProposal) -> Bools:
        """Return the applications whose sources have no target rate, read all that is offered, and are back-pressured.

        Generators behave so: they emit as much as they are allowed to (Justin, section 3).
        """
        tasks, rates, band = snapshot.tasks, proposal.rates, self.ds2.band
        assert band is not None, "only with a band"
        untargeted = tasks.is_source & np.isnan(or_nan(tasks.target_rate, len(tasks)))
        same = np.abs(proposal.target_in - rates.rate_in) <= SAME_RATE * rates.rate_in
        waits = untargeted & same & (rates.output_wait_share > band.back_pressure)
        return any_by(tasks.application, waits, len(snapshot.applications))

    def _growth(
        self,
        snapshot: ClusterSnapshot,
        proposal: ScalingProposal,
        memory: ChoiceMemory,
        observations: list[TaskObservations],
    ) -> Floats:
        """Return the growth factor of every task's state until its size can next be changed.

        g = 1 + (S - S0) / S * h / dt * T / r, in [1, GROWTH_MOST]
          S, S0  bytes of state now and dt seconds before, at the last snapshot
          h      stabilisation and window (s)
          T, r   rows a second that must enter, and that did
        """
        before = [memory.observations.get(name, TaskObservations()) for name in snapshot.task_names()]
        state_bytes, state_bytes_before = (
            np.array([one.state_bytes for one in each]) for each in (observations, before)
        )
        since_s = snapshot.time_s - np.array([one.time_s for one in before])
        ahead_s = self.ds2.pace.warm_up_s + self.ds2.pace.interval_s
        with np.errstate(divide="ignore", invalid="ignore"):
            relative_growth = (
                (state_bytes - state_bytes_before)
                / state_bytes
                * ahead_s
                / since_s
                * proposal.target_in
                / proposal.rates.rate_in
            )
        return np.asarray(np.clip(1 + np.where(np.isfinite(relative_growth), relative_growth, 0.0), 1.0, GROWTH_MOST))

    def choose(self, model: MemoryModel, snapshot: ClusterSnapshot) -> SizeChoice:
        """Return the cheapest sizes: minimise price(p, m) over m and p >= wanted * cost(p, m)."""
        budgets = self._choices(model)
        needed = self._needed(model, snapshot, budgets)
        cost = price(needed, budgets, self.core_bytes)
        # Where no budget carries the target, all instances that there may be, each with what makes its rows cheapest.
        most = np.broadcast_to(_parallelism_limit(model, snapshot)[:, None], budgets.shape)
        with np.errstate(invalid="ignore"):
            short = np.asarray(~np.isfinite(cost).any(axis=1))
            ranked = np.where(short[:, None], model.row_cost_s(most, budgets), cost)
        best = np.where(np.isnan(ranked), np.inf, ranked).argmin(axis=1)[:, None]
        chosen = np.take_along_axis(np.where(short[:, None], most, needed), best, axis=1)[:, 0]
        return SizeChoice(chosen, np.take_along_axis(budgets, best, 1)[:, 0], np.take_along_axis(cost, best, 1)[:, 0])

    def cost(self, model: MemoryModel, snapshot: ClusterSnapshot, parallelism: Floats, managed: Floats) -> Floats:
        """Return the price by stateful task of sizes that carry the required rate: of max(p, instances needed)."""
        needed = self._needed(model, snapshot, managed[:, None])[:, 0]
        return price(np.maximum(parallelism, needed), managed, self.core_bytes)

    def _needed(self, model: MemoryModel, snapshot: ClusterSnapshot, budgets: Floats) -> Floats:
        most = _parallelism_limit(model, snapshot)
        with np.errstate(invalid="ignore"):
            needed = model.instances_needed(budgets, most)
        return _aligned_with_key_groups(needed, most) if self.aligns else needed

    def _cheapest_sizes(
        self, snapshot: ClusterSnapshot, proposal: ScalingProposal, access: StateAccess, model: MemoryModel, acts: Bools
    ) -> list[TaskSize]:
        """Return the cheapest sizes of the tasks that change, without managed memory where there is no state."""
        tasks, best = snapshot.tasks, self.choose(model, snapshot)
        parallelism, managed = proposal.parallelism.copy(), np.where(tasks.is_stateful, np.nan, 0.0)
        sized = ~np.isnan(model.own_s) & ~tasks.is_source[model.task]
        parallelism[model.task[sized]] = best.parallelism[sized]
        managed[model.task[sized]] = best.managed_bytes[sized]
        is_other_memory = ~np.isnan(managed) & ~(np.abs(managed - access.managed_bytes) < 1)
        changed = acts & ((parallelism != proposal.rates.parallelism) | is_other_memory)
        return [_size(task, parallelism[task], managed[task]) for task in np.flatnonzero(changed).tolist()]

    def _saving_sizes(self, snapshot: ClusterSnapshot, model: MemoryModel, acts: Bools) -> list[TaskSize]:
        """Return sizes that carry the target at a clearly lower price: less memory, or more memory in fewer instances.

        Instances count as saved only against those that the present memory needs.
        """
        budgets, managed, count = self._choices(model), model.managed_bytes[:, None], model.parallelism[:, None]
        needed = self._needed(model, snapshot, budgets)
        plain = np.minimum(needed[:, -1:], count)
        fewer = (needed < plain) & (budgets > managed)
        parallelism = np.where(fewer, needed, count)
        cost = np.where(needed <= count, price(parallelism, budgets, self.core_bytes), np.inf)
        now = price(np.where(fewer, plain, count), managed, self.core_bytes)
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

    def _flush_stalled(self, snapshot: ClusterSnapshot, proposal: ScalingProposal, model: MemoryModel) -> Bools:
        """Return the applications in which a task stalls on flushes and could have a larger memtable."""
        share = model.stall_s * proposal.rates.rate_in[model.task] / model.parallelism
        more = model.managed_bytes < max(self.budgets)
        stalls = (share > self.stall_most) & more
        return any_by(snapshot.tasks.application[model.task], stalls, len(snapshot.applications))


def _observations_by_name(
    snapshot: ClusterSnapshot, model: MemoryModel, observations: list[TaskObservations]
) -> Mapping[tuple[str, str], TaskObservations]:
    """Return the observations of the stateful tasks, by name."""
    names, by_name = snapshot.task_names(), {}
    for task, flush_s_bytes in zip(model.task.tolist(), model.flush_s_bytes.tolist(), strict=True):
        worst = observations[task].flush_s_bytes if np.isnan(flush_s_bytes) else flush_s_bytes
        by_name[names[task]] = replace(observations[task], flush_s_bytes=worst)
    return by_name


def _expected_hit_rates(snapshot: ClusterSnapshot, model: MemoryModel, sizes: list[TaskSize]) -> dict[str, float]:
    """Return the expected hit rate of every stateful task that gets memory, with its new size."""
    row = {task: index for index, task in enumerate(model.task.tolist())}
    sized = [size for size in sizes if size.managed_bytes]
    parallelism, managed = np.ones((len(row), 1)), np.ones((len(row), 1))
    for size in sized:
        parallelism[row[size.task]], managed[row[size.task]] = size.parallelism, size.managed_bytes
    hits = 1 - model.miss_rate(parallelism, managed)[:, 0]
    names = snapshot.task_names()
    return {"/".join(names[size.task]) + " hit_rate_expected": float(hits[row[size.task]]) for size in sized}


def _parallelism_limit(model: MemoryModel, snapshot: ClusterSnapshot) -> Floats:
    """Return the largest parallelism of every stateful task: its number of key groups."""
    return np.maximum(snapshot.tasks.key_groups[model.task].astype(np.float64), 1.0)


def _aligned_with_key_groups(needed: Floats, most: Floats) -> Floats:
    """Return the parallelism aligned with the key groups, as Flink aligns it."""
    groups = np.repeat(most, needed.shape[1])
    flat = np.where(np.isfinite(needed), needed, 1.0).ravel()
    return np.where(
        np.isfinite(needed), aligned_parallelism(np.maximum(flat, 1.0), groups, groups).reshape(needed.shape), np.inf
    )


def _size(task: int, parallelism: float, managed: float) -> TaskSize:
    return TaskSize(task, int(parallelism), managed_bytes=None if np.isnan(managed) else int(managed))
