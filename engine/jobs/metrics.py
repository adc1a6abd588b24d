"""Metrics of a job: a frozen snapshot of rates, times, watermarks and rows."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import zip_longest
from typing import Any

from penstock.engine.checkpoint.metrics import CheckpointMetrics
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.exchange import Rebalance
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.jobs.bad_records import BadRecordsLine
from penstock.engine.jobs.ledger import Ledger, add_ledgers, operator_order, ordered_ledger, read_ledger
from penstock.engine.moves.move_orders import MoveTotals
from penstock.engine.moves.under_way import ChangeUnderWay
from penstock.engine.plan.free_edges import free_edges
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.recent_decision import RecentDecision
from penstock.model.scaling_status import ScalingStatus
from penstock.model.shedding_status import SheddingStatus
from penstock.state.store import Accesses, StateStore


@dataclass(frozen=True, slots=True)
class InstanceMetrics:
    """One task instance: where its time went and how far it is in event time (None: not known).

    ``task_manager`` is where it runs (None: in the one process of the job), ``key_groups`` how many it has there (None:
    it has no state that lies by key).
    """

    task: str
    instance: int
    time: TimeSpent
    watermark_us: int | None
    waiting_bytes: int
    task_manager: str | None = None
    key_groups: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The number of messages of a partition that are known to be there and were not read yet."""

    partition: str
    messages: int


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """One source, all instances together: rows read, and how far it is in event time (None: not known).

    ``lag_us`` is how far its watermark is behind the wall clock; negative if it is ahead. ``partitions``: how much of
    each waits to be read, of those that know it, such as the partitions of a topic. ``begun``: False if an instance
    that has not ended knows no watermark yet, for then the source has none.
    """

    source: str
    rows: int
    watermark_us: int | None
    lag_us: int | None
    partitions: tuple[PartitionLag, ...] = ()
    begun: bool = True

    @property
    def lag_messages(self) -> int | None:
        """The number of messages that wait in all partitions that know it; None: none does."""
        return sum(item.messages for item in self.partitions) if self.partitions else None


@dataclass(frozen=True, slots=True)
class StateMetrics:
    """The state of one operator, all instances together; ``accesses`` None: it is all in memory."""

    operator: str
    bytes: int
    accesses: Accesses | None


@dataclass(frozen=True, slots=True)
class RouteMetrics:
    """Rows from one operator to another that may go to any instance of it: how many went to each since the start.

    ``shares`` are those that the instances are to get; (): rows go in turns.
    """

    producer: str
    consumer: str
    shares: tuple[float, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class JobMetrics:
    """A job at one moment; ``elapsed_ns`` since it started, or restarted, ``source_rows`` read by all
    sources, ``state_bytes`` over all operators; ``checkpoints`` None: the job takes none. ``loop_age_ns`` is how long
    ago the loop began its last step; None: it does not run. ``bad_records`` are those since the job was started, over
    restarts, by operator. ``shedding``: the last decision on keep rates, ``scaling`` that on sizes, ``moves`` all moves
    of key groups that have ended; None: there was none. ``decisions`` are the last few that wanted something done, the
    oldest first. ``change`` is the change of places that is under way; None: there is none. ``routes`` are the edges
    whose rows may go to any instance.
    """

    name: str
    elapsed_ns: int
    source_rows: int
    ledger: Ledger
    instances: tuple[InstanceMetrics, ...]
    state_bytes: int
    sources: tuple[SourceMetrics, ...] = ()
    states: tuple[StateMetrics, ...] = ()
    checkpoints: CheckpointMetrics | None = None
    loop_age_ns: int | None = None
    bad_records: tuple[BadRecordsLine, ...] = ()
    shedding: SheddingStatus | None = None
    scaling: ScalingStatus | None = None
    decisions: tuple[RecentDecision, ...] = ()
    moves: MoveTotals | None = None
    change: ChangeUnderWay | None = None
    routes: tuple[RouteMetrics, ...] = ()

    def __repr__(self) -> str:
        seconds = self.elapsed_ns / 1e9
        bad = "".join(f"; {line.sentence()}" for line in self.bad_records)
        did = f"{self.source_rows:,} source rows in {seconds:.2f} s{bad}"
        return f"<JobMetrics {self.name}: {did}; as_dict() has the rest>"

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        return asdict(self)


def no_metrics(name: str) -> JobMetrics:
    """Return the metrics of a job that has not begun."""
    return JobMetrics(name, 0, 0, Ledger((), ()), (), 0)


def read_metrics(
    name: str, build: Build, started_ns: int, now_ns: int, wall_us: int, stepped_ns: int | None = None
) -> JobMetrics:
    """Read all counters of a job at a moment: ``now_ns`` by the monotonic clock, ``wall_us`` by that on the wall.

    ``stepped_ns`` is when the loop began its last step (None: it does not run), never after ``now_ns``.
    """
    states = tuple(_state(build.graph.node(operator).name, stores) for operator, stores in build.stores.items())
    return JobMetrics(
        name=name,
        elapsed_ns=now_ns - started_ns,
        source_rows=sum(head.counters.rows_in for head in build.heads()),
        ledger=read_ledger(build),
        instances=tuple(_instance(instance, now_ns) for instance in build.instances),
        state_bytes=sum(state.bytes for state in states),
        sources=tuple(_sources(build, wall_us)),
        states=tuple(state for state in states if state.bytes or state.accesses is not None),
        loop_age_ns=None if stepped_ns is None else now_ns - stepped_ns,
        routes=tuple(_route(build, edge) for edge in free_edges(build.graph) if edge in build.senders),
    )


def merge_metrics(name: str, graph: ExecutionGraph, parts: Sequence[JobMetrics]) -> JobMetrics:
    """Return the metrics of a job whose instances are in several places, of what was read in each at about one time.

    Everything is in the order of one place's metrics. Checkpoints and bad records are left out: only whoever leads the
    job knows them, since what rejected nothing in one place counts in the share of another.
    """
    tasks = {graph.name(task): number for number, task in enumerate(graph.tasks)}
    operators = {operator: number for number, operator in enumerate(operator_order(graph))}
    sources: dict[str, list[SourceMetrics]] = {}
    states: dict[str, list[StateMetrics]] = {}
    for part in parts:
        for source in part.sources:
            sources.setdefault(source.source, []).append(source)
        for state in part.states:
            states.setdefault(state.operator, []).append(state)
    instances = [instance for part in parts for instance in part.instances]
    return JobMetrics(
        name=name,
        elapsed_ns=max((part.elapsed_ns for part in parts), default=0),
        source_rows=sum(part.source_rows for part in parts),
        ledger=ordered_ledger(add_ledgers(part.ledger for part in parts), graph),
        instances=tuple(sorted(instances, key=lambda instance: (tasks[instance.task], instance.instance))),
        state_bytes=sum(part.state_bytes for part in parts),
        sources=tuple(_merged_source(source, sources[source]) for source in sorted(sources, key=operators.__getitem__)),
        states=tuple(_merged_state(state, states[state]) for state in sorted(states, key=operators.__getitem__)),
        loop_age_ns=max((part.loop_age_ns for part in parts if part.loop_age_ns is not None), default=None),
        routes=tuple(_merged_routes(parts)),
    )


def _route(build: Build, edge: Edge) -> RouteMetrics:
    graph = build.graph
    consumer = graph.node(edge.consumer).name
    halves = build.senders[edge]
    # Those that were dismissed have got some, too.
    rows = [0] * max([graph.task_of(edge.consumer).parallelism, *(receiver + 1 for _, receiver in halves)])
    for (_, receiver), half in halves.items():
        rows[receiver] += half.sent_rows
    outputs = build.outputs.get(edge, {}).values()
    shares = next((output.shares for output in outputs if isinstance(output, Rebalance)), ())
    return RouteMetrics(graph.node(edge.producer).name, consumer, shares, tuple(rows))


def _merged_routes(parts: Iterable[JobMetrics]) -> Iterable[RouteMetrics]:
    merged: dict[tuple[str, str], RouteMetrics] = {}
    for route in (route for part in parts for route in part.routes):
        pair = route.producer, route.consumer
        known = merged.get(pair)
        if known is not None:
            rows = tuple(one + other for one, other in zip_longest(known.rows, route.rows, fillvalue=0))
            route = replace(known, shares=known.shares or route.shares, rows=rows)
        merged[pair] = route
    return merged.values()


def _merged_source(source: str, parts: Sequence[SourceMetrics]) -> SourceMetrics:
    begun = all(part.begun for part in parts)
    rows = sum(part.rows for part in parts)
    partitions = sorted((lag for part in parts for lag in part.partitions), key=astuple)
    watermark_us = lag_us = None
    if begun:
        watermark_us = min((part.watermark_us for part in parts if part.watermark_us is not None), default=None)
        lag_us = max((part.lag_us for part in parts if part.lag_us is not None), default=None)
    return SourceMetrics(source, rows, watermark_us, lag_us, tuple(partitions), begun)


def _merged_state(operator: str, parts: Sequence[StateMetrics]) -> StateMetrics:
    return StateMetrics(operator, sum(part.bytes for part in parts), _added(part.accesses for part in parts))


def _instance(instance: Instance, now_ns: int) -> InstanceMetrics:
    watermark_us = None
    waiting = 0
    if instance.gate is not None:
        watermark_us = instance.gate.watermark_us
        waiting = instance.gate.waiting_bytes
    elif instance.head is not None:
        watermark_us = instance.head.watermark_us
    spent = instance.accounting.spent(now_ns)
    return InstanceMetrics(instance.task, instance.index, spent, _finite_us(watermark_us), waiting)


def _sources(build: Build, wall_us: int) -> Iterable[SourceMetrics]:
    heads: dict[str, list[SourceHead]] = {}
    for head in build.heads():
        heads.setdefault(head.name, []).append(head)
    for name, own in heads.items():
        # Those at their end hold nothing back.
        times = [head.watermark_us for head in own if not head.ended]
        watermark_us = _finite_us(min(times, default=None))
        lag_us = None if watermark_us is None else wall_us - watermark_us
        waiting = sorted(item for head in own for item in head.behind().items())
        lags = tuple(PartitionLag(partition, messages) for partition, messages in waiting)
        begun = START_OF_TIME_US not in times
        yield SourceMetrics(name, sum(head.counters.rows_in for head in own), watermark_us, lag_us, lags, begun)


def _state(operator: str, stores: list[StateStore]) -> StateMetrics:
    accesses = _added(store.accesses() for store in stores)
    return StateMetrics(operator, sum(store.bytes_used() for store in stores), accesses)


def _added(accesses: Iterable[Accesses | None]) -> Accesses | None:
    counted = [counts for counts in accesses if counts is not None]
    if not counted:
        return None
    count, hits = sum(item.count for item in counted), sum(item.hits for item in counted)
    waited_ns, stalled_ns = (sum(getattr(each, name) for each in counted) for name in ("waited_ns", "stalled_ns"))
    return Accesses(count, hits, waited_ns, stalled_ns)


def _finite_us(watermark_us: int | None) -> int | None:
    return None if watermark_us in (START_OF_TIME_US, END_OF_TIME_US) else watermark_us
