"""From a decision to what the platform does about it, and how long that takes (docs/design/simulated-cluster.md 5).

The loop hands decisions in with the snapshot they were made on; what they change takes effect when the action ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.layouts import owners_for, roomiest
from penstock.benchmarks.papers.cluster_model.restores import Restore, restore_of
from penstock.benchmarks.papers.cluster_model.slow import look_again
from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.benchmarks.papers.cluster_model.topology import Indices, Layout
from penstock.model.columns import Floats
from penstock.model.memory_levels import managed_bytes
from penstock.model.plan import Decision, Move, NoChange, Placement, RescalePlan, ShedPlan
from penstock.model.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The outcome of a decision: ``result`` is done, begun, nothing, refused or capped; why, if it says so.

    ``duration_s``, ``pause_s``, ``bytes`` and ``accesses`` are those of the action that it began.
    """

    result: str
    why: str = ""
    duration_s: float = 0.0
    pause_s: float = 0.0
    bytes: float = 0.0
    accesses: float = 0.0


@dataclass(slots=True)
class LayoutChange:
    """A change under way: the layout of ``tasks``, routes, memory, what applications are given.

    ``moved``: slots of instances that begin somewhere else; ``capped``: what could not be had.
    """

    layout: Layout
    levels: dict[int, int] = field(default_factory=dict)
    managed: dict[int, float] = field(default_factory=dict)
    cores: dict[int, float] = field(default_factory=dict)
    memory: dict[int, float] = field(default_factory=dict)
    heap: dict[int, float] = field(default_factory=dict)
    routes: dict[int, Floats | None] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)
    tasks: set[int] = field(default_factory=set)
    capped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InFlight:
    """An action: it pauses from ``pauses_s`` and takes effect at ``ends_s``."""

    change: LayoutChange
    applications: frozenset[int]
    restore: Restore
    pauses_s: float
    ends_s: float


class Platform:
    """Carries out decisions on a cluster; one action at a time for each application."""

    def __init__(self, cluster: Cluster) -> None:
        """Take over what is in flight."""
        self.cluster = cluster

    def apply(self, decision: Decision, snapshot: ClusterSnapshot) -> ActionOutcome:
        """Begin what a decision says of the cluster in ``snapshot``."""
        if isinstance(decision, NoChange):
            return ActionOutcome("nothing", decision.reason)
        change = LayoutChange(_copied(self.cluster.layout))
        if isinstance(decision, ShedPlan):
            self._shed(decision)
            if not decision.moves:
                return ActionOutcome("done")
            self._move(change, decision.moves, snapshot)
        elif isinstance(decision, Placement):
            self._move(change, decision.moves, snapshot)
        else:
            self._rescale(change, decision)
        return self._begin(change)

    def turn(self) -> None:
        """Pause and end what is due."""
        cluster = self.cluster
        for action in list(cluster.in_flight):
            if action.pauses_s <= cluster.time_s + 1e-9 < action.ends_s:
                cluster.paused[action.restore.restarted] = True
            if action.ends_s <= cluster.time_s + 1e-9:
                cluster.in_flight.remove(action)
                self._end(action)
        cluster.moments = sorted(
            at for action in cluster.in_flight for at in (action.pauses_s, action.ends_s) if at > cluster.time_s + 1e-9
        )

    def _shed(self, plan: ShedPlan) -> None:
        cluster = self.cluster
        cluster.source_keep = _by_number(plan.source_keep, len(cluster.spec.tasks))
        cluster.edge_keep = _by_number(plan.edge_keep, len(cluster.spec.edges))
        look_again(cluster)

    def _move(self, change: LayoutChange, moves: Sequence[Move], snapshot: ClusterSnapshot) -> None:
        for move in moves:
            task, number = int(snapshot.instances.task[move.instance]), int(snapshot.instances.number[move.instance])
            if number >= len(change.layout.machines[task]):
                change.capped.append(f"instance {number} of task {task} is gone")
                continue
            if change.layout.machines[task][number] != move.machine:
                change.layout.machines[task][number] = move.machine
                change.moved.add(int(self.cluster.graph.task_slot[task]) + number)
                change.tasks.add(task)

    def _rescale(self, change: LayoutChange, plan: RescalePlan) -> None:
        sizes = {size.task: size.parallelism for size in plan.tasks}
        for given in plan.applications:
            if given.threads is not None:
                sizes |= self._spread(given.application, given.threads)
            for values, value in ((change.cores, given.cores), (change.memory, given.memory_bytes)):
                if value is not None:
                    values[given.application] = value
            if given.heap_bytes is not None:
                change.heap[given.application] = given.heap_bytes
        for task, parallelism in sizes.items():
            self._resize(change, task, parallelism)
        for size in plan.tasks:
            self._remember(change, size.task, size.memory_level, size.managed_bytes)
        for bucket in plan.buckets:
            change.layout.owners[bucket.task] = change.layout.owners[bucket.task].copy()
            change.layout.owners[bucket.task][bucket.bucket] = bucket.number
            change.tasks.add(bucket.task)
        for route in plan.routes:
            change.routes[route.edge] = np.array(route.shares, np.float64)

    def _spread(self, application: int, threads: int) -> Mapping[int, int]:
        """Return parallelisms of an application's tasks that keep their proportions, with so many threads in all."""
        tasks = np.flatnonzero(self.cluster.graph.application == application)
        now = self.cluster.parallelism[tasks]
        scaled = np.maximum(1, np.floor(now * threads / now.sum())).astype(int)
        for task in np.argsort(-(now * threads / now.sum() - scaled), kind="stable"):
            if scaled.sum() < threads:
                scaled[task] += 1
        return dict(zip(tasks.tolist(), scaled.tolist(), strict=True))

    def _resize(self, change: LayoutChange, task: int, parallelism: int) -> None:
        cluster, spec = self.cluster, self.cluster.spec.tasks[task]
        most = min(spec.most_parallelism, spec.key_groups) if spec.is_keyed else spec.most_parallelism
        if parallelism > most:
            change.capped.append(f"{spec.name} has at most {most} instances, not {parallelism}")
        after, machines = max(1, min(parallelism, most)), change.layout.machines[task]
        before = len(machines)
        if after == before:
            return
        change.tasks.add(task)
        del machines[after:]
        for number in range(before, after):
            placed = cluster.spec.actions.places == "spread"
            machines.append(roomiest(cluster.spec, change.layout, cluster.time_s) if placed else -1)
            change.moved.add(int(cluster.graph.task_slot[task]) + number)
        if spec.is_keyed:
            how = cluster.spec.actions.owners
            change.layout.owners[task] = owners_for(how, change.layout.owners[task], before, after)
        for edge in np.flatnonzero(cluster.graph.consumer == task):
            change.routes[int(edge)] = None

    def _remember(self, change: LayoutChange, task: int, level: int | None, managed: int | None) -> None:
        if level is not None and level != self.cluster.level[task]:
            change.levels[task] = level
            change.managed[task] = 0.0 if level < 0 else float(managed_bytes(level))
            change.tasks.add(task)
        if managed is not None and managed != self.cluster.managed[task]:
            change.managed[task] = float(managed)
            change.tasks.add(task)

    def _begin(self, change: LayoutChange) -> ActionOutcome:
        cluster, spec = self.cluster, self.cluster.spec.actions
        applications = {int(cluster.graph.application[task]) for task in change.tasks}
        given = set(change.cores) | set(change.memory) | set(change.heap)
        busy = {item for action in self.cluster.in_flight for item in action.applications}
        if busy & (applications | given):
            return ActionOutcome("refused", "an action is in flight")
        why = "; ".join(change.capped)
        if not applications and not given:
            self._reroute(change)
            self._join(np.zeros(0, np.int64))
            return ActionOutcome("capped" if why else "done", why)
        in_place = spec.is_resized_in_place and not applications
        restore = restore_of(cluster, change.layout, change.tasks, change.moved, set() if in_place else given)
        pause_s = 0.0 if in_place else (spec.pause_s if spec.scope == "live" else restore.duration_s)
        duration_s = spec.fixed_s if in_place else max(restore.duration_s, pause_s)
        ends_s = cluster.time_s + duration_s
        action = InFlight(change, frozenset(applications | given), restore, ends_s - pause_s, ends_s)
        self.cluster.in_flight.append(action)
        self.turn()
        return ActionOutcome("capped" if why else "begun", why, duration_s, pause_s, restore.bytes, restore.accesses)

    def _reroute(self, change: LayoutChange) -> None:
        routes = self.cluster.layout.routes | change.routes
        self.cluster.layout.routes = {edge: shares for edge, shares in routes.items() if shares is not None}

    def _end(self, action: InFlight) -> None:
        cluster, change = self.cluster, action.change
        for task in change.tasks:
            cluster.layout.machines[task] = change.layout.machines[task]
            if task in change.layout.owners:
                cluster.layout.owners[task] = change.layout.owners[task]
        self._reroute(change)
        cluster.level[list(change.levels)] = list(change.levels.values())
        for values, changed in (
            (cluster.managed, change.managed),
            (cluster.cores, change.cores),
            (cluster.memory, change.memory),
            (cluster.heap, change.heap),
        ):
            values[list(changed)] = list(changed.values())
        cluster.paused[action.restore.restarted] = False
        cluster.started[action.restore.restarted] = cluster.time_s
        cluster.touched[action.restore.restarted] = cluster.time_s
        for application in change.heap | change.memory:
            cluster.committed[application] = 0.0
        self._join(action.restore.restarted)

    def _join(self, cold: Indices) -> None:
        """Deal out anew what waits, and let the cluster go on with its layout; the caches of ``cold`` are empty."""
        cluster = self.cluster
        queued, kept = redealt(cluster)
        for task, state in cluster.states.items():
            first = cluster.graph.task_slot[task]
            mine = cold[(cold >= first) & (cold < first + cluster.spec.tasks[task].most_parallelism)]
            state.move(mine - first)
        cluster.join(queued, kept)


def redealt(cluster: Cluster) -> tuple[Floats, Floats]:
    """Return by slot what waits in inputs, in windows and for room, dealt out as the layout to come shares rows."""
    top, stores, graph, spec = cluster.top, cluster.stores, cluster.graph, cluster.spec
    queued = np.zeros(graph.input_slots)
    kept = np.zeros((2, graph.slots))
    shares = cluster.shares_to_come()
    rows = tally(top.input_edge, stores.queue + stores.flying, len(spec.edges))
    for edge in range(len(spec.edges)):
        first = graph.input_slot[edge]
        queued[first : first + len(shares[edge])] = rows[edge] * shares[edge]
    for index, held in enumerate((stores.held, stores.pending)):
        by_task = tally(top.task, held, len(spec.tasks))
        for task, total in enumerate(by_task):
            count = cluster.layout.parallelism(task)
            first = graph.task_slot[task]
            kept[index, first : first + count] = total / count
    return queued, kept


def _copied(layout: Layout) -> Layout:
    machines = [list(machines) for machines in layout.machines]
    return Layout(machines, dict(layout.owners), layout.bucket_shares, dict(layout.routes))


def _by_number(keep: Mapping[int, float], count: int) -> Floats:
    result = np.ones(count)
    result[list(keep)] = list(keep.values())
    return result
