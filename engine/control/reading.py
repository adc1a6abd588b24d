"""The counters of a whole job, put together of what was read in each of its parts: one row an instance."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.control.part_reading import (
    NAN,
    PARTITIONS,
    PartReading,
    edges_between_tasks,
    figures,
    integers,
    is_stateful,
    read_part,
)
from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.build import Build
from penstock.engine.operators.registry import descriptor_of
from penstock.model.columns import Bools, Floats
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId

Numbers = NDArray[np.int64]

TaskRows = Mapping[OperatorId, int]
"""The row of each operator's task."""

HERE = "here"
"""The place of all instances of a job that runs in one process."""

_ACTIVITIES = tuple(f"{activity.value}_ns" for activity in Activity)


@dataclass(frozen=True, slots=True)
class LogReadings:
    """What is known of the partitions of sources, a row each: the row of the ``instance`` that reads it, its ``name``.

    ``consumed`` since the instance began; ``behind`` waits, ``appended`` is the log's end (`Reader.behind`,
    `Reader.appended`); NaN: not known.
    """

    instance: Numbers
    name: tuple[str, ...]
    consumed: Floats
    behind: Floats
    appended: Floats


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of a job at ``time_ns``, since it started; rows of the arrays are instances, in task order.

    ``read_ns`` is when each was read, by the clock of where it is, and ``places`` names that; of an instance that
    nobody has read both are missing (NaN, empty), and so are its figures. ``records_in`` (of sources: rows read),
    ``spent_ns`` by activity, ``steps`` and ``cpu_ns`` in them, and of state ``hits``, ``misses``, ``waited_ns`` and
    ``bytes`` count since it began, as do by edge ``sent`` of each producer instance and ``offered`` to each consumer
    instance; ``queue_rows`` and ``queue_bytes`` wait now. ``process_cpu_ns`` is that of the whole process, by place,
    where all of it is the job's. ``key_groups`` by task; ``state_budget`` in bytes of each instance, NaN without a
    bound.
    """

    graph: ExecutionGraph = field(repr=False)
    time_ns: int
    read_ns: Floats
    places: tuple[str, ...]
    is_running: Bools
    records_in: Floats
    spent_ns: Floats
    cpu_ns: Floats
    steps: Floats
    queue_rows: Floats
    queue_bytes: Floats
    hits: Floats
    misses: Floats
    waited_ns: Floats
    state_bytes: Floats
    sent: tuple[Floats, ...]
    offered: tuple[Floats, ...]
    key_groups: Numbers
    state_budget: Floats
    logs: LogReadings
    process_cpu_ns: Mapping[str, float] = field(default_factory=dict)

    @property
    def age_ns(self) -> Floats:
        """The time since each instance began: its times add up to the wall clock."""
        return np.asarray(self.spent_ns.sum(axis=1), np.float64)


@dataclass(frozen=True, slots=True)
class TaskLayout:
    """The instances of a plan in task order: the row of the first of each task, and of each operator its task."""

    graph: ExecutionGraph
    first: Numbers
    row: TaskRows

    @classmethod
    def of(cls, graph: ExecutionGraph) -> "TaskLayout":
        """Return the layout of a plan."""
        counts = np.array([task.parallelism for task in graph.tasks], np.int64)
        rows = {operator: number for number, task in enumerate(graph.tasks) for operator in task.operators}
        return cls(graph, np.cumsum(counts) - counts, rows)

    @property
    def count(self) -> int:
        """The number of instances."""
        return sum(task.parallelism for task in self.graph.tasks)

    @property
    def task(self) -> Numbers:
        """The row of each instance's task."""
        counts = [task.parallelism for task in self.graph.tasks]
        return np.repeat(np.arange(len(counts)), counts)


def read_counters(build: Build, options: LoopOptions, started_ns: int, now_ns: int) -> Reading:
    """Read what a whole job has counted; may be called from any thread, then counters may be a batch apart."""
    return merged_reading(build.graph, options, now_ns - started_ns, {HERE: read_part(build, now_ns)})


def merged_reading(
    graph: ExecutionGraph,
    options: LoopOptions,
    time_ns: int,
    parts: Mapping[str, PartReading],
    process_cpu_ns: Mapping[str, float] | None = None,
) -> Reading:
    """Return the counters of a job of what was read in each place; what was read nowhere is NaN.

    ``time_ns`` is since the job started.
    """
    layout, edges = TaskLayout.of(graph), edges_between_tasks(graph)
    figure = _Scattered(layout, parts)
    read_ns = np.full(layout.count, NAN)
    places = [""] * layout.count
    for place, part in parts.items():
        for row in figure.rows(part.instances).tolist():
            read_ns[row], places[row] = part.time_ns, place
    queue_rows = np.where(np.isnan(read_ns), NAN, 0.0)
    offered = []
    for number, edge in enumerate(edges):
        consumers = graph.tasks[layout.row[edge.consumer]].parallelism
        waiting = _of_edge(parts, _received, number, consumers, "waiting")
        offered.append(_of_edge(parts, _received, number, consumers, "rows") + waiting)
        queue_rows[layout.first[layout.row[edge.consumer]] :][:consumers] += waiting
    sent = (
        _of_edge(parts, _sent, number, graph.tasks[layout.row[edge.producer]].parallelism, "rows")
        for number, edge in enumerate(edges)
    )
    return Reading(
        graph,
        time_ns,
        read_ns,
        tuple(places),
        figure("is_running") == 1,
        figure("records_in"),
        np.stack([figure(name) for name in _ACTIVITIES], axis=1),
        figure("cpu_ns"),
        figure("steps"),
        queue_rows,
        figure("queue_bytes"),
        figure("hits"),
        figure("misses"),
        figure("waited_ns"),
        figure("state_bytes"),
        tuple(sent),
        tuple(offered),
        *_budgets(graph, options),
        _logs(figure, parts),
        process_cpu_ns or {},
    )


class _Scattered:
    """Columns of the tables of parts, each figure in the row of its instance; NaN where there is none."""

    def __init__(self, layout: TaskLayout, parts: Mapping[str, PartReading]) -> None:
        self._layout, self._parts = layout, parts

    def rows(self, instances: pa.Table) -> Numbers:
        """Return the rows of the instances in a part's table."""
        return self._layout.first[integers(instances, "task")] + integers(instances, "number")

    def __call__(self, name: str) -> Floats:
        values = np.full(self._layout.count, NAN)
        for part in self._parts.values():
            values[self.rows(part.instances)] = figures(part.instances, name)
        return values


def _logs(figure: _Scattered, parts: Mapping[str, PartReading]) -> LogReadings:
    table = pa.concat_tables([PARTITIONS.empty_table(), *(part.partitions for part in parts.values())])
    return LogReadings(
        figure.rows(table),
        tuple(table.column("name").to_pylist()),
        *(figures(table, name) for name in ("consumed", "behind", "appended")),
    )


def _of_edge(
    parts: Mapping[str, PartReading], table: Callable[[PartReading], pa.Table], edge: int, count: int, column: str
) -> Floats:
    """Return a figure of an edge for each of so many instances at one end of it."""
    values = np.full(count, NAN)
    for part in parts.values():
        rows = table(part)
        own = integers(rows, "edge") == edge
        values[integers(rows, "number")[own]] = figures(rows, column)[own]
    return values


def _sent(part: PartReading) -> pa.Table:
    return part.sent


def _received(part: PartReading) -> pa.Table:
    return part.received


def _budgets(graph: ExecutionGraph, options: LoopOptions) -> tuple[Numbers, Floats]:
    """Return the key groups of each task, and the budget of state of each instance."""
    groups: list[int] = []
    budgets: list[float] = []
    for task in graph.tasks:
        # As the builder deals them out: never fewer than instances.
        groups.append(max(options.key_groups, task.parallelism))
        keyed = sum(descriptor_of(graph.node(operator).spec).keyed for operator in task.operators)
        bounded = options.state_bytes is not None and is_stateful(graph, task)
        budgets += [float(keyed * (options.state_bytes or 0)) if bounded else NAN] * task.parallelism
    return np.array(groups, np.int64), np.array(budgets, np.float64)
