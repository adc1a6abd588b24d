"""Flink-ER: redistributes load where capacity is spare, and adds instances at the minimum cut where it is not.

Flink-ER, 3.2, Algorithm 2, run on the simulated cluster and by ``penstock decide``. Buckets of keyed
tasks move before instances are added; a bucket whose share of the arriving rows exceeds every instance's capacity is a
hot key, which is reported and never scaled. Backlog, which passes, makes no key hot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from penstock.model.columns import Floats, Ints, Names
from penstock.model.plan import BucketMove, Decision, NoChange, RescalePlan, Route, TaskSize, not_measured
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.task_levels import task_levels
from penstock.scheduler.bucket_moves import level_buckets
from penstock.scheduler.capacity import (
    MIB,
    available_bandwidth,
    detect,
    network_capacity,
    step_literal,
    step_paper,
    true_capacity,
)
from penstock.scheduler.flow_network import Layer, bottlenecks, capacity, carried_flow, distributed_flow
from penstock.scheduler.propagation import propagate
from penstock.scheduler.row_groups import RowGroups
from penstock.scheduler.true_rates import or_nan, output_ratios, source_targets, sum_by, task_rates

DETECTORS = ("true", "paper", "literal")
NOISE = 0.05
"""The share of its capacity by which an instance may seem overloaded before load is redistributed."""


@dataclass(frozen=True, slots=True, eq=False)
class FlinkErMemory:
    """Detected capacities by instance of the ``tasks`` of the last snapshot; when each application last changed."""

    tasks: Names = ()
    owners: Ints | None = None
    capacity: Floats | None = None
    acted_s: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class FlinkEr:
    """The policy.

    ``detector``: where capacities come from: the true rate where an instance runs, the paper's steps from latency
    times the rows in flight, or its steps as printed. ``saturated`` is lambda, ``latency_ms`` l_c. ``lag_s`` is phi:
    a lag worth more seconds of input triggers an action, and is to be drained in ``drain_s``, together with the input
    that arrives in the ``action_s`` of the action. ``settle_s``: the wait after an action on an application. ``jump``:
    instances are added up to the need, not one at a time. ``pool``: instances that a decision may add; None: as many
    as there are free cores, where CPU was measured.
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

    def __post_init__(self) -> None:
        if self.detector not in DETECTORS:
            raise ValueError(f"detector is one of {', '.join(DETECTORS)}, not {self.detector!r}")
        if not 0.85 <= self.saturated <= 1:
            raise ValueError(f"saturated is in [0.85, 1], not {self.saturated}")

    def start(self) -> FlinkErMemory:
        """Return the empty memory."""
        return FlinkErMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: FlinkErMemory) -> tuple[Decision, FlinkErMemory]:
        """Return one plan of routes, bucket moves and sizes for all applications that lag."""
        limits = self._capacities(snapshot, memory)
        acted_s = {name: time_s for name, time_s in memory.acted_s if name in snapshot.applications.name}
        after = FlinkErMemory(snapshot.tasks.name, snapshot.instances.task, limits, tuple(acted_s.items()))
        needs, unmeasured = _needs(snapshot, self.drain_s, self.action_s)
        if unmeasured:
            return not_measured(unmeasured), after
        lags = _lags(snapshot)
        if lags is None:
            return not_measured("end offsets and positions of the sources' partitions"), after
        steady, _ = _needs(snapshot, np.inf, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            arriving_part = np.nan_to_num(np.where(needs > 0, steady / needs, 1.0), nan=1.0)
        plan, network = _Plan(snapshot, self, arriving_part), _Network(snapshot, limits, needs)
        for application in np.flatnonzero(lags > self.lag_s).tolist():
            name = snapshot.applications.name[application]
            if snapshot.time_s - acted_s.get(name, -np.inf) < self.settle_s:
                plan.reasons.append(f"{name}: the last action settles")
            elif plan.add(application, network.layers(application)):
                acted_s[name] = snapshot.time_s
        after = FlinkErMemory(snapshot.tasks.name, snapshot.instances.task, limits, tuple(acted_s.items()))
        return plan.decision(), after

    def _capacities(self, snapshot: ClusterSnapshot, memory: FlinkErMemory) -> Floats:
        """Return rows/s by instance; NaN where unknown, which does not bind."""
        instances, rows = snapshot.instances, len(snapshot.instances)
        records_in = or_nan(instances.records_in, rows)
        if self.detector == "true":
            useful_ns = or_nan(instances.busy_ns, rows) + or_nan(instances.remote_wait_ns, rows)
            return true_capacity(records_in, useful_ns, or_nan(instances.core_wait_ns, rows))
        same = memory.capacity is not None and memory.tasks == snapshot.tasks.name
        if same and memory.owners is not None and np.array_equal(memory.owners, instances.task):
            before = memory.capacity
        else:
            before = _from_network(snapshot)
        assert before is not None
        flow, latency_ms = records_in / snapshot.window_s, or_nan(instances.latency_ms, rows)
        literal = self.detector == "literal"
        step = step_literal(latency_ms, self.latency_ms) if literal else step_paper(flow, latency_ms, self.latency_ms)
        return detect(before, flow, latency_ms, self.latency_ms, step)


class _Plan:
    """Collects actions and their reasons; ``arriving_part`` is the share of each task's need that is not backlog."""

    def __init__(self, snapshot: ClusterSnapshot, policy: FlinkEr, arriving_part: Floats) -> None:
        self._snapshot, self._policy, self._arriving_part = snapshot, policy, arriving_part
        self._useful: dict[int, int] = {}
        self._buckets_of = RowGroups(snapshot.buckets.task, len(snapshot.tasks))
        self._free_instances = _free_cores(snapshot) if policy.pool is None else policy.pool
        self._sizes: list[TaskSize] = []
        self._buckets: list[BucketMove] = []
        self._routes: list[Route] = []
        self.reasons: list[str] = []

    def add(self, application: int, layers: Sequence[Layer]) -> bool:
        """Decide on one lagging application, and return whether any action results."""
        name = self._snapshot.applications.name[application]
        most = capacity(layers)
        if most >= 1:
            routes = self._new_routes(layers, set())
            self._routes += routes
            why = "handed out anew" if routes else "capacity suffices, the lag drains"
            self.reasons.append(f"{name}: {why} ({most:.3g} of the need)")
            return bool(routes)
        moves, hot = self._bucket_moves(layers)
        self.reasons += [f"{name}: hot key in bucket {bucket} of {task!r}" for task, bucket in hot]
        if moves:
            self._buckets += moves
            self.reasons.append(f"{name}: {len(moves)} buckets move ({most:.3g} of the need)")
            return True
        short = bottlenecks(layers, max(carried_flow(layers), min(most, 1.0)), self._policy.saturated)
        sizes = self._new_sizes([layer for layer in short if layer.whole < 1], {task for task, _ in hot})
        self._sizes += sizes
        routes = self._new_routes(layers, {size.task for size in sizes})
        self._routes += routes
        marked = ", ".join(f"{self._task(layer.task)!r}" for layer in short)
        self.reasons.append(
            f"{name}: bottleneck {marked} ({most:.3g} of the need)" + ("" if sizes else ", no instance")
        )
        return bool(sizes or routes)

    def decision(self) -> Decision:
        """Return the plan."""
        reasons = "; ".join(self.reasons)
        if not (self._sizes or self._buckets or self._routes):
            return NoChange(reasons or "no source lags")
        return RescalePlan(reasons, tuple(self._sizes), tuple(self._buckets), tuple(self._routes))

    def _task(self, task: int) -> str:
        return self._snapshot.tasks.name[task]

    def _new_routes(self, layers: Sequence[Layer], grown: set[int]) -> list[Route]:
        """Return new shares for free exchanges whose present shares would overload an instance at the need."""
        edges, routes = self._snapshot.edges, []
        for layer in layers:
            total, flow = float(layer.flow.sum()), min(1.0, layer.whole)
            fits = total > 0 and np.all(layer.flow / total * flow <= layer.capacity * (1 + NOISE))
            if not layer.is_free or layer.task in grown or total <= 0 or fits:
                continue
            shares = tuple((distributed_flow(layer, flow) / flow).tolist())
            routes += [Route(int(edge), shares) for edge in np.flatnonzero(edges.consumer == layer.task)]
        return routes

    def _bucket_moves(self, layers: Sequence[Layer]) -> tuple[list[BucketMove], list[tuple[str, int]]]:
        """Return bucket moves that raise a keyed bottleneck to the need, or as far as possible; and hot keys."""
        moves: list[BucketMove] = []
        hot: list[tuple[str, int]] = []
        for layer in layers:
            if layer.is_free or layer.whole >= 1 or not self._snapshot.tasks.is_keyed[layer.task]:
                continue
            bucket_rows = self._buckets_of.rows(layer.task)
            levelling = level_buckets(self._snapshot, layer, bucket_rows, float(self._arriving_part[layer.task]))
            if levelling.heaviest > 0:
                # With so many instances the heaviest bucket has one for itself, and more bring nothing.
                self._useful[layer.task] = ceil(1 / levelling.heaviest - 1e-9)
            hot += [(self._task(layer.task), bucket) for bucket in levelling.hot]
            # Moves that do not reach the need are not made where instances are added anyway: owners change with them.
            is_all = len(layer.instances) >= self._useful.get(layer.task, len(layer.instances) + 1)
            if levelling.whole >= 1 - 1e-9 or (is_all and levelling.whole > layer.whole * (1 + NOISE)):
                moves += levelling.moves
        return moves, hot

    def _new_sizes(self, short: Sequence[Layer], hot: set[str]) -> list[TaskSize]:
        sizes = []
        for layer in short:
            task, count = layer.task, len(layer.instances)
            if self._task(task) in hot:
                continue
            per_instance = layer.whole / count
            target = ceil(1.0 / per_instance - 1e-9) if self._policy.jump and per_instance > 0 else count + 1
            groups = int(self._snapshot.tasks.key_groups[task])
            target = min(target, groups) if self._snapshot.tasks.is_keyed[task] else target
            target = min(target, self._useful.get(task, target))
            added = target - count if self._free_instances is None else min(target - count, self._free_instances)
            if added > 0:
                self._free_instances = None if self._free_instances is None else self._free_instances - added
                sizes.append(TaskSize(task, count + added))
        return sizes


def _free_cores(snapshot: ClusterSnapshot) -> int | None:
    cpu = snapshot.machines.cpu_percent
    if cpu is None or np.isnan(cpu).any():
        return None
    return int(np.maximum(snapshot.machines.cores - cpu / 100.0, 0.0).sum())


def _needs(snapshot: ClusterSnapshot, drain_s: float, action_s: float) -> tuple[Floats, str]:
    """Return the rate (rows/s) that must enter every task, and the name of a figure that is missing.

    Of a source: the offered rate, plus the backlog and the input during an action, spread over ``drain_s``.
    """
    rates = task_rates(snapshot)
    targets = source_targets(snapshot)
    backlog = _backlog(snapshot)
    if backlog is not None:
        reader = snapshot.instances.task[snapshot.partitions.instance]
        targets = targets * (1 + action_s / drain_s) + sum_by(reader, backlog, len(targets)) / drain_s
    ratios = output_ratios(snapshot, rates.rate_in)
    needs = propagate(targets, ratios, snapshot.edges.producer, snapshot.edges.consumer)
    unknown = np.flatnonzero(np.isnan(needs))
    if not len(unknown):
        return needs, ""
    task = int(unknown[0])
    owner = snapshot.applications.name[snapshot.tasks.application[task]]
    return needs, f"what must enter task {snapshot.tasks.name[task]!r} of {owner!r}"


def _backlog(snapshot: ClusterSnapshot) -> Floats | None:
    ends, positions = snapshot.partitions.end_offset, snapshot.partitions.position
    return None if ends is None or positions is None else np.maximum(ends - positions, 0.0)


def _lags(snapshot: ClusterSnapshot) -> Floats | None:
    """Return each application's lag in seconds of its input: that of its most lagging partition (eq 1's source).

    A source may feed several applications; each of them may be what holds it up.
    """
    backlog, appended = _backlog(snapshot), snapshot.partitions.appended
    if backlog is None or appended is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.where(backlog > 0, backlog / (appended / snapshot.window_s), 0.0)
    by_task, lags = np.zeros(len(snapshot.tasks)), np.zeros(len(snapshot.applications))
    np.maximum.at(by_task, snapshot.instances.task[snapshot.partitions.instance], seconds)
    producer, consumer = snapshot.edges.producer, snapshot.edges.consumer
    for edges in task_levels(len(by_task), producer, consumer)[1]:
        np.maximum.at(by_task, consumer[edges], by_task[producer[edges]])
    np.maximum.at(lags, snapshot.tasks.application, by_task)
    return lags


class _Network:
    """Splits a snapshot into the layers of each application; sorted once, as there may be thousands."""

    def __init__(self, snapshot: ClusterSnapshot, limits: Floats, needs: Floats) -> None:
        instances, edges, tasks = snapshot.instances, snapshot.edges, len(snapshot.tasks)
        self._limits, self._needs = limits, needs
        self._flow = np.nan_to_num(or_nan(instances.records_in, len(limits))) / snapshot.window_s
        self._instances = RowGroups(instances.task, tasks)
        self._tasks = RowGroups(snapshot.tasks.application, len(snapshot.applications))
        fixed = np.bincount(edges.consumer, ~edges.is_free, tasks)
        self._is_free = (fixed == 0) & (np.bincount(edges.consumer, minlength=tasks) > 0)

    def layers(self, application: int) -> list[Layer]:
        """Return an application's network; an instance without figures takes the mean of the others."""
        layers = []
        for task in self._tasks.rows(application).tolist():
            rows, need = self._instances.rows(task), self._needs[task]
            limits = self._limits[rows]
            finite = limits[~np.isnan(limits)]
            if need > 0 and len(finite):
                most = np.where(np.isnan(limits), finite.mean(), limits) / need
                layers.append(Layer(task, rows, most, self._flow[rows] / need, bool(self._is_free[task])))
        return layers


def _from_network(snapshot: ClusterSnapshot) -> Floats:
    """Return equations 9 and 10 for every instance; where links or row sizes are unknown, infinite."""
    machines, edges = snapshot.machines, snapshot.edges
    limit = or_nan(machines.network_limit_bytes, len(machines))
    parts = (machines.network_other_bytes, machines.network_heartbeat_bytes, machines.network_checkpoint_bytes)
    used = [np.nan_to_num(or_nan(part, len(machines))) for part in parts]
    other, heartbeat, checkpoint = (part / snapshot.window_s / MIB for part in used)
    available = available_bandwidth(limit / MIB, other, heartbeat, checkpoint)
    row_bytes = np.full(len(snapshot.tasks), np.nan)
    if edges.row_bytes is not None:
        np.fmax.at(row_bytes, edges.consumer, edges.row_bytes)
    of = snapshot.instances
    capacity = network_capacity(available[of.machine], row_bytes[of.task])
    return np.where(np.isnan(capacity), np.inf, capacity)
