"""A job that is made up: hundreds or thousands of instances, all full, as their task managers would tell its head.

What they take follows from the keep rates that were set. `control_cost` and `tick_cost` run the control of it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.job_control import TICK_NS, JobControl, JobPlaces, KeepOrder
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.part_reading import (
    INSTANCE_COLUMNS,
    INSTANCES,
    PARTITIONS,
    RECEIVED,
    SENT,
    PartReading,
    edges_between_tasks,
)
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.part_readings import keep_of, part_of, said
from penstock.model.execution_graph import ExecutionGraph

Row = tuple[Any, ...]
"""A row of a table of readings."""

PARALLELISM = 10
ON_MANAGER = 25
"""Instances of each task manager."""

OVERLOAD = 2.0
KEPT_PER_S = 1_000.0
"""Rows that an instance takes in a second."""

_STATE_BYTES = float(48 << 20)


def tick(head: JobControl, job: "MadeUpJob", heard: Mapping[str, bytes]) -> KeepOrder | None:
    """Let a head take in what all task managers say, and decide; return what it orders, encoded on the way to each."""
    for name, data in heard.items():
        message = ms.decode_for_head(data)
        assert isinstance(message, ms.Readings)
        head.hear(name, message.machine, part_of(message), job.now_ns, keep_of(message))
    decided = head.tick(job.places(), job.now_ns)
    if decided is not None:
        # As the head does: made once, and encoded for each.
        said_to_all = ms.SetKeep.of(decided.rates, decided)
        for _ in heard:
            ms.encode(said_to_all)
    return decided


def plan(instances: int) -> ExecutionGraph:
    """Return a plan of as many queries as it takes: each a source, and a count by key behind an exchange."""
    job = ps.Job()
    for number in range(instances // (2 * PARALLELISM)):
        source = SteadySource(1_000, keys=100, partitions=PARALLELISM)
        rows = ps.read(source, job=job).name(f"source {number}")
        counts = rows.key_by("key").agg(n=ps.count()).name(f"counts {number}")
        counts.write_black_hole(mode="changelog").name(f"query {number}").with_min_accuracy(0.1 + number % 5 / 10)
    return job.plan(PARALLELISM)


class MadeUpJob:
    """Counters of a job whose instances are all full; what they take follows from the rates that were set."""

    def __init__(self, graph: ExecutionGraph, cores: int = 1) -> None:
        """Begin with nothing counted; each task manager has so many cores, all used up."""
        self._cores = cores
        self.graph = graph
        self.now_ns = 0
        names = [name for task in graph.tasks for name in graph.instances(task)]
        self.instances = len(names)
        self.managers = [f"tm-{number}" for number in range(-(-len(names) // ON_MANAGER))]
        self._place = {name: self.managers[at // ON_MANAGER] for at, name in enumerate(names)}
        owners = [(task, number) for task in range(len(graph.tasks)) for number in range(PARALLELISM)]
        self._of = {name: owners[at * ON_MANAGER : (at + 1) * ON_MANAGER] for at, name in enumerate(self.managers)}
        self._edges = edges_between_tasks(graph)
        self._tasks = {task.id: row for row, task in enumerate(graph.tasks)}
        self._taken = 0.0

    def places(self) -> JobPlaces:
        """Return where everything is."""
        return JobPlaces(self.managers, "caller", self._place, dict.fromkeys(self.managers, 0.0))

    def readings(self, order: KeepOrder | None) -> Mapping[str, bytes]:
        """Return what each task manager says a second later."""
        self.now_ns += TICK_NS
        self._taken += KEPT_PER_S
        keep = None if order is None else ms.SetKeep.of(order.rates)
        return {name: ms.encode(self._reading(at, name, keep)) for at, name in enumerate(self.managers)}

    def _reading(self, core: int, name: str, keep: ms.SetKeep | None) -> ms.Readings:
        owned, seconds = self._of[name], self.now_ns / 1e9
        busy_ns = seconds * 1e9 * 0.99 * self._cores / ON_MANAGER
        figures = {
            "is_running": 1.0,
            "busy_ns": busy_ns,
            "core_wait_ns": seconds * 1e9 - busy_ns,
            "cpu_ns": busy_ns,
            "row_ns": 10.0 * seconds * 1e9,
            "records_in": self._taken,
            "hits": 0.6 * self._taken,
            "misses": 0.4 * self._taken,
            "waited_ns": 0.1 * busy_ns,
            "state_bytes": _STATE_BYTES,
        }
        of_each = tuple(figures.get(column, 0.0) for column in INSTANCE_COLUMNS)
        sent, received, logs = list[Row](), list[Row](), list[Row]()
        for number, edge in enumerate(self._edges):
            producer, consumer = (self._tasks[self.graph.task_of(end).id] for end in (edge.producer, edge.consumer))
            sent += [(number, one, self._taken) for task, one in owned if task == producer]
            received += [(number, one, self._taken, 10.0) for task, one in owned if task == consumer]
            logs += [
                (task, one, self._taken, seconds * KEPT_PER_S, OVERLOAD * seconds * KEPT_PER_S)
                for task, one in owned
                if task == producer
            ]
        cores, wall_ns = self._cores, int(seconds * 1e9)
        used_ns = int(0.99 * cores * wall_ns)
        machine = MachineReading(self.now_ns, f"host {core}", tuple(range(cores)), used_ns, (wall_ns,) * cores, cores)
        part = PartReading(
            self.now_ns,
            np.array([(task, number, *of_each) for task, number in owned], INSTANCES),
            np.array(sent, SENT),
            np.array(received, RECEIVED),
            np.array(logs, PARTITIONS),
            tuple(str(one) for _, one, *_ in logs),
        )
        return said(machine, part, keep)
