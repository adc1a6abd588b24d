"""The quality-of-data controller: keep rates of all shedders, and moves, so that no minimum is missed.

Algorithm 1 of Stream-Economics, section 5; `PAPER` shares out CPU as the paper does, `PENSTOCK` accuracy. The simulated
cluster runs it every few seconds, `penstock decide` over logs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import Cause, Decision, Demand, Move, NoChange, ShedPlan
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.task_levels import Indexes
from penstock.shedding import accuracy
from penstock.shedding.group_sums import most, total
from penstock.shedding.pending_moves import PendingMoves, moves_in_progress, with_moves, without_refused
from penstock.shedding.progressive_filling import fill
from penstock.shedding.qod_distribute import distribute
from penstock.shedding.qod_figures import FigureOptions, Figures, read_figures
from penstock.shedding.qod_kill import kill_tasks, reserve, sparing_order
from penstock.shedding.qod_sources import NO_LAGS, LagMaxima, lag_maxima
from penstock.shedding.task_graph import TaskGraph
from penstock.shedding.warm_up import WarmUpRule, WarmUps, warming

SharingOut = Callable[[Figures, Floats, Floats, Indexes], tuple[Floats, Floats]]
"""From figures, CPU left by machine, where queries begin and the instances served, to desired(q) and CPU granted."""


@dataclass(frozen=True, slots=True, eq=False)
class QodMemory:
    """The controller's memory: last decision, warm-ups, pending moves, lag maxima, and whether it was shedding.

    short: names of the machines on which minimums did not fit.
    """

    decided_s: float | None = None
    warm_ups: WarmUps = field(default_factory=WarmUps)
    lags: LagMaxima = NO_LAGS
    is_shedding: bool = False
    pending_moves: PendingMoves = field(default_factory=PendingMoves)
    short: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QualityOfData(Policy[QodMemory]):
    """A cycle every `period_s`: minimums first, with moves where they do not fit, then the rest by priority.

    A move that does not complete within `move_timeout_s` is forgotten. Until then its room stays reserved, and the
    machine that it leaves is left alone, like one that warms up. confirms: nothing leaves a machine until its minimums
    have not fitted in two consecutive cycles, because the first may have caught only part of a change, and the choice
    of moves depends on the shortage; until then its tasks run at their minimums. moves: somebody acts on moves; else
    nothing leaves and no room is reserved, tasks of machines whose minimums do not fit run at these, and the plan says
    what would have moved.
    """

    share_out: SharingOut
    reading: FigureOptions
    period_s: float = 5.0
    warm_up: WarmUpRule = WarmUpRule()
    move_timeout_s: float = 60.0
    confirms: bool = False
    moves: bool = True

    def __post_init__(self) -> None:
        if not self.period_s > 0:
            raise ValueError(f"a cycle comes every so many seconds, not {self.period_s}")

    def start(self) -> QodMemory:
        """Return the empty memory."""
        return QodMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: QodMemory) -> tuple[Decision, QodMemory]:
        """Return a `ShedPlan`, or `NoChange` if nothing is or was shed."""
        if memory.decided_s is not None and snapshot.time_s < memory.decided_s + self.period_s:
            return NoChange(
                f"not due: decided at {memory.decided_s:g} s, every {self.period_s:g} s", cause=Cause.NOT_DUE
            ), memory
        figures = read_figures(snapshot, self.reading, memory.lags)
        lags = lag_maxima(snapshot)
        if isinstance(figures, NoChange):
            return figures, replace(memory, lags=lags, short=frozenset())
        without_backlog = self._without_backlog(snapshot, figures, memory.lags)
        is_warming, warm_ups = warming(
            self.warm_up,
            memory.warm_ups,
            figures.who,
            figures.age_s,
            figures.cpu_metric,
            figures.min_ac - without_backlog.c_ac,
        )
        names = snapshot.machines.name
        pending = without_refused(memory.pending_moves, snapshot.refusals)
        in_progress = moves_in_progress(pending, figures, names, snapshot.time_s, self.move_timeout_s)
        figures = replace(figures, a_cpu=np.maximum(0.0, figures.a_cpu - in_progress.reserved))
        is_next = memory.decided_s is not None and snapshot.time_s < memory.decided_s + 2 * self.period_s
        confirmed = memory.short if is_next else frozenset()
        stays = np.array([not self.moves or (self.confirms and name not in confirmed) for name in names], np.bool_)
        at_minimum, least = is_warming | in_progress.leaving, without_backlog.min_req_cpu
        cycle = plan_cycle(figures, at_minimum, self.share_out, least, stays)
        unable: int | None = None
        if not self.moves and cycle.waits.any():
            unable = moves_that_help(figures, at_minimum, least)
        plan = _shed_plan(snapshot, without_backlog, is_warming, cycle, unable)
        is_shedding = bool(plan.source_keep or plan.edge_keep)
        moves = with_moves(in_progress.pending, without_backlog, cycle.moves, names, snapshot.time_s)
        short = frozenset(names[machine] for machine in np.flatnonzero(cycle.short))
        after = QodMemory(snapshot.time_s, warm_ups, lags, is_shedding, moves, short)
        if is_shedding or memory.is_shedding or plan.moves or plan.demands or plan.failed:
            return plan, after
        return NoChange(plan.reason, plan.numbers), after

    def _without_backlog(self, snapshot: ClusterSnapshot, figures: Figures, lags: LagMaxima) -> Figures:
        """Return the figures without backlogs, which do not justify moves, waits or more threads."""
        if self.reading.drain_s is None:
            return figures
        without_backlog = read_figures(snapshot, replace(self.reading, drain_s=None), lags)
        return figures if isinstance(without_backlog, NoChange) else without_backlog


PAPER = QualityOfData(distribute, FigureOptions())
"""The controller of the paper, repaired: equal CPU above the minimums, backlogs left alone."""

PENSTOCK = QualityOfData(fill, FigureOptions(drain_s=10.0, by_instance=True, by_mix=True), confirms=True)
"""Our controller: equal accuracy above the minimums, backlogs drained, each instance measured against its own input, no
 move on the evidence of one cycle."""


@dataclass(frozen=True, slots=True, eq=False)
class CycleOutcome:
    """The outcome of a cycle: desired(q) by query, CPU granted by instance, percent, and the moves.

    `granted` is the minimum plus the extra, 0 for instances that leave. `a_cpu` is the CPU available by machine.
    `moves`: running instances (places in the figures) and their new machines. `short`, by machine: minimums do not
    fit; `waits`: nothing may leave in this cycle either. `failed`: machines with an instance that fits nowhere else.
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
) -> CycleOutcome:
    """Return the outcome of Algorithm 1 up to line 19; is_warming: by instance; stays: machines that nothing leaves.

    least: minReqCpu without backlogs, which decides who moves (None: there are none). The extra need of a backlog
    is reserved as far as it fits.
    """
    required_with_backlog = figures.min_req_cpu
    figures = figures if least is None else replace(figures, min_req_cpu=least)
    machines = len(figures.a_cpu)
    is_warming_machine, spare, short = _after_minimums(figures, is_warming)
    waits = np.zeros(machines, np.bool_) if stays is None else short & stays
    moves, failed = _rescheduled(figures, spare, short & ~waits)

    leaves = np.zeros(len(figures.task), np.bool_)
    leaves[list(moves)] = True
    spare = spare + total(figures.min_req_cpu[leaves], figures.machine[leaves], machines)
    for instance, machine in moves.items():
        spare[machine] -= figures.min_req_cpu[instance]
    backlog = np.where(leaves, 0.0, np.maximum(0.0, required_with_backlog - figures.min_req_cpu))
    requested = total(backlog, figures.machine, machines)
    backlog *= np.minimum(1.0, np.maximum(0.0, spare) / np.maximum(requested, _ROUNDING))[figures.machine]
    spare = spare - total(backlog, figures.machine, machines)
    figures = replace(figures, min_req_cpu=figures.min_req_cpu + backlog)
    is_failed = np.zeros(machines, np.bool_)
    is_failed[list(failed)] = True

    desired = np.ones(len(figures.minimum))
    at_minimum = leaves | (is_warming_machine | waits | is_failed)[figures.machine]
    at_minimum_queries = _queries_of(figures.graph, figures.task[at_minimum])
    desired[at_minimum_queries] = figures.minimum[at_minimum_queries]
    taking = np.flatnonzero(~leaves & ~is_warming_machine[figures.machine])
    desired, extra = share_out(figures, np.maximum(0.0, spare), desired, taking)
    granted = np.where(leaves, 0.0, figures.min_req_cpu + extra)
    return CycleOutcome(desired, granted, figures.a_cpu, moves, short, waits, failed)


def moves_that_help(figures: Figures, is_warming: Bools, least: Floats) -> int:
    """Return how many instances `plan_cycle` would move if nothing had to stay where it is."""
    figures = replace(figures, min_req_cpu=least)
    _, spare, short = _after_minimums(figures, is_warming)
    moves, _ = _rescheduled(figures, spare, short)
    return len(moves)


def _after_minimums(figures: Figures, is_warming: Bools) -> tuple[Bools, Floats, Bools]:
    """Return by machine whether it warms up, the CPU after the minimums, and whether these do not fit."""
    machines = len(figures.a_cpu)
    is_warming_machine = np.zeros(machines, np.bool_)
    is_warming_machine[figures.machine[is_warming]] = True
    spare = figures.a_cpu - total(figures.min_req_cpu, figures.machine, machines)
    return is_warming_machine, spare, (spare < -_ROUNDING) & ~is_warming_machine


def _rescheduled(figures: Figures, spare: Floats, short: Bools) -> tuple[dict[int, int], tuple[int, ...]]:
    """Return the moves, and the machines on which one failed; `spare`: CPU by machine after the minimums."""
    overloaded = np.flatnonzero(short)
    movers: list[int] = []
    if len(overloaded):
        candidates = np.flatnonzero(short[figures.machine])
        candidates = candidates[
            sparing_order(figures.machine[candidates], figures.p[candidates], figures.min_req_cpu[candidates])
        ]
        p, required = figures.p[candidates].tolist(), figures.min_req_cpu[candidates].tolist()
        instances = candidates.tolist()
        begin = np.searchsorted(figures.machine[candidates], overloaded).tolist()
        end = np.searchsorted(figures.machine[candidates], overloaded, side="right").tolist()
        for machine, a, b in zip(overloaded.tolist(), begin, end, strict=True):
            evicted, _ = kill_tasks(-float(spare[machine]), p[a:b], required[a:b])
            movers += [instances[a + at] for at in evicted]
    targets = reserve(spare, figures.min_req_cpu[movers].tolist())
    moves = {instance: machine for instance, machine in zip(movers, targets, strict=True) if machine is not None}
    stuck = [instance for instance, machine in zip(movers, targets, strict=True) if machine is None]
    return moves, tuple(np.unique(figures.machine[stuck]).tolist())


_ROUNDING = 1e-9


def _queries_of(graph: TaskGraph, tasks: Indexes) -> Bools:
    """Return the queries that one of these tasks serves."""
    is_one = np.zeros(graph.tasks, np.bool_)
    is_one[tasks] = True
    result = np.zeros(len(graph.query_task), np.bool_)
    result[graph.pair_query[is_one[graph.pair_task]]] = True
    return result


def _shed_plan(
    snapshot: ClusterSnapshot,
    figures: Figures,
    is_warming: Bools,
    cycle: CycleOutcome,
    unable: int | None = None,
) -> ShedPlan:
    """Return the plan of a cycle; ``unable``: how many instances would have gone if somebody moved them."""
    graph, row = figures.graph, figures.row
    source_keep, edge_keep = keep_settings(graph, cycle.desired)
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
    failed = cycle.failed
    if unable is not None:
        failed = tuple(np.flatnonzero(cycle.waits).tolist())
        on = ", ".join(snapshot.machines.name[machine] for machine in failed[:3])
        parts.append(f"rescheduling failed: no actuator, minimums do not fit on {on}")
    elif waiting:
        parts.append(
            f"minimums do not fit on {waiting} machines: what leaves is decided if they do not in the next cycle"
        )
    if cycle.failed and unable is None:
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
        failed,
        {
            "accuracy_min": float(declared.min()) if len(declared) else 1.0,
            "queries_shed": shed,
            "available_cpu_percent": float(cycle.a_cpu.sum()),
            "granted_cpu_percent": float(cycle.granted.sum()),
            "machines_warming": warm,
            "tasks_unmeasured": figures.unmeasured_tasks,
        }
        | ({} if unable is None else {"moves_without_actuator": unable}),
    )


def keep_settings(graph: TaskGraph, desired: Floats) -> tuple[dict[int, float], dict[int, float]]:
    """Return the shedders' keep rates below 1, by source task and by edge: equations 14 and 15."""
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
    """Return the tasks whose minimum exceeds one thread, and the cores that they could use in all."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        full_cpu = np.where(figures.c_ac > 0, figures.cpu / figures.c_ac, 100.0)
    is_capped = (figures.c_ac > 0) & (full_cpu * figures.min_ac > 100.0 + _ROUNDING)
    if not is_capped.any():
        return ()
    cores = total(full_cpu / 100.0, figures.task, figures.graph.tasks)
    required = most((full_cpu * figures.min_ac)[is_capped], figures.task[is_capped], figures.graph.tasks)
    return tuple(
        Demand(task, float(cores[task]), f"thread capped: the minimum needs {required[task]:.0f}% of a core in one")
        for task in np.flatnonzero(np.isfinite(required)).tolist()
    )
