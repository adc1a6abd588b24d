"""The quality-of-data controller: what every shedder keeps, and what moves, so that no minimum is missed.

Algorithm 1 of Stream-Economics, section 5; `paper` shares CPU out as it does, `penstock` accuracy. The simulated
cluster runs it every few seconds, `penstock decide` over logs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import Decision, Demand, Move, NoChange, ShedPlan
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding import accuracy
from penstock.shedding.by_group import most, total
from penstock.shedding.progressive_filling import fill
from penstock.shedding.qod_distribute import distribute
from penstock.shedding.qod_figures import Figures, Reading, read
from penstock.shedding.qod_kill import kill_tasks, reserve, sparing_order
from penstock.shedding.qod_moving import Moving, under_way, with_moves
from penstock.shedding.qod_sources import NO_LAGS, LagMaxima, lag_maxima
from penstock.shedding.task_graph import Indexes, TaskGraph
from penstock.shedding.warm_up import WarmUpRule, WarmUps, warming

SharingOut = Callable[[Figures, Floats, Floats, Indexes], tuple[Floats, Floats]]
"""From figures, CPU left by machine, where queries begin and the instances served, to desired(q) and CPU granted."""


@dataclass(frozen=True, slots=True, eq=False)
class QodMemory:
    """What the controller remembers: when it last decided, who warms up or moves, lag maxima, and whether it shed.

    short: the machines on which minimums did not fit.
    """

    decided_s: float | None = None
    warm_ups: WarmUps = field(default_factory=WarmUps)
    lags: LagMaxima = NO_LAGS
    is_shedding: bool = False
    moving: Moving = field(default_factory=Moving)
    short: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QualityOfData(Policy[QodMemory]):
    """A cycle every `period_s`: minimums first, moving instances if they do not fit, then what is left by priority.

    A move that did not come about within `move_timeout_s` is forgotten. Until then its room is kept, and the machine
    that it leaves is left alone, as one that warms up is. confirms: nothing leaves a machine before its minimums have
    not fitted in two cycles running, because the first may have seen a part of a change, and who moves depends on how
    much is lacking; until then its tasks run at their minimums.
    """

    share_out: SharingOut
    reading: Reading
    period_s: float = 5.0
    warm_up: WarmUpRule = WarmUpRule()
    move_timeout_s: float = 60.0
    confirms: bool = False

    def __post_init__(self) -> None:
        if not self.period_s > 0:
            raise ValueError(f"a cycle comes every so many seconds, not {self.period_s}")

    def start(self) -> QodMemory:
        """Return that nothing has been decided."""
        return QodMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: QodMemory) -> tuple[Decision, QodMemory]:
        """Return a `ShedPlan`, or that there is nothing to shed and was nothing before."""
        if memory.decided_s is not None and snapshot.time_s < memory.decided_s + self.period_s:
            return NoChange(f"not due: decided at {memory.decided_s:g} s, every {self.period_s:g} s"), memory
        figures = read(snapshot, self.reading, memory.lags)
        lags = lag_maxima(snapshot)
        if isinstance(figures, NoChange):
            return figures, replace(memory, lags=lags, short=frozenset())
        plain = self._without_backlog(snapshot, figures, memory.lags)
        is_warming, warm_ups = warming(
            self.warm_up,
            memory.warm_ups,
            figures.who,
            figures.age_s,
            figures.cpu_metric,
            figures.min_ac - plain.c_ac,
        )
        names = snapshot.machines.name
        moving = under_way(memory.moving, figures, names, snapshot.time_s, self.move_timeout_s)
        figures = replace(figures, a_cpu=np.maximum(0.0, figures.a_cpu - moving.reserved))
        is_next = memory.decided_s is not None and snapshot.time_s < memory.decided_s + 2 * self.period_s
        confirmed = memory.short if is_next else frozenset()
        stays = np.array([self.confirms and name not in confirmed for name in names], np.bool_)
        cycle = plan_cycle(figures, is_warming | moving.leaving, self.share_out, plain.min_req_cpu, stays)
        plan = _shed_plan(snapshot, plain, is_warming, cycle)
        is_shedding = bool(plan.source_keep or plan.edge_keep)
        moves = with_moves(moving.moving, plain, cycle.moves, names, snapshot.time_s)
        short = frozenset(names[machine] for machine in np.flatnonzero(cycle.short))
        after = QodMemory(snapshot.time_s, warm_ups, lags, is_shedding, moves, short)
        if is_shedding or memory.is_shedding or plan.moves or plan.demands or plan.failed:
            return plan, after
        return NoChange(plan.reason, plan.numbers), after

    def _without_backlog(self, snapshot: ClusterSnapshot, figures: Figures, lags: LagMaxima) -> Figures:
        """Return the figures without backlogs, which are no reason to move, to wait, or for more threads."""
        if self.reading.drain_s is None:
            return figures
        plain = read(snapshot, replace(self.reading, drain_s=None), lags)
        return figures if isinstance(plain, NoChange) else plain


PAPER = QualityOfData(distribute, Reading())
"""The controller of the paper, repaired: equal CPU above the minimums, backlogs left alone."""

PENSTOCK = QualityOfData(fill, Reading(drain_s=10.0, by_instance=True, by_mix=True), confirms=True)
"""Ours: equal accuracy above the minimums, backlogs worked off, each instance held against what it was offered, and
nothing moved for what one cycle saw."""


@dataclass(frozen=True, slots=True, eq=False)
class Cycle:
    """What a cycle came to: desired(q) by query, CPU granted by instance, percent, and what had to leave.

    `granted` is the minimum and what came on top, 0 for those that leave. `a_cpu` by machine is what could be granted.
    `moves`: running instances (places in the figures) and where they find room. `short`, by machine: minimums do not
    fit; `waits`: nor may anything leave in this cycle. `failed`: machines where something found no room elsewhere.
    """

    desired: Floats
    granted: Floats
    a_cpu: Floats
    moves: Mapping[int, int]
    short: Bools
    waits: Bools
    failed: tuple[int, ...]


def plan_cycle(
    figures: Figures,
    is_warming: Bools,
    share_out: SharingOut,
    least: Floats | None = None,
    stays: Bools | None = None,
) -> Cycle:
    """Return Algorithm 1 up to line 19; is_warming: by running instance; stays: machines that nothing leaves now.

    least: minReqCpu without backlogs, which decides who moves (None: there are none). What a backlog asks for on top of
    it is reserved as far as it fits.
    """
    wanted = figures.min_req_cpu
    figures = figures if least is None else replace(figures, min_req_cpu=least)
    machines = len(figures.a_cpu)
    warms = np.zeros(machines, np.bool_)
    warms[figures.machine[is_warming]] = True
    required = total(figures.min_req_cpu, figures.machine, machines)
    left = figures.a_cpu - required
    short = (left < -_ROUNDING) & ~warms
    waits = np.zeros(machines, np.bool_) if stays is None else short & stays
    moves, failed = _rescheduled(figures, left, short & ~waits)

    leaves = np.zeros(len(figures.task), np.bool_)
    leaves[list(moves)] = True
    left = left + total(figures.min_req_cpu[leaves], figures.machine[leaves], machines)
    for instance, machine in moves.items():
        left[machine] -= figures.min_req_cpu[instance]
    backlog = np.where(leaves, 0.0, np.maximum(0.0, wanted - figures.min_req_cpu))
    asked = total(backlog, figures.machine, machines)
    backlog *= np.minimum(1.0, np.maximum(0.0, left) / np.maximum(asked, _ROUNDING))[figures.machine]
    left = left - total(backlog, figures.machine, machines)
    figures = replace(figures, min_req_cpu=figures.min_req_cpu + backlog)
    is_failed = np.zeros(machines, np.bool_)
    is_failed[list(failed)] = True

    desired = np.ones(len(figures.minimum))
    at_minimum = leaves | (warms | waits | is_failed)[figures.machine]
    stay = _queries_of(figures.graph, figures.task[at_minimum])
    desired[stay] = figures.minimum[stay]
    taking = np.flatnonzero(~leaves & ~warms[figures.machine])
    desired, extra = share_out(figures, np.maximum(0.0, left), desired, taking)
    granted = np.where(leaves, 0.0, figures.min_req_cpu + extra)
    return Cycle(desired, granted, figures.a_cpu, moves, short, waits, failed)


def _rescheduled(figures: Figures, left: Floats, short: Bools) -> tuple[dict[int, int], tuple[int, ...]]:
    """Return which instances move where, and the machines on which that failed; `left` is what minimums leave."""
    overloaded = np.flatnonzero(short)
    chosen: list[int] = []
    if len(overloaded):
        here = np.flatnonzero(short[figures.machine])
        here = here[sparing_order(figures.machine[here], figures.p[here], figures.min_req_cpu[here])]
        p, required = figures.p[here].tolist(), figures.min_req_cpu[here].tolist()
        begin = np.searchsorted(figures.machine[here], overloaded).tolist()
        end = np.searchsorted(figures.machine[here], overloaded, side="right").tolist()
        for machine, a, b in zip(overloaded.tolist(), begin, end, strict=True):
            killed, _ = kill_tasks(-float(left[machine]), p[a:b], required[a:b])
            chosen += here[[a + at for at in killed]].tolist()
    found = reserve(left, figures.min_req_cpu[chosen].tolist())
    moves = {instance: machine for instance, machine in zip(chosen, found, strict=True) if machine is not None}
    stuck = [instance for instance, machine in zip(chosen, found, strict=True) if machine is None]
    return moves, tuple(np.unique(figures.machine[stuck]).tolist())


_ROUNDING = 1e-9


def _queries_of(graph: TaskGraph, tasks: Indexes) -> Bools:
    """Return for which queries one of these tasks works."""
    is_one = np.zeros(graph.tasks, np.bool_)
    is_one[tasks] = True
    result = np.zeros(len(graph.query_task), np.bool_)
    result[graph.pair_query[is_one[graph.pair_task]]] = True
    return result


def _shed_plan(snapshot: ClusterSnapshot, figures: Figures, is_warming: Bools, cycle: Cycle) -> ShedPlan:
    graph, row = figures.graph, figures.row
    source_keep, edge_keep = settings(graph, cycle.desired)
    demands = _thread_demands(figures)
    declared = cycle.desired[: graph.declared]
    shed = int((declared < 1.0).sum())
    warm = len(np.unique(figures.machine[is_warming]))
    parts = [f"{shed} of {len(declared)} queries shed"] if shed else ["all queries at full accuracy"]
    if warm:
        parts.append(f"{warm} machines warming up")
    if cycle.moves:
        parts.append(f"{len(cycle.moves)} instances moved so that minimums fit")
    waiting = int(cycle.waits.sum())
    if waiting:
        parts.append(
            f"minimums do not fit on {waiting} machines: what leaves is decided if they do not in the next cycle"
        )
    if cycle.failed:
        parts.append(f"rescheduling failed on {', '.join(snapshot.machines.name[m] for m in cycle.failed[:3])}")
    if demands:
        parts.append(f"thread capped: {len(demands)} tasks")
    return ShedPlan(
        source_keep,
        edge_keep,
        tuple(declared.tolist()),
        ", ".join(parts),
        tuple(Move(int(row[i]), machine, flagged=True) for i, machine in sorted(cycle.moves.items())),
        demands,
        cycle.failed,
        {
            "accuracy_min": float(declared.min()) if len(declared) else 1.0,
            "queries_shed": shed,
            "available_cpu_percent": float(cycle.a_cpu.sum()),
            "granted_cpu_percent": float(cycle.granted.sum()),
            "machines_warming": warm,
            "tasks_unmeasured": figures.unmeasured_tasks,
        },
    )


def settings(graph: TaskGraph, desired: Floats) -> tuple[dict[int, float], dict[int, float]]:
    """Return what shedders keep, by source task and by edge, where that is less than all: equations 14 and 15."""
    by_task = accuracy.desired(desired, graph)
    source = np.flatnonzero((graph.level == 0) & (by_task < 1.0))
    keep = accuracy.d(by_task[graph.consumer], by_task[graph.producer])
    edge = np.flatnonzero(keep < 1.0)
    of_source = accuracy.d(by_task[source], np.ones(len(source)))
    return (
        dict(zip(source.tolist(), of_source.tolist(), strict=True)),
        dict(zip(edge.tolist(), keep[edge].tolist(), strict=True)),
    )


def _thread_demands(figures: Figures) -> tuple[Demand, ...]:
    """Return the tasks whose minimum needs more than one thread has, and the cores that they could use in all."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        whole = np.where(figures.c_ac > 0, figures.cpu / figures.c_ac, 100.0)
    is_capped = (figures.c_ac > 0) & (whole * figures.min_ac > 100.0 + _ROUNDING)
    if not is_capped.any():
        return ()
    cores = total(whole / 100.0, figures.task, figures.graph.tasks)
    wanted = most((whole * figures.min_ac)[is_capped], figures.task[is_capped], figures.graph.tasks)
    return tuple(
        Demand(task, float(cores[task]), f"thread capped: the minimum needs {wanted[task]:.0f}% of a core in one")
        for task in np.flatnonzero(np.isfinite(wanted)).tolist()
    )
