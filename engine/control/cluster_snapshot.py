"""The metric contract filled from a job that runs in one process: two readings of its counters make a snapshot.

What is measured today: rows and times of instances and how long each has run, rows of edges, what waits, sizes and
budgets of state. None, as nobody measures it yet: CPU, latencies, drops, logs' offsets, heap, network. Whoever runs the
job says what its machine measured. Of an instance that was built anew between the readings no counts are known.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.wiring import Pair
from penstock.engine.operators.registry import descriptor_of
from penstock.model.columns import Bools, Floats, Ints
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import OperatorId
from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.model.memory_levels import NO_LEVEL, level_of
from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    EdgeColumns,
    InputColumns,
    InstanceColumns,
    MachineColumns,
    OutputColumns,
    QueryColumns,
    TaskColumns,
)

TaskRows = Mapping[OperatorId, int]
"""The row of each operator's task."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of a job at ``time_ns``, since it started; rows of the arrays are instances, in task order.

    ``records_in`` (of sources: rows read), ``spent_ns`` by activity, and of state ``hits``, ``misses`` and ``bytes``;
    by edge ``sent`` and ``waiting``: rows from each producer instance (rows) to each consumer instance (columns).
    ``key_groups`` by task; ``state_budget`` in bytes of each instance, NaN without a bound.
    """

    graph: ExecutionGraph = field(repr=False)
    time_ns: int
    is_running: Bools
    records_in: Floats
    spent_ns: Floats
    hits: Floats
    misses: Floats
    state_bytes: Floats
    sent: tuple[Floats, ...]
    waiting: tuple[Floats, ...]
    key_groups: Numbers
    state_budget: Floats

    @property
    def began_s(self) -> Floats:
        """The start of each instance, in seconds since the job's: times add up to the wall clock."""
        return np.asarray((self.time_ns - self.spent_ns.sum(axis=1)) / 1e9, np.float64)


def read_counters(build: Build, options: LoopOptions, started_ns: int, now_ns: int) -> Reading:
    """Read what a whole job has counted; may be called from any thread, then counters may be a batch apart."""
    graph = build.graph
    running, records, spent, hits, misses, held = [], [], [], [], [], []
    groups, budgets = [], []
    for task in graph.tasks:
        is_stateful = _is_stateful(graph, task)
        stateful = sum(descriptor_of(graph.node(operator).spec).keyed for operator in task.operators)
        # As the builder deals them out: never fewer than instances.
        groups.append(max(options.key_groups, task.parallelism))
        budget = np.nan if options.state_bytes is None or not is_stateful else float(stateful * options.state_bytes)
        budgets += [budget] * task.parallelism
        for instance in build.tasks[task.id]:
            running.append(not instance.done)
            records.append(build.counters[task.head][instance.index].rows_in)
            spent.append(astuple(instance.accounting.spent(now_ns)))
            stores = [build.stores[operator][instance.index] for operator in task.operators if operator in build.stores]
            accesses = [count for store in stores if (count := store.accesses()) is not None]
            hits.append(float(sum(item.hits for item in accesses)) if accesses else np.nan)
            misses.append(float(sum(item.count - item.hits for item in accesses)) if accesses else np.nan)
            held.append(sum(store.bytes_used() for store in stores) if is_stateful else np.nan)
    edges = _edges(graph)
    return Reading(
        graph,
        now_ns - started_ns,
        np.array(running, np.bool_),
        np.array(records, np.float64),
        np.array(spent, np.float64).reshape(-1, len(Activity)),
        np.array(hits, np.float64),
        np.array(misses, np.float64),
        np.array(held, np.float64),
        tuple(
            _matrix(graph, edge, {pair: half.sent_rows for pair, half in build.senders[edge].items()}) for edge in edges
        ),
        tuple(
            _matrix(graph, edge, {pair: half.waiting_rows for pair, half in build.receivers[edge].items()})
            for edge in edges
        ),
        np.array(groups, np.int64),
        np.array(budgets, np.float64),
    )


def cluster_snapshot(
    name: str,
    number: int,
    before: Reading | None,
    after: Reading,
    machines: MachineColumns,
    here: str | None = None,
) -> ClusterSnapshot:
    """Return what a job counted between two readings (None: since it started).

    ``here``: which of the machines it runs on; None where there is one.

    Raises:
        ValueError: the later reading is not later, or it is not said on which of several machines the job runs.
    """
    if here is None and len(machines) != 1:
        raise ValueError(f"say on which machine the job runs: {', '.join(machines.name) or 'there is none'}")
    if here is not None and here not in machines.name:
        raise ValueError(f"there is no machine {here!r}; choose from {', '.join(machines.name)}")
    machine = 0 if here is None else machines.name.index(here)
    graph = after.graph
    since = 0 if before is None else before.time_ns
    tasks, edges = graph.tasks, _edges(graph)
    row = {operator: index for index, task in enumerate(tasks) for operator in task.operators}
    counts = np.array([task.parallelism for task in tasks], np.int64)
    window = _Window(before, after, row, np.cumsum(counts) - counts)
    return ClusterSnapshot(
        number,
        after.time_ns / 1e9,
        (after.time_ns - since) / 1e9,
        applications=ApplicationColumns((name,)),
        tasks=_tasks(window, tasks, edges),
        edges=EdgeColumns(
            _ints(row[edge.producer] for edge in edges),
            _ints(row[edge.consumer] for edge in edges),
            np.array([edge.exchange == "rebalance" for edge in edges], np.bool_),
        ),
        queries=_queries(graph, tasks),
        machines=machines,
        instances=_instances(window, np.repeat(np.arange(len(tasks)), counts), edges, machine),
        # What each producer sent; nothing is dropped before it is counted, as there is no shedder yet.
        outputs=OutputColumns(*_exchanged(window, edges, lambda edge: edge.producer, axis=1)),
        inputs=InputColumns(*_exchanged(window, edges, lambda edge: edge.consumer, axis=0)),
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """The time between two readings (None: since the start); ``row``: tasks of operators, ``first``: of instances."""

    before: Reading | None
    after: Reading
    row: TaskRows
    first: Numbers

    def is_new(self) -> Bools:
        """Return the instances that began in the window."""
        return np.asarray(self.before is not None and self.after.began_s > self.before.time_ns / 1e9, np.bool_)

    def since(self, counts: Callable[[Reading], Floats]) -> Floats:
        """Return what was counted in the window, NaN of instances whose counters are not the same."""
        now = counts(self.after)
        if self.before is None:
            return now
        is_new = self.is_new()
        change = np.where(is_new[:, np.newaxis] if now.ndim == 2 else is_new, np.nan, now - counts(self.before))
        return _forwards(change)

    def sent(self, edges: Sequence[Edge]) -> Sequence[Floats]:
        """Return by edge the rows sent in the window, NaN of producers that began in it."""
        if self.before is None:
            return self.after.sent
        is_new, sent = self.is_new(), []
        for edge, now, then in zip(edges, self.after.sent, self.before.sent, strict=True):
            new = is_new[self.first[self.row[edge.producer]] :][: len(now), np.newaxis]
            sent.append(_forwards(np.where(new, np.nan, now - then)))
        return sent


def _tasks(window: _Window, tasks: Sequence[Task], edges: Sequence[Edge]) -> TaskColumns:
    graph, row = window.after.graph, window.row
    feeding = {row[edge.producer] for edge in edges}
    keyed = {row[edge.consumer] for edge in edges if edge.exchange == "hash"}
    is_stateful = [_is_stateful(graph, task) for task in tasks]
    budgets = window.after.state_budget[window.first]
    numbers = range(len(tasks))
    return TaskColumns(
        tuple(graph.name(task) for task in tasks),
        application=_ints(0 for _ in numbers),
        is_source=np.array([isinstance(graph.node(task.head).spec, SourceSpec) for task in tasks], np.bool_),
        is_sink=np.array([number not in feeding for number in numbers], np.bool_),
        is_stateful=np.array(is_stateful, np.bool_),
        is_keyed=np.array([number in keyed for number in numbers], np.bool_),
        key_groups=_ints(window.after.key_groups),
        memory_level=_ints(
            level_of(budget) if stateful else NO_LEVEL for stateful, budget in zip(is_stateful, budgets, strict=True)
        ),
    )


def _queries(graph: ExecutionGraph, tasks: Sequence[Task]) -> QueryColumns:
    sinks = [
        (index, graph.node(operator))
        for index, task in enumerate(tasks)
        for operator in task.operators
        if isinstance(graph.node(operator).spec, SinkSpec)
    ]
    specs = [node.spec for _, node in sinks if isinstance(node.spec, SinkSpec)]
    return QueryColumns(
        tuple(node.name for _, node in sinks),
        _ints(index for index, _ in sinks),
        np.array([spec.priority for spec in specs], np.float64),
        np.array([spec.min_accuracy for spec in specs], np.float64),
    )


def _instances(window: _Window, task: Numbers, edges: Sequence[Edge], machine: int) -> InstanceColumns:
    after, spent = window.after, window.since(lambda reading: reading.spent_ns)
    queue = np.zeros(len(task))
    for edge, waiting in zip(edges, after.waiting, strict=True):
        queue[window.first[window.row[edge.consumer]] :][: waiting.shape[1]] += waiting.sum(axis=0)
    age = after.time_ns / 1e9 - after.began_s
    return InstanceColumns(
        task=_ints(task),
        number=_ints(np.arange(len(task)) - window.first[task]),
        machine=_ints(machine for _ in task),
        is_running=after.is_running,
        records_in=window.since(lambda reading: reading.records_in),
        busy_ns=spent[:, 0],
        remote_wait_ns=spent[:, 1],
        core_wait_ns=spent[:, 2],
        input_wait_ns=spent[:, 3],
        output_wait_ns=spent[:, 4],
        queue_rows=queue,
        age_s=age,
        settled_s=age,
        cache_hits=window.since(lambda reading: reading.hits),
        cache_misses=window.since(lambda reading: reading.misses),
        state_bytes=after.state_bytes,
        managed_bytes=None if np.isnan(after.state_budget).all() else after.state_budget,
    )


def _exchanged(
    window: _Window, edges: Sequence[Edge], end: Callable[[Edge], OperatorId], axis: int
) -> tuple[Ints, Ints, Floats]:
    """Return rows of channels by edge and instance at one end of it: the row of each, and the sum over the others."""
    rows = [sent.sum(axis=axis) for sent in window.sent(edges)]
    instances = (
        window.first[window.row[end(edge)]] + number
        for edge, own in zip(edges, rows, strict=True)
        for number in range(len(own))
    )
    numbers = (number for number, own in enumerate(rows) for _ in own)
    return _ints(numbers), _ints(instances), np.concatenate([np.zeros(0), *rows])


def _forwards(change: Floats) -> Floats:
    """Return counts without those that ran backwards, which nobody measured."""
    return np.where(change < 0, np.nan, change)


def _matrix(graph: ExecutionGraph, edge: Edge, counts: Mapping[Pair, int]) -> Floats:
    """Return counts of an edge's channels by producer and consumer; 0 where no channel joins them."""
    matrix = np.zeros((graph.task_of(edge.producer).parallelism, graph.task_of(edge.consumer).parallelism))
    for pair, count in counts.items():
        matrix[pair] = count
    return matrix


def _edges(graph: ExecutionGraph) -> Sequence[Edge]:
    return [edge for edge in graph.edges if not edge.chained]


def _is_stateful(graph: ExecutionGraph, task: Task) -> bool:
    return any(descriptor_of(graph.node(operator).spec).keyed for operator in task.operators)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int32)
