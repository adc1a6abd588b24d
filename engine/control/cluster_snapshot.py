"""The metric contract filled from a job that runs in one process: two readings of its counters make a snapshot.

What is measured today: rows and times of instances and how long each has run, rows of edges, what waits, sizes and
budgets of state. None, as nobody measures it yet: CPU, latencies, drops, logs' offsets, heap, network. Whoever runs the
job says what its machine measured. Of an instance that was built anew between the readings no counts are known.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
            times = instance.accounting.spent(now_ns)
            running.append(not instance.done)
            records.append(build.counters[task.head][instance.index].rows_in)
            spent.append(
                (times.busy_ns, times.remote_wait_ns, times.core_wait_ns, times.input_wait_ns, times.output_wait_ns)
            )
            stores = [build.stores[operator][instance.index] for operator in task.operators if operator in build.stores]
            accesses = [found for store in stores if (found := store.accesses()) is not None]
            hits.append(float(sum(item.hits for item in accesses)) if accesses else np.nan)
            misses.append(float(sum(item.count - item.hits for item in accesses)) if accesses else np.nan)
            held.append(sum(store.bytes_used() for store in stores) if _is_stateful(graph, task) else np.nan)
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
    tasks = list(graph.tasks)
    row = {operator: index for index, task in enumerate(tasks) for operator in task.operators}
    first = np.cumsum([0, *(task.parallelism for task in tasks)])
    task_of = np.repeat(np.arange(len(tasks)), [task.parallelism for task in tasks])
    edges = _edges(graph)
    return ClusterSnapshot(
        number,
        after.time_ns / 1e9,
        (after.time_ns - since) / 1e9,
        applications=ApplicationColumns((name,)),
        tasks=_tasks(after, tasks, edges, row),
        edges=EdgeColumns(
            _ints(row[edge.producer] for edge in edges),
            _ints(row[edge.consumer] for edge in edges),
            np.array([edge.exchange == "rebalance" for edge in edges], np.bool_),
        ),
        queries=_queries(graph, tasks),
        machines=machines,
        instances=_instances(before, after, task_of, first, edges, row, machine),
        outputs=_outputs(before, after, first, edges, row),
        inputs=_inputs(before, after, first, edges, row),
    )


def _tasks(reading: Reading, tasks: Sequence[Task], edges: Sequence[Edge], row: TaskRows) -> TaskColumns:
    graph = reading.graph
    fed = {row[edge.consumer] for edge in edges}
    feeding = {row[edge.producer] for edge in edges}
    keyed = {row[edge.consumer] for edge in edges if edge.exchange == "hash"}
    numbers = range(len(tasks))
    return TaskColumns(
        tuple(graph.name(task) for task in tasks),
        application=_ints(0 for _ in numbers),
        is_source=np.array([isinstance(graph.node(task.head).spec, SourceSpec) for task in tasks], np.bool_),
        is_sink=np.array([number not in feeding for number in numbers], np.bool_),
        is_stateful=np.array([_is_stateful(graph, task) for task in tasks], np.bool_),
        is_keyed=np.array([number in keyed & fed for number in numbers], np.bool_),
        key_groups=_ints(reading.key_groups),
        memory_level=_ints(
            level_of(budget) if _is_stateful(graph, task) else NO_LEVEL
            for task, budget in zip(tasks, _budgets(reading, tasks), strict=True)
        ),
    )


def _budgets(reading: Reading, tasks: Sequence[Task]) -> Floats:
    """Return the budget of an instance of each task."""
    first = np.cumsum([0, *(task.parallelism for task in tasks[:-1])])
    return np.asarray(reading.state_budget[first], np.float64)


def _queries(graph: ExecutionGraph, tasks: Sequence[Task]) -> QueryColumns:
    found = [
        (index, graph.node(operator))
        for index, task in enumerate(tasks)
        for operator in task.operators
        if isinstance(graph.node(operator).spec, SinkSpec)
    ]
    specs = [node.spec for _, node in found if isinstance(node.spec, SinkSpec)]
    return QueryColumns(
        tuple(node.name for _, node in found),
        _ints(index for index, _ in found),
        np.array([spec.priority for spec in specs], np.float64),
        np.array([spec.min_accuracy for spec in specs], np.float64),
    )


def _instances(
    before: Reading | None,
    after: Reading,
    task: Numbers,
    first: Numbers,
    edges: Sequence[Edge],
    row: TaskRows,
    machine: int,
) -> InstanceColumns:
    spent = _since(before, after, lambda reading: reading.spent_ns)
    queue = np.zeros(len(task))
    for edge, waiting in zip(edges, after.waiting, strict=True):
        consumer = row[edge.consumer]
        queue[first[consumer] : first[consumer + 1]] += waiting.sum(axis=0)
    age = after.time_ns / 1e9 - after.began_s
    return InstanceColumns(
        task=_ints(task),
        number=_ints(np.arange(len(task)) - first[task]),
        machine=_ints(machine for _ in task),
        is_running=after.is_running,
        records_in=_since(before, after, lambda reading: reading.records_in),
        busy_ns=spent[:, 0],
        remote_wait_ns=spent[:, 1],
        core_wait_ns=spent[:, 2],
        input_wait_ns=spent[:, 3],
        output_wait_ns=spent[:, 4],
        queue_rows=queue,
        age_s=age,
        settled_s=age,
        cache_hits=_since(before, after, lambda reading: reading.hits),
        cache_misses=_since(before, after, lambda reading: reading.misses),
        state_bytes=after.state_bytes,
        managed_bytes=None if np.isnan(after.state_budget).all() else after.state_budget,
    )


def _outputs(
    before: Reading | None,
    after: Reading,
    first: Numbers,
    edges: Sequence[Edge],
    row: TaskRows,
) -> OutputColumns:
    """Say what each producer sent; nothing is dropped before it is counted, as there is no shedder yet."""
    sent = _sent(before, after, first, edges, row)
    counts = [len(item) for item in sent]
    instances = [
        first[row[edge.producer]] + number for edge, count in zip(edges, counts, strict=True) for number in range(count)
    ]
    rows = np.concatenate([item.sum(axis=1) for item in sent]) if sent else np.zeros(0)
    return OutputColumns(_ints(np.repeat(np.arange(len(edges)), counts)), _ints(instances), rows)


def _inputs(
    before: Reading | None,
    after: Reading,
    first: Numbers,
    edges: Sequence[Edge],
    row: TaskRows,
) -> InputColumns:
    sent = _sent(before, after, first, edges, row)
    counts = [item.shape[1] for item in sent]
    instances = [
        first[row[edge.consumer]] + number for edge, count in zip(edges, counts, strict=True) for number in range(count)
    ]
    rows = np.concatenate([item.sum(axis=0) for item in sent]) if sent else np.zeros(0)
    return InputColumns(_ints(np.repeat(np.arange(len(edges)), counts)), _ints(instances), rows)


def _since(before: Reading | None, after: Reading, counts: Callable[[Reading], Floats]) -> Floats:
    """Return what was counted between the readings, NaN of instances whose counters are not the same."""
    now = counts(after)
    if before is None:
        return now
    is_new = _is_new(before, after)
    change = np.where(is_new[:, np.newaxis] if now.ndim == 2 else is_new, np.nan, now - counts(before))
    return _forwards(change)


def _sent(
    before: Reading | None, after: Reading, first: Numbers, edges: Sequence[Edge], row: TaskRows
) -> Sequence[Floats]:
    """Return by edge the rows sent between the readings, NaN of producers that began in between."""
    if before is None:
        return after.sent
    is_new, found = _is_new(before, after), []
    for edge, now, then in zip(edges, after.sent, before.sent, strict=True):
        producer = row[edge.producer]
        new = is_new[first[producer] : first[producer + 1], np.newaxis]
        found.append(_forwards(np.where(new, np.nan, now - then)))
    return found


def _is_new(before: Reading, after: Reading) -> Bools:
    """Return the instances that began between the readings."""
    return np.asarray(after.began_s > before.time_ns / 1e9, np.bool_)


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
