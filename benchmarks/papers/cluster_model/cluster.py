"""The simulated cluster: what it is made of, and how it goes on in time (docs/design/simulated-cluster.md).

`loop.run` lets it advance, hands its snapshots to policies and their decisions to `actions`. Seconds are simulated.
"""

from typing import TYPE_CHECKING

import numpy as np

from penstock.benchmarks.papers.cluster_model.costs import figures_of
from penstock.benchmarks.papers.cluster_model.flows import Cores, Costs, Pipes, RowStores, StepFlows
from penstock.benchmarks.papers.cluster_model.keyed_state import AccessCosts, KeyedState
from penstock.benchmarks.papers.cluster_model.layouts import first_layout
from penstock.benchmarks.papers.cluster_model.links import Links
from penstock.benchmarks.papers.cluster_model.log import Log
from penstock.benchmarks.papers.cluster_model.services import Services
from penstock.benchmarks.papers.cluster_model.slow import ApplicationFigures, EdgeFigures, look_again, slow_tick
from penstock.benchmarks.papers.cluster_model.spec import ClusterSpec
from penstock.benchmarks.papers.cluster_model.step import step
from penstock.benchmarks.papers.cluster_model.tallies import columns_of, tally
from penstock.benchmarks.papers.cluster_model.topology import Indices, Layout, edge_shares, graph_of, topology_of
from penstock.benchmarks.papers.cluster_model.totals import no_totals
from penstock.model.columns import Bools, Floats

if TYPE_CHECKING:
    from penstock.benchmarks.papers.cluster_model.actions import InFlight

SLOW_S = 1.0
"""Interval at which costs, state, heap and services are computed again, if steps are not longer."""
STEADY_RATE = 0.2
STEADY_FILL = 0.05
"""Rates and inputs that change by less than these parts from one step to the next let steps grow."""


class Cluster:
    """A cluster at ``time_s``. Everything random comes from ``seed``.

    Steps take ``step_s``, and grow up to ``step_most_s`` while nothing changes. ``moments`` are times at which steps
    end (whoever waits for one adds it).
    """

    def __init__(
        self, spec: ClusterSpec, seed: int = 0, step_s: float = 0.25, step_most_s: float | None = None
    ) -> None:
        """Start at 0 s with empty queues."""
        self.spec, self.seed = spec, seed
        self.step_s, self.step_most_s = step_s, step_s if step_most_s is None else step_most_s
        self.graph = graph_of(spec)
        self.figures = figures_of(spec)
        seeds = np.random.SeedSequence(seed).spawn(4)
        self.arrivals, self.drops, self.answers, self.reporting = (np.random.default_rng(item) for item in seeds)
        self.time_s = 0.0
        self.layout: Layout = first_layout(spec, seed)
        self.log = Log(spec)
        self.services = Services(tuple(spec.services))
        self.links = Links(tuple(spec.machines))
        self.states = {
            task: KeyedState(item.state, self.layout.bucket_shares[task], item.most_parallelism)
            for task, item in enumerate(spec.tasks)
            if item.state is not None
        }
        self.buckets = np.cumsum([0] + [item.key_groups if item.is_keyed else 0 for item in spec.tasks])
        self.totals = no_totals(
            slots=self.graph.slots,
            inputs=self.graph.input_slots,
            outputs=self.graph.output_slots,
            machines=len(spec.machines),
            applications=len(spec.applications),
            services=len(spec.services),
            partitions=len(self.log.share),
            buckets=int(self.buckets[-1]),
        )
        self.source_keep = np.ones(len(spec.tasks))
        self.edge_keep = np.ones(len(spec.edges))
        self.level = np.array([item.initial_level for item in spec.tasks], np.int64)
        self.managed = np.array([item.initial_managed_bytes for item in spec.tasks], np.float64)
        # No number is given of what has no limit.
        given = columns_of(spec.applications, ("cores", "memory_bytes", "heap_bytes"))
        self.cores, self.memory, self.heap = (np.where(np.isnan(column), np.inf, column) for column in given.values())
        self.committed = np.zeros(len(spec.applications))
        self.live = np.array([item.live_base_bytes for item in spec.applications])
        self.resident = np.zeros(len(spec.applications))
        self.down_until = np.array([item.starts_s for item in spec.applications])
        self.started = np.zeros(self.graph.slots)
        self.touched = np.zeros(self.graph.slots)
        for task, application in enumerate(self.graph.application):
            first = self.graph.task_slot[task]
            self.started[first : first + spec.tasks[task].most_parallelism] = spec.applications[application].starts_s
        self.paused = np.zeros(self.graph.slots, np.bool_)
        self.rate = np.zeros(self.graph.slots)
        self.consumed = np.zeros(self.graph.input_slots)
        self.moments: list[float] = []
        self.in_flight: list[InFlight] = []
        self.edges = EdgeFigures(**columns_of(spec.edges, EdgeFigures.__slots__))
        self.applications = ApplicationFigures(**columns_of(spec.applications, ApplicationFigures.__slots__))
        threads = np.ceil([machine.cores for machine in spec.machines]).astype(np.int64)
        self._machine_cores = np.array([machine.cores for machine in spec.machines], np.float64)
        self._threads, self._thread_machine = threads, np.repeat(np.arange(len(threads)), threads)
        self._leaves_s = np.array([machine.leaves_s for machine in spec.machines])
        self._starts_s = np.array([item.starts_s for item in spec.applications])
        self._steady = 0
        self.slow_since_s = 0.0
        self._before: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))
        self.saved_s = np.zeros(len(spec.applications))
        self.row_bytes = self.edges.row_bytes
        self.checkpoint_rate = np.zeros(len(spec.machines))
        self.access: dict[int, AccessCosts] = {}
        self.costs: Costs
        self.join(np.zeros(self.graph.input_slots), np.zeros((2, self.graph.slots)))

    def join(self, queued: Floats, kept: Floats) -> None:
        """Make the arrays of the layout anew; by slot what waits in inputs, in windows, and for room."""
        self.top = topology_of(self.spec, self.graph, self.layout)
        self.links.join(self.top)
        top = self.top
        self.stores = RowStores(
            queue=queued[top.input_slot],
            flying=np.zeros(len(top.input_edge)),
            held=kept[0][top.slot],
            pending=kept[1][top.slot],
            lag=np.zeros(top.count),
            in_rate=np.zeros(len(top.input_edge)),
            room_rate=np.full(top.count, np.inf),
        )
        self.reader = self.log.readers(self.parallelism, top.first)
        self.capacity = self.figures.queue_rows[self.graph.consumer[top.input_edge]]
        self._delay_s = self.edges.delay_s[top.input_edge] if self.edges.delay_s.any() else None
        self._sent = np.zeros(len(self.spec.edges))
        self._wanted = np.zeros(len(self.spec.edges))
        self.lately = np.zeros(top.count)
        self._steady = 0
        look_again(self)

    @property
    def parallelism(self) -> Indices:
        """Instances of each task."""
        return np.array([len(machines) for machines in self.layout.machines], np.int64)

    def shares_to_come(self) -> list[Floats]:
        """Return by edge how the layout shares its rows out among the consumer's instances."""
        return [edge_shares(self.spec, self.graph, self.layout, edge) for edge in range(len(self.spec.edges))]

    def running(self) -> Bools:
        """Return which instances run: their machine is there, their application is up, no action pauses them."""
        top = self.top
        up = self.down_until[top.application] <= self.time_s + 1e-9
        is_there = (top.machine >= 0) & (self._leaves_s[top.machine] > self.time_s + 1e-9)
        return up & is_there & ~self.paused[top.slot]

    def advance(self, until_s: float) -> None:
        """Go on to ``until_s``."""
        while self.time_s < until_s - 1e-9:
            dt = self._next_step(until_s)
            self._step(dt)
            self.time_s = until_s if until_s - self.time_s - dt < 1e-9 else self.time_s + dt
            if self.time_s - self.slow_since_s >= SLOW_S - 1e-9:
                slow_tick(self)

    def _next_step(self, until_s: float) -> float:
        dt = min(self.step_most_s, self.step_s * 2.0 ** min(self._steady, 20))
        ends = [moment for moment in (*self.moments, *self.down_until) if moment > self.time_s + 1e-9]
        return min(dt, until_s - self.time_s, min(ends, default=np.inf) - self.time_s)

    def _step(self, dt: float) -> None:
        top, at_s = self.top, self.time_s + dt / 2
        is_open = self._starts_s[self.graph.application[self.log.task]] <= self.time_s + 1e-9
        self.log.append(self.log.rates(at_s), dt, is_open, self.arrivals)
        self.stores.lag = tally(self.reader, self.log.lag, top.count)
        queued = tally(top.input_instance, self.stores.queue, top.count)
        window = self.figures.window_s[top.task]
        # Shorter windows than a step are none.
        windowed = window >= dt
        length = np.maximum(window, dt)
        pipes = Pipes(
            selectivity=self.edges.selectivity,
            keep=self.edge_keep,
            delay_s=self._delay_s,
            capacity=self.capacity,
            source_keep=np.where(self.graph.is_source[top.task], self.source_keep[top.task], 1.0),
            link_rows=self.links.room(self._wanted, self.row_bytes, self.checkpoint_rate, dt),
            is_windowed=windowed if windowed.any() else None,
            fires=windowed & (np.floor((self.time_s + dt) / length) > np.floor(self.time_s / length)),
        )
        foreign = np.array([item.foreign_cores(at_s) for item in self.spec.machines]) / self._threads
        given = self.cores if np.isfinite(self.cores).any() else None
        cores = Cores(self._machine_cores, foreign[self._thread_machine], self._thread_machine, given)
        moved = step(top, self.stores, self.costs, pipes, cores, self.running(), dt, self.drops)
        self.log.read(np.where(self.graph.is_source[top.task], moved.taken, 0.0), self.reader)
        self.log.sample_lag(self.time_s + dt)
        self._sent = moved.sent / dt
        self._wanted = moved.wanted / dt
        self.lately += moved.kept
        self._count(moved, queued, dt)
        self._steady = self._steady + 1 if self._is_steady(moved.taken / dt) else 0

    def _is_steady(self, rate: Floats) -> bool:
        """Return whether rates and inputs are much as they were after the step before."""
        fill = self.stores.queue / self.capacity
        before, self._before = self._before, (rate, fill)
        if self.moments or len(before[0]) != len(rate):
            return False
        calm = np.abs(rate - before[0]).sum() <= STEADY_RATE * (rate.sum() + 1e-9)
        return bool(calm) and np.abs(fill - before[1]).max(initial=0.0) <= STEADY_FILL

    def _count(self, flows: StepFlows, queued: Floats, dt: float) -> None:
        totals, top = self.totals, self.top
        slot = top.slot
        totals.records_in[slot] += flows.kept
        totals.busy_s[slot] += flows.busy
        totals.remote_s[slot] += flows.remote
        totals.core_wait_s[slot] += flows.core_wait
        totals.input_wait_s[slot] += flows.input_wait
        totals.output_wait_s[slot] += flows.output_wait
        totals.cpu_s[slot] += flows.cpu
        totals.stall_s[slot] += flows.stall
        waiting = tally(top.input_instance, self.stores.queue, top.count)
        totals.queue_rows_s[slot] += (queued + waiting) / 2 * dt
        if len(top.input_slot):
            produced = tally(top.output_edge, flows.produced, len(self.spec.edges))
            totals.offered[top.input_slot] += produced[top.input_edge] * top.input_share
            self.consumed[top.input_slot] += flows.consumed
            totals.records_out[top.output_slot] += flows.produced
            totals.dropped[top.output_slot] += flows.dropped
            carried = self.links.carried(self._sent * dt, self.row_bytes)
            totals.network_data_bytes += carried
        own = tally(np.maximum(top.machine, 0), flows.cpu, len(self.spec.machines))
        totals.machine_cpu_s += own + flows.foreign
        totals.network_checkpoint_bytes += self.checkpoint_rate * dt
        totals.application_cpu_s += tally(top.application, flows.cpu, len(self.cores))
        totals.throttled_s += tally(top.application, flows.throttled, len(self.cores))
        totals.end_offset[:] = self.log.end_offset
        totals.fetched[:] = self.log.fetched
