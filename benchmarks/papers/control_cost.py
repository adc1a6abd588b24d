"""The cost of load shedding in the head: a cycle of collecting, deciding and sending, and the share of a core it takes.

``python -m penstock.benchmarks.papers.control_cost [INSTANCES ...]`` runs the control of a job that is offered twice
what it can take, as its head does: readings come as messages from each task manager once a second, a cycle is every
fifth (Stream-Economics, Figure 6: 115 ms at 2,000 instances). The instances are made up, all else is what runs.
"""

import gc
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.job_control import TICK_NS, JobControl, JobPlaces, KeepOrder
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.part_reading import (
    INSTANCE_COLUMNS,
    INSTANCES,
    PARTITIONS,
    RECEIVED,
    SENT,
    edges_between_tasks,
    encode_table,
)
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.part_readings import keep_of, part_of
from penstock.model.config import LoopOptions
from penstock.model.control import Control
from penstock.model.execution_graph import ExecutionGraph

Row = tuple[Any, ...]
"""A row of a table of readings."""

PARALLELISM = 10
ON_MANAGER = 25
"""Instances of each task manager."""

SIZES = (500, 2_000)
CYCLES = 12
WARM = 3
"""Cycles before those that count."""

OVERLOAD = 2.0
KEPT_PER_S = 1_000.0
"""Rows that an instance takes in a second."""


@dataclass(frozen=True, slots=True)
class ControlCost:
    """Medians over cycles.

    ``cycle_ms``: from the first reading that is decoded to the last order that is encoded, ``cycle_cpu_ms`` of it on a
    core; ``core_percent``: what all readings and ticks take of a core; ``shed``: sources in the last order.
    """

    instances: int
    managers: int
    cycle_ms: float
    cycle_cpu_ms: float
    core_percent: float
    shed: int


def measure(instances: int, cycles: int = CYCLES) -> ControlCost:
    """Run the control of a job with about so many instances for some cycles."""
    control = Control("qod", "act")
    job = _MadeUpJob(_plan(instances))
    shedding = LoadShedding(job.graph, control)
    head = JobControl("cost", job.graph, LoopOptions(), 0, shedding=shedding)
    walls, cpus, percents, order = list[float](), list[float](), list[float](), None
    gc.collect()
    for cycle in range(WARM + cycles):
        own = 0
        for second in range(control.period_s):
            said = job.readings(order)
            began, began_own = time.perf_counter_ns(), time.process_time_ns()
            for name, data in said.items():
                message = ms.decode_for_head(data)
                assert isinstance(message, ms.Readings)
                head.hear(name, message.machine, part_of(message), job.now_ns, keep_of(message))
            decided = head.tick(job.places(), job.now_ns)
            if decided is not None:
                # As the head does: made once, and encoded on the way to each.
                order, said_to_all = decided, ms.SetKeep.of(decided.rates, decided)
                for _ in said:
                    ms.encode(said_to_all)
            took = time.process_time_ns() - began_own
            own += took
            if second == control.period_s - 1 and cycle >= WARM:
                walls.append((time.perf_counter_ns() - began) / 1e6)
                cpus.append(took / 1e6)
        if cycle >= WARM:
            percents.append(own / (control.period_s * 1e7))
    shed = 0 if order is None else len(order.rates.sources)
    wall, cpu, percent = (float(np.median(each)) for each in (walls, cpus, percents))
    return ControlCost(job.instances, len(job.managers), wall, cpu, percent, shed)


def _plan(instances: int) -> ExecutionGraph:
    """Return a plan of as many queries as it takes: each a source, and a count by key behind an exchange."""
    job = ps.Job()
    for number in range(instances // (2 * PARALLELISM)):
        source = SteadySource(1_000, keys=100, partitions=PARALLELISM)
        rows = ps.read(source, job=job).name(f"source {number}")
        counts = rows.key_by("key").agg(n=ps.count()).name(f"counts {number}")
        counts.write_black_hole(mode="changelog").name(f"query {number}").with_min_accuracy(0.1 + number % 5 / 10)
    return job.plan(PARALLELISM)


class _MadeUpJob:
    """Counters of a job whose instances are all full; what they take follows from the rates that were set."""

    def __init__(self, graph: ExecutionGraph) -> None:
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
        return JobPlaces(self.managers, "caller", self._place, dict.fromkeys(self.managers, 0.0))

    def readings(self, order: KeepOrder | None) -> Mapping[str, bytes]:
        """Return what each task manager says a second later."""
        self.now_ns += TICK_NS
        self._taken += KEPT_PER_S
        keep = None if order is None else ms.SetKeep.of(order.rates)
        return {name: ms.encode(self._reading(at, name, keep)) for at, name in enumerate(self.managers)}

    def _reading(self, core: int, name: str, keep: ms.SetKeep | None) -> ms.Readings:
        owned, seconds = self._of[name], self.now_ns / 1e9
        busy_ns = seconds * 1e9 * 0.99 / ON_MANAGER
        figures = {
            "is_running": 1.0,
            "busy_ns": busy_ns,
            "core_wait_ns": seconds * 1e9 - busy_ns,
            "cpu_ns": busy_ns,
            "records_in": self._taken,
        }
        columns: list[list[Any]] = [[task for task, _ in owned], [number for _, number in owned]]
        columns += [[figures.get(column, 0.0)] * len(owned) for column in INSTANCE_COLUMNS]
        sent, received, logs = list[Row](), list[Row](), list[Row]()
        for number, edge in enumerate(self._edges):
            producer, consumer = (self._tasks[self.graph.task_of(end).id] for end in (edge.producer, edge.consumer))
            sent += [(number, one, self._taken) for task, one in owned if task == producer]
            received += [(number, one, self._taken, 10.0) for task, one in owned if task == consumer]
            logs += [
                (task, one, str(one), self._taken, seconds * KEPT_PER_S, OVERLOAD * seconds * KEPT_PER_S)
                for task, one in owned
                if task == producer
            ]
        machine = MachineReading(self.now_ns, f"host {core}", (0,), int(seconds * 1e9 * 0.99), (int(seconds * 1e9),), 1)
        return ms.Readings(
            machine,
            encode_table(_table(columns, INSTANCES)),
            encode_table(_of_rows(sent, SENT)),
            encode_table(_of_rows(received, RECEIVED)),
            encode_table(_of_rows(logs, PARTITIONS)),
            keep,
        )


def _of_rows(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    return _table([list(column) for column in zip(*rows, strict=True)], schema) if rows else schema.empty_table()


def _table(columns: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def main(sizes: Sequence[int]) -> None:
    """Print one line a size."""
    print(f"{'instances':>10} {'managers':>9} {'cycle ms':>9} {'CPU ms':>8} {'% of a core':>12} {'sources shed':>13}")
    for size in sizes or SIZES:
        cost = measure(size)
        print(
            f"{cost.instances:>10,} {cost.managers:>9} {cost.cycle_ms:>9.1f} "
            f"{cost.cycle_cpu_ms:>8.1f} {cost.core_percent:>12.1f} {cost.shed:>13}"
        )


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
