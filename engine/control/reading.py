"""The counters of a whole job, put together of what was read in each of its parts: one row an instance."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress

import numpy as np

from penstock.engine.control.part_reading import (
    DROPPED,
    INSTANCES,
    NAN,
    PARTITIONS,
    RECEIVED,
    SENT,
    PartReading,
    Rows,
    is_stateful,
    read_part,
    together,
)
from penstock.engine.control.task_counts import NO_COUNTS, TaskCounts, read_counts
from penstock.engine.control.task_layout import Numbers, TaskLayout
from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.build import Build
from penstock.engine.jobs.running_memory import RunningMemory
from penstock.engine.plan.planner import lies_by_key
from penstock.model.columns import Bools, Floats, Names
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph

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


Budgets = tuple[Numbers, Floats, Floats]
"""Key groups by task; budgets of state by instance: now, and as the program says."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of a job at ``time_ns``, since it started; rows of the arrays are instances, in task order.

    ``read_ns`` is when each was read, by the clock of where it is, and ``place`` the row of that in the names of
    ``places``; of an instance that nobody has read both are missing (NaN, -1), and so are its figures. ``records_in``
    (of sources: rows read), ``spent_ns`` by activity, ``steps`` and ``cpu_ns`` in them, ``row_ns`` that all its rows
    together have waited and been worked on, and of state ``hits``, ``misses``, ``waited_ns``, ``stalled_ns`` and
    ``bytes`` count since it began, as do rows ``sent`` and ``offered`` at the ends of edges (`TaskLayout.senders`,
    `TaskLayout.receivers`); ``queue_rows`` and ``queue_bytes`` wait now.
    ``process_cpu_ns`` is that of the whole process, by place, where all of it is the job's. ``calls`` has three
    columns: calls to the outside that are over, how long they took, and how many failed. ``reuse`` is how far back
    state was used, ``group_rows`` how many rows came to each key group, and ``group_bytes`` its state now.
    ``key_groups`` by task; ``state_budget`` in bytes of each instance, 0 without state, NaN without a bound,
    ``first_budget`` as its program says. ``shed`` before the first operator of each, and before rows are ``sent``
    ``branch_shed``, of which ``branch_kept`` stayed; None: branches have shed nothing.
    """

    layout: TaskLayout = field(repr=False)
    time_ns: int
    read_ns: Floats
    places: Names
    place: Numbers
    is_running: Bools
    records_in: Floats
    spent_ns: Floats
    cpu_ns: Floats
    steps: Floats
    row_ns: Floats
    queue_rows: Floats
    queue_bytes: Floats
    hits: Floats
    misses: Floats
    waited_ns: Floats
    stalled_ns: Floats
    state_bytes: Floats
    shed: Floats
    sent: Floats
    offered: Floats
    key_groups: Numbers
    state_budget: Floats
    first_budget: Floats
    logs: LogReadings
    calls: Floats
    process_cpu_ns: Mapping[str, float] = field(default_factory=dict)
    reuse: TaskCounts = NO_COUNTS
    group_rows: TaskCounts = NO_COUNTS
    group_bytes: TaskCounts = NO_COUNTS
    branch_shed: Floats | None = None
    branch_kept: Floats | None = None

    @property
    def graph(self) -> ExecutionGraph:
        """The plan of the job."""
        return self.layout.graph

    @property
    def age_ns(self) -> Floats:
        """The time since each instance began: its times add up to the wall clock."""
        return np.asarray(self.spent_ns.sum(axis=1), np.float64)


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
        self._budgets: tuple[Mapping[str, int | None], Budgets] | None = None

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

    def _budgets_now(self) -> Budgets:
        """Return the key groups of each task, and budgets of state, worked out once a change."""
        wanted = {} if self._memory is None else dict(self._memory.wanted)
        if self._budgets is None or self._budgets[0] != wanted:
            self._budgets = wanted, _budgets(self._layout.graph, self._options, wanted)
        return self._budgets[1]

    def _read(self, time_ns: int, parts: Mapping[str, PartReading], process_cpu_ns: Mapping[str, float]) -> Reading:
        layout, each = self._layout, list(parts.values())
        figure = _Scattered(layout, each)
        read_ns, place = np.full(layout.count, NAN), np.full(layout.count, -1, np.int64)
        read_ns[figure.of_rows] = np.array([part.time_ns for part in each], np.float64)[figure.part]
        place[figure.of_rows] = figure.part
        (sent,) = layout.senders.columns(together(SENT, [part.sent for part in each]), "rows")
        received = together(RECEIVED, [part.received for part in each])
        rows, waiting = layout.receivers.columns(received, "rows", "waiting")
        dropped = together(DROPPED, [part.dropped for part in each])
        branches: Sequence[Floats | None] = (None, None)
        if len(dropped):
            branches = layout.senders.columns(dropped, "shed", "kept")
        waits = np.bincount(layout.receivers.instance, waiting, layout.count)
        return Reading(
            layout,
            time_ns,
            read_ns,
            tuple(parts),
            place,
            figure("is_running") == 1,
            figure("records_in"),
            np.stack([figure(name) for name in _ACTIVITIES], axis=1),
            figure("cpu_ns"),
            figure("steps"),
            figure("row_ns"),
            np.where(np.isnan(read_ns), NAN, waits),
            figure("queue_bytes"),
            figure("hits"),
            figure("misses"),
            figure("waited_ns"),
            figure("stalled_ns"),
            figure("state_bytes"),
            figure("shed"),
            sent,
            rows + waiting,
            *self._budgets_now(),
            _logs(figure, each),
            np.stack([figure(name) for name in ("calls", "call_ns", "call_errors")], axis=1),
            process_cpu_ns,
            read_counts([*parts], [part.reuse for part in each]),
            read_counts([*parts], [part.group_rows for part in each]),
            read_counts([*parts], [part.group_bytes for part in each]),
            *(None if each is None else np.nan_to_num(each) for each in branches),
        )


class _Scattered:
    """Columns of the rows of parts, each figure in the row of its instance; NaN where there is none.

    ``of_rows`` has the row of each instance that was read, ``part`` the number of the part that it is in.
    """

    def __init__(self, layout: TaskLayout, parts: Sequence[PartReading]) -> None:
        self._layout = layout
        self._read, self.of_rows, kept = self.rows(together(INSTANCES, [part.instances for part in parts]))
        part = np.repeat(np.arange(len(parts)), [len(part.instances) for part in parts])
        self.part = part if kept is None else part[kept]

    def rows(self, read: Rows) -> tuple[Rows, Numbers, Bools | None]:
        """Return what was read of instances that are there, their rows, and which part of it that is, None: all."""
        found, places, kept = self._layout.places.kept(read, "task")
        return found, self._layout.first[found["task"]] + places, kept

    def __call__(self, name: str) -> Floats:
        values = np.full(self._layout.count, NAN)
        values[self.of_rows] = self._read[name]
        return values


def _logs(figure: _Scattered, parts: Sequence[PartReading]) -> LogReadings:
    found, rows, kept = figure.rows(together(PARTITIONS, [part.partitions for part in parts]))
    names = tuple(chain.from_iterable(part.partition_names for part in parts))
    if kept is not None:
        names = tuple(compress(names, kept.tolist()))
    return LogReadings(rows, names, found["consumed"].copy(), found["behind"].copy(), found["appended"].copy())


def _budgets(graph: ExecutionGraph, options: LoopOptions, changed: Mapping[str, int | None]) -> Budgets:
    """Return the key groups of each task, and the budgets of state of each instance: now, and as its program says."""
    groups: list[int] = []
    now: list[float] = []
    first: list[float] = []
    for task in graph.tasks:
        # As the builder deals them out: never fewer than instances.
        groups.append(max(options.key_groups, task.parallelism))
        keyed = [node.name for operator in task.operators if lies_by_key(graph, node := graph.node(operator))]
        for budgets, own in ((now, changed), (first, dict[str, int | None]())):
            sizes = [own.get(name, options.state_bytes) for name in keyed]
            is_bounded = all(size is not None for size in sizes) or not is_stateful(graph, task)
            budgets += [float(sum(size or 0 for size in sizes)) if is_bounded else NAN] * task.parallelism
    return np.array(groups, np.int64), np.array(now, np.float64), np.array(first, np.float64)
