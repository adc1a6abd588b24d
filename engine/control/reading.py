"""The counters of a whole job, put together of what was read in each of its parts: one row an instance."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.control.instance_places import InstancePlaces
from penstock.engine.control.part_reading import (
    INSTANCES,
    NAN,
    PARTITIONS,
    PartReading,
    edges_between_tasks,
    figures,
    integers,
    is_stateful,
    read_part,
)
from penstock.engine.control.task_counts import NO_COUNTS, TaskCounts, read_counts
from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.build import Build
from penstock.engine.jobs.running_memory import RunningMemory
from penstock.engine.moves.movable import refusal
from penstock.engine.operators.registry import descriptor_of
from penstock.model.columns import Bools, Floats
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.job_graph import OperatorNode, SinkSpec

Numbers = NDArray[np.int64]

TaskRows = Mapping[OperatorId, int]
"""The row of each operator's task."""

HERE = "here"
"""The place of all instances of a job that runs in one process."""

_REMEMBERED = 4
"""Readings that are asked for again: the ends of a tick's window, and those of a cycle's."""

Known = tuple[Mapping[str, PartReading], "Reading"]
"""Parts, and the reading that they make."""

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
    ``spent_ns`` by activity, ``steps`` and ``cpu_ns`` in them, and of state ``hits``, ``misses``, ``waited_ns``,
    ``stalled_ns`` and ``bytes`` count since it began, as do by edge ``sent`` of each producer instance and ``offered``
    to each consumer instance; ``queue_rows`` and ``queue_bytes`` wait now. ``process_cpu_ns`` is that of the whole
    process, by place, where all of it is the job's. ``calls`` has three columns: calls to the outside that are over,
    how long they took, and how many failed. ``reuse`` is how far back state was used, ``group_rows`` how many rows came
    to each key group. ``key_groups`` by task; ``state_budget`` in bytes of each instance, 0 without state, NaN without
    a bound.
    """

    layout: "TaskLayout" = field(repr=False)
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
    stalled_ns: Floats
    state_bytes: Floats
    sent: tuple[Floats, ...]
    offered: tuple[Floats, ...]
    key_groups: Numbers
    state_budget: Floats
    logs: LogReadings
    calls: Floats
    process_cpu_ns: Mapping[str, float] = field(default_factory=dict)
    reuse: TaskCounts = NO_COUNTS
    group_rows: TaskCounts = NO_COUNTS

    @property
    def graph(self) -> ExecutionGraph:
        """The plan of the job."""
        return self.layout.graph

    @property
    def age_ns(self) -> Floats:
        """The time since each instance began: its times add up to the wall clock."""
        return np.asarray(self.spent_ns.sum(axis=1), np.float64)


@dataclass(frozen=True)
class TaskLayout:
    """The instances of a plan in task order: the row of the first of each task, and of each operator its task.

    What follows from the plan alone is worked out once, for all that is read of it.
    """

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
        return len(self.task)

    @cached_property
    def edges(self) -> Sequence[Edge]:
        """The edges that are channels."""
        return edges_between_tasks(self.graph)

    @cached_property
    def parallelism(self) -> Numbers:
        """The instances of each task."""
        return np.array([task.parallelism for task in self.graph.tasks], np.int64)

    @cached_property
    def producers(self) -> Numbers:
        """The instances at the producing end of each edge."""
        return self.parallelism[np.array([self.row[edge.producer] for edge in self.edges], np.int64)]

    @cached_property
    def consumers(self) -> Numbers:
        """The instances at the consuming end of each edge."""
        return self.parallelism[np.array([self.row[edge.consumer] for edge in self.edges], np.int64)]

    @cached_property
    def places(self) -> InstancePlaces:
        """The places of instances in their tasks."""
        return InstancePlaces(self.graph.tasks)

    @cached_property
    def producer_places(self) -> InstancePlaces:
        """The places of instances at the producing end of each edge."""
        return InstancePlaces([self.graph.tasks[self.row[edge.producer]] for edge in self.edges])

    @cached_property
    def consumer_places(self) -> InstancePlaces:
        """The places of instances at the consuming end of each edge."""
        return InstancePlaces([self.graph.tasks[self.row[edge.consumer]] for edge in self.edges])

    @cached_property
    def keeps_state(self) -> Sequence[bool]:
        """Which tasks keep keyed state."""
        return [is_stateful(self.graph, task) for task in self.graph.tasks]

    @cached_property
    def movable(self) -> Sequence[int]:
        """The rows of tasks whose key groups can change their instances while the job runs."""
        return [row for row, task in enumerate(self.graph.tasks) if refusal(self.graph, task.id) is None]

    @cached_property
    def task_names(self) -> tuple[str, ...]:
        """The names of tasks."""
        return tuple(map(self.graph.name, self.graph.tasks))

    @cached_property
    def sinks(self) -> Sequence[tuple[int, OperatorNode]]:
        """The sinks, each with the row of its task."""
        return [
            (index, node)
            for index, task in enumerate(self.graph.tasks)
            for node in map(self.graph.node, task.operators)
            if isinstance(node.spec, SinkSpec)
        ]

    @cached_property
    def task(self) -> Numbers:
        """The row of each instance's task."""
        return np.repeat(np.arange(len(self.parallelism)), self.parallelism)


def read_counters(build: Build, options: LoopOptions, started_ns: int, now_ns: int) -> Reading:
    """Read what a whole job has counted; may be called from any thread, then counters may be a batch apart."""
    part = read_part(build, now_ns)
    return ReadingMerger(build.graph, options).merge(now_ns - started_ns, {HERE: part})


class ReadingMerger:
    """Puts readings of a job together of what was read in each place; who asks twice for the same gets it again."""

    def __init__(self, graph: ExecutionGraph, options: LoopOptions, memory: RunningMemory | None = None) -> None:
        """Learn the layout of a plan, which does not change; budgets do with ``memory``."""
        self._layout = TaskLayout.of(graph)
        self.names = tuple(name for task in graph.tasks for name in graph.instances(task))
        """The names of instances, in task order."""
        self._options, self._memory = options, memory
        self._merged: deque[Known] = deque(maxlen=_REMEMBERED)
        self._budgets: tuple[Mapping[str, int | None], tuple[Numbers, Floats]] | None = None

    def merge(
        self,
        time_ns: int,
        parts: Mapping[str, PartReading],
        process_cpu_ns: Mapping[str, float] | None = None,
        known: Known | None = None,
    ) -> Reading:
        """Return the counters of a job of its parts, by place; what was read nowhere is NaN.

        ``time_ns`` is since the job started; ``known`` may be what was returned for the same parts.
        """
        remembered = [*self._merged] if known is None else [*self._merged, known]
        for before, reading in remembered:
            if before.keys() == parts.keys() and all(before[place] is part for place, part in parts.items()):
                return replace(reading, time_ns=time_ns, process_cpu_ns=process_cpu_ns or {})
        reading = self._read(time_ns, parts, process_cpu_ns or {})
        self._merged.append((dict(parts), reading))
        return reading

    def _budgets_now(self) -> tuple[Numbers, Floats]:
        """Return the key groups of each task, and the budget of state of each instance, worked out once a change."""
        wanted = {} if self._memory is None else dict(self._memory.wanted)
        if self._budgets is None or self._budgets[0] != wanted:
            self._budgets = wanted, _budgets(self._layout.graph, self._options, wanted)
        return self._budgets[1]

    def _read(self, time_ns: int, parts: Mapping[str, PartReading], process_cpu_ns: Mapping[str, float]) -> Reading:
        layout, edges = self._layout, self._layout.edges
        each = list(parts.values())
        figure = _Scattered(layout, each)
        read_ns, places = np.full(layout.count, NAN), np.full(layout.count, "", object)
        read_ns[figure.of_rows] = np.array([part.time_ns for part in each], np.float64)[figure.part]
        places[figure.of_rows] = np.array([*parts], object)[figure.part]
        queue_rows = np.where(np.isnan(read_ns), NAN, 0.0)
        counts = layout.parallelism
        consumers = [layout.row[edge.consumer] for edge in edges]
        received = _ByEdge(layout.consumers, layout.consumer_places, [part.received for part in each])
        sent = _ByEdge(layout.producers, layout.producer_places, [part.sent for part in each])
        waits = received("waiting")
        for consumer, waiting in zip(consumers, waits, strict=True):
            queue_rows[layout.first[consumer] :][: counts[consumer]] += waiting
        offered = tuple(rows + waiting for rows, waiting in zip(received("rows"), waits, strict=True))
        return Reading(
            layout,
            time_ns,
            read_ns,
            tuple(places.tolist()),
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
            figure("stalled_ns"),
            figure("state_bytes"),
            tuple(sent("rows")),
            offered,
            *self._budgets_now(),
            _logs(figure, each),
            np.stack([figure(name) for name in ("calls", "call_ns", "call_errors")], axis=1),
            process_cpu_ns,
            read_counts([*parts], [part.reuse for part in parts.values()]),
            read_counts([*parts], [part.group_rows for part in parts.values()]),
        )


class _Scattered:
    """Columns of the tables of parts, each figure in the row of its instance; NaN where there is none.

    ``of_rows`` has the row of each instance that was read, ``part`` the number of the part that it is in.
    """

    def __init__(self, layout: TaskLayout, parts: Sequence[PartReading]) -> None:
        self._layout = layout
        table = pa.concat_tables([INSTANCES.empty_table(), *(part.instances for part in parts)])
        self._table, kept = layout.places.kept(table, "task")
        part = np.repeat(np.arange(len(parts)), [len(part.instances) for part in parts])
        self.part = part if kept is None else part[kept]
        self.of_rows = self.rows(self._table)

    def rows(self, instances: pa.Table) -> Numbers:
        """Return the rows of the instances in a table."""
        return self._layout.first[integers(instances, "task")] + self._layout.places.of(instances, "task")

    def logs(self, parts: Sequence[PartReading]) -> pa.Table:
        """Return what is known of the partitions of sources."""
        table = pa.concat_tables([PARTITIONS.empty_table(), *(part.partitions for part in parts)])
        return self._layout.places.kept(table, "task")[0]

    def __call__(self, name: str) -> Floats:
        values = np.full(self._layout.count, NAN)
        values[self.of_rows] = figures(self._table, name)
        return values


def _logs(figure: _Scattered, parts: Sequence[PartReading]) -> LogReadings:
    table = figure.logs(parts)
    return LogReadings(
        figure.rows(table),
        tuple(table.column("name").to_pylist()),
        *(figures(table, name) for name in ("consumed", "behind", "appended")),
    )


class _ByEdge:
    """Columns of tables with a row for each edge and instance at one end of it, by edge; NaN where there is none."""

    def __init__(self, counts: Numbers, places: InstancePlaces, tables: Sequence[pa.Table]) -> None:
        """``counts``: instances at that end of each edge, whose ``places`` are these."""
        self._counts, self._places = counts, places
        self._starts = np.cumsum(self._counts) - self._counts
        self._table = places.kept(pa.concat_tables(tables), "edge")[0] if tables and len(counts) else None

    def __call__(self, column: str) -> Sequence[Floats]:
        values = np.full(int(self._counts.sum()), NAN)
        if self._table is not None:
            rows = self._starts[integers(self._table, "edge")] + self._places.of(self._table, "edge")
            values[rows] = figures(self._table, column)
        return np.split(values, self._starts[1:]) if len(self._counts) else []


def _budgets(graph: ExecutionGraph, options: LoopOptions, changed: Mapping[str, int | None]) -> tuple[Numbers, Floats]:
    """Return the key groups of each task, and the budget of state of each instance."""
    groups: list[int] = []
    budgets: list[float] = []
    for task in graph.tasks:
        # As the builder deals them out: never fewer than instances.
        groups.append(max(options.key_groups, task.parallelism))
        nodes = [graph.node(operator) for operator in task.operators]
        own = [changed.get(node.name, options.state_bytes) for node in nodes if descriptor_of(node.spec).keyed]
        bounded = all(size is not None for size in own) or not is_stateful(graph, task)
        budgets += [float(sum(size or 0 for size in own)) if bounded else NAN] * task.parallelism
    return np.array(groups, np.int64), np.array(budgets, np.float64)
