"""The instances, edges and queries of a plan as columns: what follows from the plan alone, worked out once.

Read by `reading`, which puts counters in the rows of it, and by `cluster_snapshot`. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.engine.control.instance_places import InstancePlaces
from penstock.engine.control.part_reading import Rows, edges_between_tasks, is_stateful
from penstock.engine.moves.movable import refusal
from penstock.model.columns import Bools, Floats, Ints
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.model.snapshot import EdgeColumns, QueryColumns

Numbers = NDArray[np.int64]

TaskRows = Mapping[OperatorId, int]
"""The row of each operator's task."""


class EdgeEnds:
    """The instances at one end of each edge, edge by edge: the number of the ``edge``, and the row of the instance."""

    def __init__(self, layout: "TaskLayout", ends: Sequence[OperatorId]) -> None:
        """``ends``: an operator of the task at that end of each edge."""
        tasks = [layout.row[end] for end in ends]
        counts = layout.parallelism[tasks]
        self._starts = np.cumsum(counts) - counts
        self._places = InstancePlaces([layout.graph.tasks[task] for task in tasks])
        self.edge: Ints = np.repeat(np.arange(len(tasks), dtype=np.int32), counts)
        self.instance: Ints = (layout.first[tasks] - self._starts).repeat(counts).astype(np.int32)
        self.instance += np.arange(len(self.edge), dtype=np.int32)
        for column in (self.edge, self.instance):
            column.flags.writeable = False

    def columns(self, rows: Rows, *names: str) -> list[Floats]:
        """Return figures that came with an edge and the number of an instance, in these rows; NaN: there is none."""
        kept, places, _ = self._places.kept(rows, "edge")
        at = self._starts[kept["edge"]] + places
        found = [np.full(len(self.edge), np.nan) for _ in names]
        for column, name in zip(found, names, strict=True):
            column[at] = kept[name]
        return found


@dataclass(frozen=True)
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
    def senders(self) -> EdgeEnds:
        """The instances at the producing end of each edge."""
        return EdgeEnds(self, [edge.producer for edge in self.edges])

    @cached_property
    def receivers(self) -> EdgeEnds:
        """The instances at the consuming end of each edge."""
        return EdgeEnds(self, [edge.consumer for edge in self.edges])

    @cached_property
    def places(self) -> InstancePlaces:
        """The places of instances in their tasks."""
        return InstancePlaces(self.graph.tasks)

    @cached_property
    def keeps_state(self) -> Bools:
        """Which tasks keep keyed state."""
        return np.array([is_stateful(self.graph, task) for task in self.graph.tasks], np.bool_)

    @cached_property
    def is_source(self) -> Bools:
        """Which tasks read."""
        nodes = (self.graph.node(task.head) for task in self.graph.tasks)
        return np.array([isinstance(node.spec, SourceSpec) for node in nodes], np.bool_)

    @cached_property
    def is_sink(self) -> Bools:
        """Which tasks send to no other."""
        feeding = {self.row[edge.producer] for edge in self.edges}
        return np.array([number not in feeding for number in range(len(self.graph.tasks))], np.bool_)

    @cached_property
    def is_keyed(self) -> Bools:
        """Which tasks get rows by their keys."""
        keyed = {self.row[edge.consumer] for edge in self.edges if edge.exchange == "hash"}
        return np.array([number in keyed for number in range(len(self.graph.tasks))], np.bool_)

    @cached_property
    def movable(self) -> Sequence[int]:
        """The rows of tasks whose key groups can change their instances while the job runs."""
        return [row for row, task in enumerate(self.graph.tasks) if refusal(self.graph, task.id) is None]

    @cached_property
    def task_names(self) -> tuple[str, ...]:
        """The names of tasks."""
        return tuple(map(self.graph.name, self.graph.tasks))

    @cached_property
    def task(self) -> Numbers:
        """The row of each instance's task."""
        return np.repeat(np.arange(len(self.parallelism)), self.parallelism)

    @cached_property
    def number(self) -> Ints:
        """The place of each instance in its task."""
        return (np.arange(self.count) - self.first[self.task]).astype(np.int32)

    @cached_property
    def edge_columns(self) -> EdgeColumns:
        """The edges, as a snapshot has them."""
        edges = self.edges
        return EdgeColumns(
            np.array([self.row[edge.producer] for edge in edges], np.int32),
            np.array([self.row[edge.consumer] for edge in edges], np.int32),
            np.array([edge.exchange == "rebalance" for edge in edges], np.bool_),
            is_forward=np.array([edge.exchange == "forward" for edge in edges], np.bool_),
        )

    @cached_property
    def query_columns(self) -> QueryColumns:
        """The queries, as a snapshot has them."""
        sinks = [
            (row, node.name, node.spec)
            for row, task in enumerate(self.graph.tasks)
            for node in map(self.graph.node, task.operators)
            if isinstance(node.spec, SinkSpec)
        ]
        return QueryColumns(
            tuple(name for _, name, _ in sinks),
            np.array([row for row, _, _ in sinks], np.int32),
            np.array([spec.priority for _, _, spec in sinks], np.float64),
            np.array([spec.min_accuracy for _, _, spec in sinks], np.float64),
        )
