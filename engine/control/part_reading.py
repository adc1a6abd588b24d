"""The counters of the instances of a job in one process, as rows of figures, so that they can be said to a head.

An embedded job reads all of itself as one part, a task manager those instances that it hosts; `reading` puts parts
together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.exchange import Hash
from penstock.engine.dataflow.instance import Instance
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.model.columns import Floats, Names
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import OperatorId
from penstock.model.sic import NO_CHECKS, CheckTimes
from penstock.state.store import StateStore

NAN = float("nan")

Rows = NDArray[np.void]
"""Rows of figures, whose columns have names: a hundred parts are put together at each tick of a head."""

INSTANCE_COLUMNS = (
    "is_running",
    "busy_ns",
    "remote_wait_ns",
    "core_wait_ns",
    "input_wait_ns",
    "output_wait_ns",
    "cpu_ns",
    "steps",
    "row_ns",
    "queue_bytes",
    "hits",
    "misses",
    "waited_ns",
    "stalled_ns",
    "calls",
    "call_ns",
    "call_errors",
    "state_bytes",
    "records_in",
    "shed",
)
"""The figures of an instance since it began; NaN: not measured, or it has none."""

INSTANCES = np.dtype([("task", "<i4"), ("number", "<i4"), *((name, "<f8") for name in INSTANCE_COLUMNS)])
SENT = np.dtype([("edge", "<i4"), ("number", "<i4"), ("rows", "<f8")])
RECEIVED = np.dtype([("edge", "<i4"), ("number", "<i4"), ("rows", "<f8"), ("waiting", "<f8")])
PARTITIONS = np.dtype([("task", "<i4"), ("number", "<i4"), ("consumed", "<f8"), ("behind", "<f8"), ("appended", "<f8")])
SIC = np.dtype([("query", "<i4"), ("generated", "<f8"), ("admitted", "<f8"), ("delivered", "<f8")])
DROPPED = np.dtype([("edge", "<i4"), ("number", "<i4"), ("shed", "<f8"), ("kept", "<f8")])
COUNTS = np.dtype([("task", "<i4"), ("cell", "<i4"), ("count", "<f8")])
"""Of each task how much was counted of each of its cells: bounds of distances, or key groups."""
ERRORS = pa.schema([("query", pa.string()), ("number", pa.int32()), ("place", pa.int32()), ("figure", "f8")])


def no_rows(kind: np.dtype[np.void]) -> Rows:
    """Return no row of a kind."""
    return np.zeros(0, kind)


@dataclass(frozen=True, slots=True, eq=False)
class PartReading:
    """The counters of instances in one process at ``time_ns`` by its monotonic clock.

    ``instances`` has a row for each, by the row of its task and its number; ``sent`` one for each edge and producer
    instance, ``received`` one for each edge and consumer instance: rows that have come, and those of them that wait.
    Edges are those between tasks, in the order of `edges_between_tasks`. ``partitions`` has a row for each partition
    of a source that has not ended, whose names are in ``partition_names``: what was taken of it here, and what its
    reader knows of the log. ``errors`` has one for each figure but 0 of the errors of each query here
    (`shedding.result_errors`), by the instance of its sink.
    ``sic`` has what was generated, admitted and delivered of each query by its number, in any number of rows, and
    ``checks`` what looking at what waits has taken here. ``reuse`` has the accesses to the state of each task here by
    the bytes used since, as places in `REUSE_BOUNDS`; ``group_rows`` about how many rows producers here sent to each
    key group of a task, ``group_bytes`` the state that instances here have of each, of tasks of several instances.
    ``dropped`` has a row for each edge and producer instance in whose chain rows were shed of what goes there, as on
    branches: those rows, and those that the last operator that shed has kept.
    """

    time_ns: int
    instances: Rows = field(repr=False)
    sent: Rows = field(repr=False)
    received: Rows = field(repr=False)
    partitions: Rows = field(repr=False, default_factory=lambda: no_rows(PARTITIONS))
    partition_names: Names = field(repr=False, default=())
    errors: pa.Table = field(repr=False, default_factory=ERRORS.empty_table)
    sic: Rows = field(repr=False, default_factory=lambda: no_rows(SIC))
    checks: CheckTimes = NO_CHECKS
    reuse: Rows = field(repr=False, default_factory=lambda: no_rows(COUNTS))
    group_rows: Rows = field(repr=False, default_factory=lambda: no_rows(COUNTS))
    group_bytes: Rows = field(repr=False, default_factory=lambda: no_rows(COUNTS))
    dropped: Rows = field(repr=False, default_factory=lambda: no_rows(DROPPED))


def edges_between_tasks(graph: ExecutionGraph) -> Sequence[Edge]:
    """Return the edges of a plan that are channels."""
    return [edge for edge in graph.edges if not edge.chained]


def is_stateful(graph: ExecutionGraph, task: Task) -> bool:
    """Return whether a task keeps keyed state."""
    return any(descriptor_of(graph.node(operator).spec).keyed for operator in task.operators)


def read_part(build: Build, now_ns: int, checks: CheckTimes = NO_CHECKS) -> PartReading:
    """Read what the instances here have counted; may be called from any thread, then counters may be a batch apart."""
    graph = build.graph
    rows: list[tuple[float, ...]] = []
    logs: list[tuple[float, ...]] = []
    names: list[str] = []
    reused: list[tuple[int, Floats]] = []
    sized: list[tuple[int, Floats]] = []
    for row, task in enumerate(graph.tasks):
        keeps_state = is_stateful(graph, task)
        # Counters and stores are those of the instances that are here, in their order.
        for position, instance in enumerate(build.tasks.get(task.id, ())):
            counters = build.counters[task.head][position]
            records = counters.rows_in - counters.shed
            stores = [build.stores[operator][position] for operator in task.operators if operator in build.stores]
            reused += [(row, counts) for store in stores if (counts := store.reuse()) is not None]
            if task.parallelism > 1:
                sized += [(row, sizes) for store in stores if (sizes := store.group_bytes()) is not None]
            held = float(sum(store.bytes_used() for store in stores)) if keeps_state else NAN
            figures = (*_counts(instance, now_ns), *_accesses(stores), *_calls(instance), held, records, counters.shed)
            rows.append((row, instance.index, *figures))
            if instance.head is not None:
                for name, taken, behind, appended in instance.head.logs():
                    names.append(name)
                    logs.append((row, instance.index, taken, _figure(behind), _figure(appended)))
    edges = edges_between_tasks(graph)
    sent = [
        (number, producer, rows_sent)
        for number, edge in enumerate(edges)
        for producer, rows_sent in _sent(build.senders.get(edge, {})).items()
    ]
    received = [
        (number, consumer, *counts)
        for number, edge in enumerate(edges)
        for consumer, counts in _received(build.receivers.get(edge, {})).items()
    ]
    return PartReading(
        now_ns,
        np.array(rows, INSTANCES),
        np.array(sent, SENT),
        np.array(received, RECEIVED),
        np.array(logs, PARTITIONS),
        tuple(names),
        _errors(build),
        np.array(_sic(build), SIC),
        checks,
        _counted(reused),
        _counted(_group_rows(build)),
        _counted(sized),
        np.array(_dropped(build, edges), DROPPED),
    )


def encode_table(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode_table(data: bytes) -> pa.Table:
    """Return the table that `encode_table` made bytes of."""
    return pa.ipc.open_stream(data).read_all()


def together(kind: np.dtype[np.void], parts: Sequence[Rows]) -> Rows:
    """Return the rows of a kind of all parts, one part after the other."""
    # Many times as fast as `np.concatenate`, which compares the types of all of them.
    return np.frombuffer(b"".join([rows.tobytes() for rows in parts]), kind)


def _counts(instance: Instance, now_ns: int) -> tuple[float, ...]:
    accounting = instance.accounting
    cpu_ns = accounting.cpu_ns
    queue_bytes = NAN if instance.gate is None else float(instance.gate.waiting_bytes)
    spent = accounting.spent_ns(now_ns)
    cpu = NAN if cpu_ns is None else float(cpu_ns)
    steps, row_ns = float(accounting.steps), float(accounting.row_ns(now_ns))
    return float(not instance.done), *spent, cpu, steps, row_ns, queue_bytes


def _errors(build: Build) -> pa.Table:
    """Return what the rows of queries that want a certain error have had."""
    rows: list[dict[str, Any]] = []
    for instance in build.instances:
        for node in instance.nodes:
            if isinstance(node.operator, SinkOperator) and node.operator.errors is not None:
                counted = node.operator.errors.counts.figures
                places = np.flatnonzero(counted)
                rows += [
                    {"query": node.name, "number": instance.index, "place": place, "figure": figure}
                    for place, figure in zip(places.tolist(), counted[places].tolist(), strict=True)
                ]
    return pa.Table.from_pylist(rows, ERRORS)


def _sic(build: Build) -> list[tuple[int, float, float, float]]:
    """Return the SIC that sources here gave out and that came to sinks here."""
    rows: list[tuple[int, float, float, float]] = []
    for instance in build.instances:
        if instance.head is not None and (sic := instance.head.sic) is not None:
            sums = zip(sic.generated.tolist(), sic.admitted.tolist(), strict=True)
            rows += [(query, *both, 0.0) for query, both in enumerate(sums) if any(both)]
        for node in instance.nodes:
            if isinstance(node.operator, SinkOperator):
                rows += [(query, 0.0, 0.0, each) for query, each in enumerate(node.sic.total()) if each]
    return rows


def _figure(count: int | None) -> float:
    return NAN if count is None else float(count)


def _accesses(stores: Sequence[StateStore]) -> tuple[float, float, float, float]:
    counted = [count for store in stores if (count := store.accesses()) is not None]
    if not counted:
        return NAN, NAN, NAN, NAN
    hits = sum(item.hits for item in counted)
    misses = sum(item.count for item in counted) - hits
    return hits, misses, sum(item.waited_ns for item in counted), sum(item.stalled_ns for item in counted)


def _group_rows(build: Build) -> list[tuple[int, Floats]]:
    """Return of each output by key the row of the task that it leads to, and its rows by key group."""
    rows = {operator: row for row, task in enumerate(build.graph.tasks) for operator in task.operators}
    return [
        (rows[edge.consumer], output.group_rows)
        for edge, outputs in build.outputs.items()
        for output in outputs.values()
        if isinstance(output, Hash)
    ]


def _dropped(build: Build, edges: Sequence[Edge]) -> list[tuple[int, int, int, int]]:
    """Return what was shed inside the chains here of the rows of each edge, and what the last that shed has kept."""
    if not any(each.shed for counters in build.counters.values() for each in counters):
        return []
    above = {edge.consumer: edge.producer for edge in build.graph.edges if edge.chained}
    found: list[tuple[int, int, int, int]] = []
    for number, edge in enumerate(edges):
        # What the first of a chain sheds comes before its instance.
        chain, head = list[OperatorId](), edge.producer
        while head in above:
            chain.append(head)
            head = above[head]
        for position, instance in enumerate(build.tasks.get(build.graph.task_of(head).id, ())):
            shedding = [own for operator in chain if (own := build.counters[operator][position]).shed]
            if shedding:
                kept = shedding[0].rows_in - shedding[0].shed
                found.append((number, instance.index, sum(own.shed for own in shedding), kept))
    return found


def _counted(counted: Sequence[tuple[int, Floats]]) -> Rows:
    """Return the sums of each task by cell, where anything was counted."""
    sums: dict[int, Floats] = {}
    for task, counts in counted:
        sums[task] = sums[task] + counts if task in sums else counts
    return together(COUNTS, [_of_task(task, own) for task, own in sums.items()])


def _of_task(task: int, counts: Floats) -> Rows:
    cells = np.flatnonzero(counts)
    rows = np.zeros(len(cells), COUNTS)
    rows["task"], rows["cell"], rows["count"] = task, cells, counts[cells]
    return rows


def _calls(instance: Instance) -> tuple[float, float, float]:
    """Return the calls to the outside that are over, how long they took, and how many failed."""
    counted = [counts for node in instance.nodes if (counts := node.operator.call_counts()) is not None]
    if not counted:
        return NAN, NAN, NAN
    waited_ns, errors = sum(each.waited_ns for each in counted), sum(each.errors for each in counted)
    return float(sum(each.calls for each in counted)), float(waited_ns), float(errors)


def _sent(halves: Mapping[tuple[int, int], SendingHalf]) -> dict[int, int]:
    rows: dict[int, int] = {}
    for (producer, _), half in halves.items():
        rows[producer] = rows.get(producer, 0) + half.sent_rows
    return rows


def _received(halves: Mapping[tuple[int, int], ReceivingHalf]) -> dict[int, tuple[int, int]]:
    counts: dict[int, tuple[int, int]] = {}
    for (_, consumer), half in halves.items():
        rows, waiting = counts.get(consumer, (0, 0))
        counts[consumer] = rows + half.received_rows, waiting + half.waiting_rows
    return counts
