"""The controllers of one job in its head: they place instances, and choose keep rates by what they see of it.

A shell around pure policies: it keeps readings and the memories of the policies. One thread calls it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from penstock.engine.control.chosen_policies import PLACEMENT, who_places
from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.error_book import ErrorBook
from penstock.engine.control.job_loop import JobLoop
from penstock.engine.control.lag_maxima import with_lag_maxima
from penstock.engine.control.levers import NO_LEVERS, Levers
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.move_control import MoveControl
from penstock.engine.control.part_reading import PartReading
from penstock.engine.control.reading import ReadingMerger
from penstock.engine.control.reading_book import ReadingBook
from penstock.engine.control.recent_decisions import RecentDecisions
from penstock.engine.control.scale_control import ScaleMemory, ScaleSettings
from penstock.engine.control.scalers import Scalers
from penstock.engine.control.sic_coordinator import SicCoordinator
from penstock.engine.control.sic_status import status_by_sic
from penstock.engine.control.steering import scalers
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.config import LoopOptions
from penstock.model.control import Control
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.keep_rates import KeepRates, least_rates
from penstock.model.key_groups import Owners
from penstock.model.plan import Decision, Placement
from penstock.model.scaling_status import ScalingStatus
from penstock.model.shedding_status import SheddingStatus
from penstock.model.sic import NO_CHECKS, CheckTimes, SicTerms
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.place_hints import PlaceHints, hinted
from penstock.scheduler.placement import PlacementMemory, TaskScheduler
from penstock.shedding.keep_settings import ShedderQueries

TICK_NS = 1_000_000_000
"""How often controllers see a snapshot of the job."""

MeasuredCpu = Mapping[str, float]
"""The last measured CPU of an instance of each task, percent of a core, by the task's name."""


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """Where a job is: task managers that may take instances, the process that keeps what it has, places of instances.

    ``silent_s`` is how long ago each task manager was heard, ``owners`` who has the key groups of tasks.
    """

    managers: Sequence[str]
    caller: str
    places: Mapping[str, str]
    silent_s: Mapping[str, float]
    owners: Mapping[TaskId, Owners] = field(default_factory=dict)


MISSED_CYCLES = 3
"""After so many cycles in a row in which a maximum error cannot be met its user is told."""

LATE_NS = TICK_NS // 2
"""A tick that comes later than this after it was due is counted."""


def _say_nothing(text: str) -> None:
    """Drop what nobody is to hear."""


@dataclass(frozen=True, slots=True)
class KeepOrder:
    """Keep rates that are to hold from now on, of these shedders.

    Sources in ``exempt`` are kept whole for another reason than load. ``sic`` has new terms of shedding by SIC.
    """

    rates: KeepRates
    exempt: frozenset[str]
    shedders: ShedderQueries
    sic: SicTerms | None = None


class JobControl:
    """Readings, policies and what they remember, over all attempts of a run."""

    def __init__(
        self,
        job: str,
        graph: ExecutionGraph,
        options: LoopOptions,
        now_ns: int,
        log: DecisionLog | None = None,
        shedding: LoadShedding | None = None,
        levers: Levers = NO_LEVERS,
        scaling: ScaleSettings | None = None,
    ) -> None:
        """Begin with nothing measured; ``shedding`` chooses keep rates within limits as they change.

        ``scaling`` says who scales (None: nobody does); who acts does so through ``levers``.

        Raises:
            OptionError: there is no such scaler or parameter; the message names the valid ones.
        """
        self._job, self._graph, self._hosts = job, graph, frozenset[str]()
        numbers = count(1)
        merger = ReadingMerger(graph, options, levers.memory)
        self._book = ReadingBook(job, merger, now_ns, numbers)
        # Load shedding looks at whole cycles, in which rates did not change.
        before = scaling.memory.loop if scaling is not None and scaling.memory is not None else None
        since_ns = before.began_ns if before is not None else now_ns
        self._cycles = ReadingBook(job, merger, since_ns, numbers, as_sent=True)
        items = () if scaling is None else scalers(scaling.control)
        items = tuple(replace(item, acts=scaling is not None and scaling.actuator is not None) for item in items)
        self._moving = MoveControl(graph, shedding, levers.moves, log)
        policies = self._moving.beside(items)
        self._loop = JobLoop(policies, before)
        self._moving.begin(self._loop)
        self._scaling: Scalers | None = None
        if scaling is not None:
            book = partial(ReadingBook, job, merger, since_ns, numbers)
            self._scaling = Scalers(scaling, items, self._loop, graph, book, log)
        self._errors = ErrorBook()
        self._missed_cycles = 0
        self._latest: dict[str, tuple[MachineReading, PartReading | None, int]] = {}
        self.shedding, self._limits = shedding, levers.limits
        self._sic = SicCoordinator(graph)
        self._sic_terms: SicTerms | None = None
        self.warn: Callable[[str], None] = _say_nothing
        """It takes what the user is to be told."""
        self._status: SheddingStatus | None = None
        self.recent = RecentDecisions()
        self._ticks = 0
        self._ordered = KeepRates()
        self._in_force: dict[str, KeepRates] = {}
        self._checks: dict[str, CheckTimes] = {}
        self._late_ticks, self._latest_ns = 0, 0
        self._policy: Guarded[Any] | None = None
        self.place_by(PLACEMENT, who_places(Control()))
        self._has_decided = False
        self._log = log
        self._tick_ns: int | None = None

    def place_by(self, name: str, policy: Guarded[Any]) -> None:
        """Let this policy choose where instances start, before any was placed."""
        self._placer, self._scheduler = name, policy
        self._memory = policy.start()

    @property
    def due_ns(self) -> int | None:
        """When `tick` is due; None: nothing was read yet."""
        return self._tick_ns

    @property
    def measured_cpu(self) -> MeasuredCpu:
        """The last measured CPU of the tasks that were ever measured; a class of a user's measures for itself."""
        if not isinstance(self._scheduler.policy, TaskScheduler):
            return {}
        memory: PlacementMemory = self._memory.policy
        return {**self._scheduler.policy.known_cpu} | {task: percent for (_, task), percent in memory.cpu.items()}

    @property
    def scale_memory(self) -> ScaleMemory | None:
        """What the scaler remembers beyond its plan, None: nothing."""
        return None if self._scaling is None else self._scaling.memory()

    def know(self, cpu: MeasuredCpu) -> None:
        """Take the CPU that an earlier run has measured, unless this one has placed instances: it measures itself."""
        if self._has_decided:
            return
        scheduler = self._scheduler.policy
        if not isinstance(scheduler, TaskScheduler):
            return
        self._scheduler = replace(self._scheduler, policy=replace(scheduler, known_cpu=dict(cpu)))

    def follow(self, before: "JobControl") -> None:
        """Take over what is known of tasks and task managers, and what is to move, from the control of another plan."""
        self.know(before.measured_cpu)
        self._book.begin_with(before._book)
        self._moving.follow(before._moving)
        self.recent, self._hosts = before.recent, before._hosts

    def hear(
        self,
        manager: str,
        machine: MachineReading,
        part: PartReading | None,
        now_ns: int,
        keep: KeepRates | None = None,
    ) -> None:
        """Take in the readings of a task manager; ``keep``: the rates in force there, None: none were set."""
        if keep is not None:
            self._in_force[manager] = keep
        self._book.hear(manager, machine, part, now_ns)
        if part is not None:
            self._errors.hear(part)
            self._sic.hear(manager, part)
            self._checks[manager] = part.checks
        if manager not in self._latest or self._latest[manager][1] is None:
            # Its first cycle begins with its instances.
            self._cycles.hear(manager, machine, part, now_ns)
        self._latest[manager] = machine, part, now_ns
        if self._tick_ns is None:
            self._tick_ns = now_ns + TICK_NS

    def lose(self, manager: str, now_ns: int) -> None:
        """A task manager is lost, and what it hosted with it: whoever sizes the job need not wait now."""
        self.forget(manager)
        if manager in self._hosts:
            self._loop.lose(self._job, now_ns)

    def forget(self, manager: str) -> None:
        """A task manager is gone."""
        self._book.forget(manager)
        self._cycles.forget(manager)
        if self._scaling is not None:
            self._scaling.forget(manager)
        self._latest.pop(manager, None)
        self._in_force.pop(manager, None)
        self._checks.pop(manager, None)
        self._sic.forget(manager)

    def place(self, job: JobPlaces, now_ns: int) -> Mapping[str, str]:
        """Return task managers for instances that have no place, of those for which there is a figure to choose by."""
        snapshot = self._snapshot(job, now_ns)
        hints = PlaceHints(moves=self._moving.wanted)
        if self._scaling is not None:
            own = self._scaling
            hints = replace(hints, packs=own.packs, memory=own.task_memory, loads=own.loads)
        snapshot = hinted(snapshot, hints, self.measured_cpu, self._scheduler.limits.lost_after_s)
        decision = self._decide(snapshot)
        if self._log is not None:
            self._log.sync()
        if not isinstance(decision, Placement):
            return {}
        names = [name for task in self._graph.tasks for name in self._graph.instances(task)]
        places = {names[move.instance]: snapshot.machines.name[move.machine] for move in decision.moves}
        self.recent.placed(now_ns, self._placer, places, decision.reason)
        return places

    def tick(self, job: JobPlaces, now_ns: int, in_force: KeepRates | None = None) -> KeepOrder | None:
        """Let policies see the job as it runs; return the keep rates of a cycle if somebody acts on them.

        ``in_force``: the rates until now; None: the least that task managers have said, else the last cycle's.
        """
        if self._tick_ns is not None and now_ns - self._tick_ns > LATE_NS:
            self._late_ticks += 1
            self._latest_ns = max(self._latest_ns, now_ns - self._tick_ns)
        self._tick_ns = now_ns + TICK_NS
        self._hosts = frozenset(job.places.values())
        snapshot = self._snapshot(job, now_ns)
        self._decide(snapshot)
        self._ticks += 1
        self._loop.now_s(now_ns)
        self._moving.turn(now_ns)
        if self._scaling is not None:
            places = (job.managers, job.caller, job.places, job.silent_s)
            self._scaling.tick(places, self._latest, now_ns, job.owners)
            for status in self._scaling.statuses:
                self.recent.scaled(now_ns, status)
        if self.shedding is None:
            return None
        self._sic.tick(snapshot)
        order = self._cycle(self.shedding, job, now_ns, in_force)
        return self._with_sic(self.shedding, job, order)

    def _cycle(
        self, shedding: LoadShedding, job: JobPlaces, now_ns: int, in_force: KeepRates | None
    ) -> KeepOrder | None:
        """Decide on keep rates, if it is time."""
        if self._ticks % shedding.period_s:
            return None
        for manager, reading in self._latest.items():
            self._cycles.hear(manager, *reading)
        cycle = self._cycles.snapshot(job.managers, job.caller, job.places, job.silent_s, now_ns)
        seen = with_lag_maxima(cycle)
        rates = in_force or least_rates([*self._in_force.values()] or [self._ordered])
        return self._shed(shedding, seen, rates, now_ns)

    def _with_sic(self, shedding: LoadShedding, job: JobPlaces, order: KeepOrder | None) -> KeepOrder | None:
        """Return an order with the terms of shedding by SIC, if these decide what is dropped or have done so."""
        if not shedding.is_acting or (not shedding.counts_sic and self._sic_terms is None):
            return order
        terms = self._sic.terms(
            shedding.scope,
            sheds=shedding.shedder if shedding.counts_sic else "",
            spread=len(job.managers) > 1,
            shed_backlog=shedding.shed_backlog,
        )
        if terms is None:
            return order
        if not shedding.counts_sic:
            # What was switched off leaves nothing behind, neither in headers nor at sinks.
            terms = replace(terms, row_sic={}, groups=(), accuracy=(1.0,) * len(terms.queries))
        self._sic_terms = terms if shedding.counts_sic else None
        if order is None:
            order = KeepOrder(self._ordered, frozenset(shedding.shedders.sources), shedding.shedders)
        # Whoever sheds by SIC looks as often as the guard, which stays away.
        exempt = frozenset(shedding.shedders.sources) if shedding.counts_sic else order.exempt
        return replace(order, exempt=exempt, sic=terms)

    def shown(self, metrics: JobMetrics, now_ns: int) -> JobMetrics:
        """Return metrics with what was decided last; from any thread."""
        last = self.recent.last(now_ns)
        return replace(metrics, shedding=self._status, scaling=self.scaling_status(), decisions=last)

    def scaling_status(self) -> ScalingStatus | None:
        """Return what the scaler decided last; None: nothing yet, or there is none. From any thread."""
        return None if self._scaling is None else self._scaling.status

    def _shed(
        self, shedding: LoadShedding, seen: ClusterSnapshot, in_force: KeepRates, now_ns: int
    ) -> KeepOrder | None:
        if self._limits is not None:
            shedding.change(self._limits.wanted)
        cycle = shedding.cycle(self._moving.prepared(seen), in_force, self._errors.take())
        if cycle is None:
            self._moving.rest()
        if cycle is None and shedding.shed == "sic":
            status = status_by_sic(shedding, self._sic, seen)
            order = KeepOrder(KeepRates(), frozenset(shedding.shedders.sources), shedding.shedders)
        elif cycle is None:
            status = SheddingStatus(shedding.shed, shedding.mode, "shedding is off", applied=shedding.is_acting)
            order = KeepOrder(KeepRates(), frozenset(shedding.shedders.sources), shedding.shedders)
        else:
            said = self._moving.judge(cycle, now_ns)
            self.recent.moved(now_ns, shedding.shed, said, cycle.decision.reason)
            if self._log is not None:
                name = shedding.policy_name
                if self._policy is not shedding.policy:
                    self._policy = shedding.policy
                    self._log.begin(name, shedding.policy)
                self._log.add(cycle.snapshot, name, cycle.decision)
                detail = {
                    "sources": dict(cycle.rates.sources),
                    "branches": {">".join(edge): rate for edge, rate in cycle.rates.branches.items()},
                    "infeasible": cycle.status.infeasible,
                    "missed": cycle.status.missed,
                    "exempt": sorted(cycle.exempt),
                    **said,
                }
                self._log.result(cycle.snapshot, name, "applied" if shedding.is_acting else "recommended", detail)
            status = cycle.status
            if shedding.shed == "both":
                left = dict(zip(self._sic.queries, self._sic.accuracy().tolist(), strict=True))
                queries = tuple(replace(each, current=each.current * left[each.query]) for each in status.queries)
                status = replace(status, queries=queries)
            order = KeepOrder(cycle.rates, cycle.exempt, shedding.shedders)
        was_infeasible = self._status is not None and self._status.infeasible
        if status.infeasible and shedding.is_acting and not was_infeasible:
            self.warn(
                f"INFEASIBLE: {status.infeasible}; sources are held back and their lag grows: lower a minimum "
                "accuracy, or give the job more cores."
            )
        self._missed_cycles = self._missed_cycles + 1 if status.missed else 0
        if self._missed_cycles == MISSED_CYCLES and shedding.is_acting:
            self.warn(
                f"INACCURATE: {status.missed}; rows go out with wider intervals: allow a greater error, or give "
                "the job more cores."
            )
        checks = sum(self._checks.values(), NO_CHECKS)
        self._status = replace(
            status,
            applied=shedding.is_acting,
            late_ticks=self._late_ticks,
            latest_ms=self._latest_ns // 1_000_000,
            checks=checks.number,
            checks_ms=checks.spent_ns / 1e6,
            longest_check_ms=checks.longest_ns / 1e6,
        )
        self.recent.shed(now_ns, self._status)
        if not shedding.is_acting:
            return None
        self._ordered = order.rates
        return order

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def _decide(self, snapshot: ClusterSnapshot) -> Decision:
        if self._log is not None and not self._has_decided:
            self._log.begin(self._placer, self._scheduler)
        self._has_decided = True
        decision, self._memory = self._scheduler.decide(snapshot, self._memory)
        if self._log is not None:
            self._log.add(snapshot, self._placer, decision)
        return decision

    def _snapshot(self, job: JobPlaces, now_ns: int) -> ClusterSnapshot:
        return self._book.snapshot(job.managers, job.caller, job.places, job.silent_s, now_ns, job.owners)
