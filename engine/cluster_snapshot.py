"""The metric contract filled from a job that runs in one process: two readings of its counters make a snapshot.

What is measured today: rows and times of instances, rows of edges, what waits, sizes of state. None, as nobody measures
it yet: CPU, latencies, drops, logs' offsets, heap, network. Whoever runs the job says what the machine measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.engine.build import Build
from penstock.engine.planner import Keyed
from penstock.model.columns import Bools, Floats, Ints
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import OperatorId
from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.model.join_specs import TwoSided
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

ACTIVITIES = ("busy_ns", "remote_wait_ns", "core_wait_ns", "input_wait_ns", "output_wait_ns")


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of a job at ``time_ns``, since it started; rows of the arrays are instances, in task order.

    ``records_in`` (of sources: rows read), ``spent_ns`` by activity, and of state ``hits``, ``misses`` and ``bytes``;
    by edge ``sent`` and ``waiting``: rows from each producer instance (rows) to each consumer instance (columns).
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


def read_counters(build: Build, started_ns: int, now_ns: int) -> Reading:
    """Read what a whole job has counted; may be called from any thread, then counters may be a batch apart."""
    graph = build.graph
    running, records, spent, hits, misses, held = [], [], [], [], [], []
    for task in graph.tasks:
        for instance in build.tasks[task.id]:
            times = instance.accounting.spent(now_ns)
            running.append(not instance.done)
            records.append(build.counters[task.head][instance.index].rows_in)
            spent.append([getattr(times, name) for name in ACTIVITIES])
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
        np.array(spent, np.float64).reshape(-1, len(ACTIVITIES)),
        np.array(hits, np.float64),
        np.array(misses, np.float64),
        np.array(held, np.float64),
        tuple(_matrix(build, edge, "sent_rows") for edge in edges),
        tuple(_matrix(build, edge, "waiting_rows") for edge in edges),
    )


def cluster_snapshot(
    name: str, number: int, before: Reading | None, after: Reading, machine: MachineColumns
) -> ClusterSnapshot:
    """Return what a job counted between two readings (None: since it started), on one machine.

    Raises:
        ValueError: the later reading is not later.
    """
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
        tasks=_tasks(graph, tasks, edges, row),
        edges=EdgeColumns(
            _ints(row[edge.producer] for edge in edges),
            _ints(row[edge.consumer] for edge in edges),
            np.array([edge.exchange == "rebalance" for edge in edges], np.bool_),
        ),
        queries=_queries(graph, tasks),
        machines=machine,
        instances=_instances(before, after, task_of, first, edges, row),
        outputs=_outputs(before, after, first, edges, row),
        inputs=_inputs(before, after, first, edges, row),
    )


def _tasks(graph: ExecutionGraph, tasks: Sequence[Task], edges: Sequence[Edge], row: TaskRows) -> TaskColumns:
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
        key_groups=_ints(0 for _ in numbers),
        memory_level=_ints(0 for _ in numbers),
    )


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
) -> InstanceColumns:
    spent = _since(before, after, "spent_ns")
    queue = np.zeros(len(task))
    for edge, waiting in zip(edges, after.waiting, strict=True):
        consumer = row[edge.consumer]
        queue[first[consumer] : first[consumer + 1]] += waiting.sum(axis=0)
    age = np.full(len(task), after.time_ns / 1e9)
    return InstanceColumns(
        task=_ints(task),
        number=_ints(np.arange(len(task)) - first[task]),
        machine=_ints(0 for _ in task),
        is_running=after.is_running,
        records_in=_since(before, after, "records_in"),
        busy_ns=spent[:, 0],
        remote_wait_ns=spent[:, 1],
        core_wait_ns=spent[:, 2],
        input_wait_ns=spent[:, 3],
        output_wait_ns=spent[:, 4],
        queue_rows=queue,
        age_s=age,
        settled_s=age,
        cache_hits=_since(before, after, "hits"),
        cache_misses=_since(before, after, "misses"),
        state_bytes=after.state_bytes,
    )


def _outputs(
    before: Reading | None,
    after: Reading,
    first: Numbers,
    edges: Sequence[Edge],
    row: TaskRows,
) -> OutputColumns:
    """Say what each producer sent; nothing is dropped before it is counted, as there is no shedder yet."""
    sent = _sent(before, after)
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
    sent = _sent(before, after)
    counts = [item.shape[1] for item in sent]
    instances = [
        first[row[edge.consumer]] + number for edge, count in zip(edges, counts, strict=True) for number in range(count)
    ]
    rows = np.concatenate([item.sum(axis=0) for item in sent]) if sent else np.zeros(0)
    return InputColumns(_ints(np.repeat(np.arange(len(edges)), counts)), _ints(instances), rows)


def _since(before: Reading | None, after: Reading, name: str) -> Floats:
    now: Floats = getattr(after, name)
    return now if before is None else now - getattr(before, name)


def _sent(before: Reading | None, after: Reading) -> Sequence[Floats]:
    if before is None:
        return after.sent
    return [now - then for now, then in zip(after.sent, before.sent, strict=True)]


def _matrix(build: Build, edge: Edge, counter: str) -> Floats:
    """Return a counter of an edge's channels by producer and consumer; a forward edge has one for each pair."""
    counts = np.array([getattr(channel, counter) for channel in build.channels[edge]], np.float64)
    if edge.exchange == "forward":
        return np.diag(counts)
    return counts.reshape(build.graph.task_of(edge.producer).parallelism, -1)


def _edges(graph: ExecutionGraph) -> Sequence[Edge]:
    return [edge for edge in graph.edges if not edge.chained]


def _is_stateful(graph: ExecutionGraph, task: Task) -> bool:
    return any(isinstance(graph.node(operator).spec, Keyed | TwoSided) for operator in task.operators)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int32)
