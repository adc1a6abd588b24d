"""Flink-ER: redistributes load where capacity is spare, and adds instances at the minimum cut where it is not.

Flink-ER, 3.2, Algorithm 2, run on the simulated cluster and by ``penstock decide``: from the most lagged source on,
load is handed out along augmenting paths, and where none is left the minimum cut names the bottleneck. Buckets of keyed
tasks move before instances are added; a bucket whose share of the arriving rows exceeds every instance's capacity is a
hot key, which is reported and never scaled. Backlog, which passes, makes no key hot.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from penstock.model.columns import Floats, Ints, Names
from penstock.model.plan import BucketMove, Decision, NoChange, RescalePlan, Route, TaskSize, not_measured
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.bucket_moves import TaskBuckets, level_buckets
from penstock.scheduler.capacity import (
    capacity_alone,
    capacity_beside,
    detect,
    first_capacity,
    free_cores,
    step_literal,
    step_paper,
    unknown_network,
)
from penstock.scheduler.core_needs import core_loads, core_needs, needed_instances
from penstock.scheduler.flow_network import Allocation, Bottleneck, Layer, allocate
from penstock.scheduler.loop_state import WITHOUT_EFFECT
from penstock.scheduler.network_needs import Network, needs, slow_tasks, source_lags
from penstock.scheduler.operator_network import ENOUGH
from penstock.scheduler.refused_growth import still_full, without_growth
from penstock.scheduler.row_groups import RowGroups
from penstock.scheduler.spare_instances import Since, fullness, released
from penstock.scheduler.true_rates import or_nan

DETECTORS = ("true", "paper", "literal")
LATENCY = "instances.latency_ms"
"""The figure without which nobody knows whether a task is slow."""

NOISE = 0.05
"""The share of its capacity by which an instance may seem overloaded before load is redistributed."""

_CARRIED = 1 - 1e-9
"""The share of what is asked that counts as all of it, once buckets have moved."""


@dataclass(frozen=True, slots=True, eq=False)
class FlinkErMemory:
    """Detected capacities by instance of the ``tasks`` of the last snapshot; when each application last changed.

    ``full``: tasks, as application/task, that got no instance when one was last asked for, with those that they had.
    ``concerned``: applications that lagged, or were slow, in so many looks up to the last. ``spare``: tasks with an
    instance that nobody needs, and since when.
    """

    tasks: Names = ()
    owners: Ints | None = None
    capacity: Floats | None = None
    acted_s: tuple[tuple[str, float], ...] = ()
    full: tuple[tuple[str, int], ...] = ()
    concerned: tuple[tuple[str, int], ...] = ()
    spare: Since = ()


@dataclass(frozen=True, slots=True)
class FlinkEr:
    """The policy.

    ``detector``: where capacities come from: the true rate where an instance runs, the paper's steps from latency
    times the rows in flight, or its steps as printed. ``saturated`` is lambda, ``latency_ms`` l_c. ``lag_s`` is phi:
    a lag worth more seconds of input triggers an action, and is to be drained in ``drain_s``, together with the input
    that arrives in the ``action_s`` of the action. Where no source lags, a mean latency of a task above l_c triggers
    one, after which the load is to be at most lambda of every capacity; infinite: only lag does. ``settle_s``: the
    wait after an action on an application. ``jump``: instances are added up to the need, not one at a time. ``pool``:
    instances that a decision may add; None: as many as there are free cores, if CPU is measured of all. ``period_s``:
    how often a loop lets it look; ``looks``: in so many of them, one after the other, an application must lag, or be
    slow, before anything is done. ``frees_below``: the share of what a task's instances carry below which one of them
    is spare; 0: none ever. It goes once it was spare for ``frees_after_s``, if the others carry `room` times the
    load. ``cores_margin``: as in `Ds2`.
    """

    detector: str = "true"
    saturated: float = 0.85
    latency_ms: float = 500.0
    lag_s: float = 1.0
    drain_s: float = 20.0
    action_s: float = 5.0
    settle_s: float = 30.0
    jump: bool = True
    pool: int | None = None
    period_s: float = 30.0
    looks: int = 1
    frees_below: float = 0.0
    frees_after_s: float = 60.0
    cores_margin: float = float("inf")

    def __post_init__(self) -> None:
        if self.detector not in DETECTORS:
            raise ValueError(f"detector is one of {', '.join(DETECTORS)}, not {self.detector!r}")
        if not 0.85 <= self.saturated <= 1:
            raise ValueError(f"saturated is in [0.85, 1], not {self.saturated}")
        if not self.latency_ms > 0:
            raise ValueError(f"latency_ms is above 0, not {self.latency_ms}")
        if np.isinf(self.latency_ms) and self.detector != "true":
            raise ValueError(f"detector {self.detector!r} tells capacities by latency_ms, which cannot be infinite")
        if not (0 <= self.frees_below <= 1 and self.frees_after_s >= 0 and self.cores_margin >= 0):
            raise ValueError("frees_below is a share in [0, 1], a time and a margin are 0 or more")
        if self.looks < 1:
            raise ValueError(f"looks is 1 or more, not {self.looks}")

    def start(self) -> FlinkErMemory:
        """Return the empty memory."""
        return FlinkErMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: FlinkErMemory) -> tuple[Decision, FlinkErMemory]:
        """Return one plan of routes, bucket moves and sizes for all applications that lag."""
        limits = self._capacities(snapshot, memory)
        had = None if memory.owners is None or memory.tasks != snapshot.tasks.name else memory.owners
        refused = without_growth(snapshot, had)
        full = still_full(snapshot, memory.full) | refused
        # What was asked for in vain settles nothing.
        gone = {name.partition("/")[0] for name in refused}
        names = set(snapshot.applications.name) - gone
        acted_s = {name: time_s for name, time_s in memory.acted_s if name in names}
        after = FlinkErMemory(
            snapshot.tasks.name, snapshot.instances.task, limits, tuple(acted_s.items()), tuple(full.items())
        )
        needed, steady, unmeasured = needs(snapshot, self.drain_s, self.action_s)
        if unmeasured:
            return not_measured(unmeasured), after
        lags = source_lags(snapshot)
        if lags is None:
            return not_measured("end offsets and positions of the sources' partitions"), after
        slow, blind = slow_tasks(snapshot, self.latency_ms)
        if len(blind) and self.detector != "true":
            return not_measured(LATENCY), after
        if lacking := "" if self.detector == "true" else unknown_network(snapshot, limits):
            return not_measured(lacking), after
        with np.errstate(divide="ignore", invalid="ignore"):
            arriving_part = np.nan_to_num(np.where(needed > 0, steady / needed, 1.0), nan=1.0)
        plan, network = _Plan(snapshot, self, arriving_part, full.keys()), Network(snapshot, limits, needed)
        done: set[int] = set()
        # Looks at other instances are not those after each other.
        same = had is not None and np.array_equal(had, snapshot.instances.task)
        before, concerned = dict(memory.concerned) if same else {}, dict[str, int]()
        for application, tasks, headroom in self._concerned(snapshot, network, lags, slow):
            name = snapshot.applications.name[application]
            if application in done:
                continue
            looks = concerned[name] = min(before.get(name, 0) + 1, self.looks)
            if looks < self.looks:
                plan.reasons.append(f"{name}: it lags or is slow, in {looks} of {self.looks} looks")
                done.add(application)
            elif snapshot.time_s - acted_s.get(name, -np.inf) < self.settle_s:
                plan.reasons.append(f"{name}: the last action settles")
                done.add(application)
            elif plan.add(application, network.layers(tasks, headroom), headroom):
                acted_s[name] = snapshot.time_s
                done.add(application)
                del concerned[name]
        uncalm = {*done, *snapshot.tasks.application[blind].tolist()}
        uncalm |= {row for row, name in enumerate(snapshot.applications.name) if name in concerned or name in gone}
        spare = self._release(snapshot, plan, limits, steady, uncalm, memory.spare, acted_s)
        after = replace(after, acted_s=tuple(acted_s.items()), concerned=tuple(concerned.items()), spare=spare)
        if len(blind) and not plan.reasons:
            return not_measured(LATENCY), after
        plan.reasons += [f"not measured: {LATENCY}"] if len(blind) else []
        return plan.decision(needed, self.cores_margin), after

    @property
    def room(self) -> float:
        """How many times the load those are to carry that stay where an instance goes, so that nothing asks it back.

        A lag of ``action_s`` makes the need 1 + 2 action_s / drain_s of what arrives, and a slow task 1 / lambda.
        """
        return max(1 + 2 * self.action_s / self.drain_s, 1 / self.saturated) * (1 + NOISE)

    def _release(
        self,
        snapshot: ClusterSnapshot,
        plan: "_Plan",
        limits: Floats,
        steady: Floats,
        uncalm: Set[int],
        before: Since,
        acted_s: dict[str, float],
    ) -> Since:
        """Let instances go that calm applications do without; return the tasks with such ones, and since when."""
        if self.frees_below == 0:
            return ()
        names = snapshot.applications.name
        calm = {row for row, name in enumerate(names) if snapshot.time_s - acted_s.get(name, -np.inf) >= self.settle_s}
        # What it waits for its core is lost to an instance: with fewer of its task others have that all the same.
        alone = capacity_alone(snapshot) if self.detector == "true" else limits
        full = fullness(snapshot, alone, steady, self.room)
        sizes, spare = released(snapshot, full, self.frees_below, calm - uncalm, before, self.frees_after_s)
        plan.release(sizes, full)
        acted_s |= {names[snapshot.tasks.application[size.task]]: snapshot.time_s for size in sizes}
        return spare

    def _concerned(
        self, snapshot: ClusterSnapshot, network: Network, lags: Floats, slow: Ints
    ) -> Iterator[tuple[int, list[int], float]]:
        """Yield applications, their tasks below one source, and the capacity that they must have in shares of need.

        First those below lagging sources, from the most lagged on (eq 1), then those of which a task is ``slow``.
        """
        of, lagging = snapshot.tasks.application, set()
        for source in sorted(np.flatnonzero(lags > self.lag_s).tolist(), key=lambda task: -lags[task]):
            reached = network.reached(source)
            for application, tasks in _by_application(of, reached):
                lagging.add(application)
                yield application, tasks, 1.0
        slow = slow[~np.isin(of[slow], list(lagging))]
        if not len(slow):
            return
        origin, seen = network.most_lagged(lags), set()
        for task in slow.tolist():
            application, source = int(of[task]), int(origin[task])
            if (application, source) not in seen:
                seen.add((application, source))
                reached = network.reached(source)
                yield application, reached[of[reached] == application].tolist(), 1.0 / self.saturated

    def _capacities(self, snapshot: ClusterSnapshot, memory: FlinkErMemory) -> Floats:
        """Return rows/s by instance, infinite where only latency tells; NaN where unknown, which does not bind."""
        instances, rows = snapshot.instances, len(snapshot.instances)
        records_in = or_nan(instances.records_in, rows)
        if self.detector == "true":
            busy_ns = or_nan(instances.busy_ns, rows)
            useful_ns = busy_ns + or_nan(instances.remote_wait_ns, rows)
            beside = capacity_beside(records_in, busy_ns, useful_ns, instances.machine, snapshot.window_s)
            return np.fmax(capacity_alone(snapshot), beside)
        same = memory.capacity is not None and memory.tasks == snapshot.tasks.name
        before = first_capacity(snapshot)
        if same and memory.owners is not None and np.array_equal(memory.owners, instances.task):
            assert memory.capacity is not None
            before = np.where(np.isnan(memory.capacity), before, memory.capacity)
        flow, latency_ms = records_in / snapshot.window_s, or_nan(instances.latency_ms, rows)
        literal = self.detector == "literal"
        step = step_literal(latency_ms, self.latency_ms) if literal else step_paper(flow, latency_ms, self.latency_ms)
        return detect(before, flow, latency_ms, self.latency_ms, step)


class _Plan:
    """Collects actions and their reasons; ``arriving_part`` is the share of each task's need that is not backlog.

    ``full``: tasks that get no instance.
    """

    def __init__(self, snapshot: ClusterSnapshot, policy: FlinkEr, arriving_part: Floats, full: Set[str]) -> None:
        self._snapshot, self._policy, self._arriving_part, self._full = snapshot, policy, arriving_part, full
        self._useful: dict[int, int] = {}
        self._names = ["/".join(name) for name in snapshot.task_names()]
        # Tasks whose buckets would have moved, to no effect: they can only grow.
        refusals = zip(snapshot.refusals.subject, snapshot.refusals.what, snapshot.refusals.reason, strict=True)
        self._stuck = {of for of, what, why in refusals if what == "bucket" and why == WITHOUT_EFFECT}
        self._buckets_of = TaskBuckets(snapshot)
        self._edges_into = RowGroups(snapshot.edges.consumer, len(snapshot.tasks))
        self._free_instances = free_cores(snapshot) if policy.pool is None else policy.pool
        self._sizes: list[TaskSize] = []
        self._buckets: list[BucketMove] = []
        self._routes: list[Route] = []
        self.reasons: list[str] = []

    def add(self, application: int, layers: Sequence[Layer], headroom: float) -> bool:
        """Decide on an application that lags, or is slow and wants headroom; return whether any action results."""
        name = self._snapshot.applications.name[application]
        allocation = allocate(layers, self._policy.saturated)
        most = allocation.paced * headroom
        if allocation.paced >= ENOUGH:
            routes = self._new_routes(layers, allocation, set())
            self._routes += routes
            rest = "capacity suffices, the lag drains" if headroom == 1 else "it is slow, but no task is saturated"
            self.reasons.append(f"{name}: {'handed out anew' if routes else rest} (all of the need)")
            return bool(routes)
        moves, hot = self._bucket_moves(layers, headroom)
        self.reasons += [f"{name}: hot key in bucket {bucket} of {task!r}" for task, bucket in hot]
        if moves:
            self._buckets += moves
            self.reasons.append(f"{name}: {len(moves)} buckets move ({most:.3g} of the need)")
            return True
        sizes = self._new_sizes(layers, allocation.bottlenecks, {task for task, _ in hot})
        self._sizes += sizes
        routes = self._new_routes(layers, allocation, {size.task for size in sizes})
        self._routes += routes
        marked = ", ".join(f"{self._task(layers[short.place].task)!r}" for short in allocation.bottlenecks)
        blamed = f"bottleneck {marked}" if marked else "nothing flows"
        self.reasons.append(f"{name}: {blamed} ({most:.3g} of the need)" + ("" if sizes else ", no instance"))
        return bool(sizes or routes)

    def release(self, sizes: Sequence[TaskSize], full: Floats) -> None:
        """Let instances go."""
        self._sizes += sizes
        for size in sizes:
            name, part = self._names[size.task], full[size.task]
            self.reasons.append(f"{name}: {part:.2g} of what its instances carry; {size.parallelism} suffice with room")

    def decision(self, needed: Floats, cores_margin: float) -> Decision:
        """Return the plan; ``needed`` rows/s must enter each task, and cores are asked for with this margin."""
        reasons = "; ".join(self.reasons)
        if not (self._sizes or self._buckets or self._routes):
            return NoChange(reasons or "no source lags")
        loads = core_loads(self._snapshot, needed_instances(self._snapshot, needed))
        nobody = np.zeros(len(self._snapshot.applications), np.bool_)
        cores = core_needs(loads, self._sizes, nobody, cores_margin)
        return RescalePlan(reasons, tuple(self._sizes), tuple(self._buckets), tuple(self._routes), cores=cores)

    def _task(self, task: int) -> str:
        return self._snapshot.tasks.name[task]

    def _new_routes(self, layers: Sequence[Layer], allocation: Allocation, grown: set[int]) -> list[Route]:
        """Return new shares for free exchanges whose present shares would overload an instance at the need."""
        routes: list[Route] = []
        tails = {place: [place] for place, layer in enumerate(layers) if layer.is_free and layer.follows is None}
        for place, layer in enumerate(layers):
            if layer.follows is not None:
                tails[layer.follows].append(place)
        for place, stage in tails.items():
            layer = layers[place]
            if layer.sums.flow <= 0 or any(layers[at].task in grown for at in stage):
                continue
            if len(stage) == 1 and min(layer.whole, 1.0) <= layer.sums.fullest * (1 + NOISE):
                continue
            flows = allocation.flow(place)
            handed = float(flows.sum())
            if handed <= 0:
                continue
            shares = layer.flow / layer.sums.flow * handed
            if all(np.all(shares <= layers[at].capacity * (1 + NOISE)) for at in stage):
                continue
            new = tuple((flows / handed).tolist())
            routes += [Route(edge, new) for edge in self._edges_into.rows(layer.task).tolist()]
        return routes

    def _bucket_moves(self, layers: Sequence[Layer], headroom: float) -> tuple[list[BucketMove], list[tuple[str, int]]]:
        """Return bucket moves that raise a keyed bottleneck to the need, or as far as possible; and hot keys."""
        moves: list[BucketMove] = []
        hot: list[tuple[str, int]] = []
        for layer in layers:
            if layer.is_free or layer.whole >= 1 or not self._snapshot.tasks.is_keyed[layer.task]:
                continue
            if self._names[layer.task] in self._stuck:
                continue
            loads = self._buckets_of.loads(layer.task)
            if loads is None:
                continue
            arriving = float(self._arriving_part[layer.task]) / headroom
            # Instances are not added for a backlog, if moves carry what arrives and a little of that.
            balanced = layer.sums.balanced
            part = 1.0 if balanced >= 1 or not arriving > 0 else min(arriving * (1 + NOISE), 1.0)
            is_full = self._names[layer.task] in self._full
            if is_full and balanced > 0:
                # No more can be had of these instances, and no others come; to level the last of it takes many moves.
                part = min(part, balanced / (1 + NOISE))
            # With so many instances the heaviest bucket has one for itself, and more bring nothing.
            useful = self._useful[layer.task] = ceil(1 / loads.heaviest - 1e-9)
            hot += [(self._task(layer.task), bucket) for bucket in loads.hot(self._snapshot, layer, arriving)]
            # Moves that do not reach that are not made where instances are added anyway: owners change with them.
            is_all = is_full or len(layer.instances) >= useful
            if not is_all and balanced / part < _CARRIED:
                continue
            levelling = level_buckets(self._snapshot, layer if part == 1.0 else layer.asked(part), loads)
            helps = levelling.whole * part > layer.whole * (1 + NOISE)
            # What carries all with nothing to spare is not exchanged again at every look.
            carries = levelling.whole >= _CARRIED and (helps or (part == 1.0 and not levelling.exchanges))
            if carries or (is_all and helps):
                moves += levelling.moves
        return moves, hot

    def _new_sizes(self, layers: Sequence[Layer], bottlenecks: Sequence[Bottleneck], hot: set[str]) -> list[TaskSize]:
        sizes = []
        for short in bottlenecks:
            task, count = layers[short.place].task, len(layers[short.place].instances)
            if self._task(task) in hot:
                continue
            per_instance = short.whole / count
            target = ceil(1.0 / per_instance - 1e-9) if self._policy.jump and per_instance > 0 else count + 1
            groups = int(self._snapshot.tasks.key_groups[task])
            target = min(target, groups) if self._snapshot.tasks.is_keyed[task] else target
            target = min(target, self._useful.get(task, target))
            added = target - count if self._free_instances is None else min(target - count, self._free_instances)
            if added > 0:
                self._free_instances = None if self._free_instances is None else self._free_instances - added
                sizes.append(TaskSize(task, count + added))
        return sizes


def _by_application(of: Ints, tasks: Ints) -> list[tuple[int, list[int]]]:
    """Return tasks by their application, in their order."""
    found: dict[int, list[int]] = {}
    for application, task in zip(of[tasks].tolist(), tasks.tolist(), strict=True):
        found.setdefault(application, []).append(task)
    return list(found.items())
