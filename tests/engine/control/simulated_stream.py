"""A job of one task in a model: a log that grows, a loop that works rows off, a sink that takes only so many.

Steps of 250 ms on a virtual clock; nothing of it knows the controller.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.load_shedding import LoadShedding
from penstock.model.control import Control
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.keep_rates import KeepRates
from penstock.model.shedding_status import SheddingStatus
from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    InputColumns,
    InstanceColumns,
    MachineColumns,
    PartitionColumns,
    QueryColumns,
    TaskColumns,
)
from penstock.shedding.guard import GuardMemory, GuardRule, SourceInput, capped, decided, looked
from penstock.shedding.result_errors import ErrorCounts

STEP_S = 0.25
BEGIN_S = 1_000.0
STEPS = 20
"""Of a cycle."""


def one_query(minimum: float = 0.1) -> ExecutionGraph:
    """Return a plan of one source, one function and one sink under contract."""
    job = ps.Job()
    rows = ps.read(SteadySource(1, keys=1), job=job).name("due")
    rows.map_batches(lambda batch: batch).name("work").write_black_hole().name("sink").with_min_accuracy(minimum)
    return job.plan(1)


@dataclass
class SimulatedStream:
    """``fixed``: the share of the loop's time that goes anyway; ``row_s``: time a kept row takes; ``sink_rate``: rows/s
    that the sink takes, while the loop waits or, if it ``blocks``, within its steps; it may change with the time since
    the begin, in seconds. ``lost``: the share of its time that it cannot use; ``steps``: those a second, however many
    rows there are, of ``step_s`` each. ``noise``: of readings, relative.
    """

    row_s: float
    fixed: float = 0.0
    sink_rate: float | Callable[[float], float] = np.inf
    blocks: bool = False
    minimum: float = 0.1
    lost: float = 0.0
    steps: float = 0.0
    step_s: float = 0.0
    fills: bool = False
    stolen: float = 0.0
    noise: float = 0.0
    seed: int = 0
    guards: bool = True
    control: Control = field(default_factory=lambda: Control("qod", "act"))

    def __post_init__(self) -> None:
        self.graph = self.plan()
        self.shedding = LoadShedding(self.graph, self.control)
        self.random = np.random.default_rng(self.seed)
        self.memory = GuardMemory()
        self.rates = KeepRates()
        self.infeasible = ""
        self.status: SheddingStatus | None = None
        self.rule = GuardRule()
        self.offered = self.read = 0.0
        self.time_s = BEGIN_S
        self.cycles = 0
        self.taken_steps = 0.0

    def plan(self) -> ExecutionGraph:
        """Return the plan of the job."""
        return one_query(self.minimum)

    def errors(self, rate: float) -> Mapping[str, ErrorCounts]:
        """Return the errors of the rows of a cycle in which so many rows/s come."""
        return {}

    @property
    def lag(self) -> float:
        """Rows that wait."""
        return self.offered - self.read

    @property
    def keep(self) -> float:
        """The rate in force."""
        return self.rates.sources.get("due", 1.0)

    def cycle(self, rate: float) -> float:
        """Let a cycle pass in which so many rows/s come; return the rate in force after it."""
        offered, read, kept, self.taken_steps = self.offered, self.read, 0.0, 0.0
        busy = used = 0.0
        for _ in range(STEPS):
            self.offered += rate * STEP_S
            keep = self.keep
            passed_s = self.time_s - BEGIN_S
            sink_rate = self.sink_rate(passed_s) if callable(self.sink_rate) else self.sink_rate
            row_s = self.row_s + (1.0 / sink_rate if self.blocks else 0.0)
            anyway = self.fixed + self.steps * self.step_s
            room = (1.0 - self.lost - self.stolen - anyway) * STEP_S / row_s
            if not self.blocks:
                room = min(room, sink_rate * STEP_S)
            taken = min(self.lag, room / keep)
            self.read += taken
            kept += taken * keep
            worked = min(1.0, anyway + taken * keep * row_s / STEP_S)
            self.taken_steps += self.steps * STEP_S
            if self.fills:
                spare = max(0.0, 1.0 - self.lost - self.stolen - worked)
                self.taken_steps += spare * STEP_S / self.step_s
                worked += spare
            used += worked * STEP_S
            worked = min(1.0, worked + self.stolen)
            busy += worked * STEP_S
            self.time_s += STEP_S
            if self.guards and self.cycles:
                inputs = {"due": SourceInput(self.offered, self.read)}
                self.memory = looked(self.rule, self.memory, self.shedding.shedders, self.time_s, worked, inputs)
                self.rates = capped(self.shedding.shedders, self.memory)
        snapshot = self._snapshot(self.offered - offered, self.read - read, kept, (busy, used))
        self.cycles += 1
        outcome = self.shedding.cycle(snapshot, self.rates, self.errors(rate))
        self.status = None if outcome is None else outcome.status
        self.infeasible = "" if outcome is None else outcome.status.infeasible
        rates = KeepRates() if outcome is None else outcome.rates
        self.memory = decided(self.rule, self.memory, self.shedding.shedders, rates)
        self.rates = capped(self.shedding.shedders, self.memory)
        return self.keep

    def _snapshot(self, appended: float, consumed: float, kept: float, times_s: tuple[float, float]) -> ClusterSnapshot:
        window_s = STEPS * STEP_S
        off_by = 1.0 + self.noise * float(self.random.standard_normal())
        busy_s, used_s = (min(window_s, each_s * off_by) for each_s in times_s)
        name = self.graph.name(self.graph.tasks[0])
        return ClusterSnapshot(
            self.cycles + 1,
            self.time_s,
            window_s,
            applications=ApplicationColumns(("a",)),
            tasks=TaskColumns((name,), [0], [True], [True], [False], [False], [1], [0]),
            queries=QueryColumns(("sink",), [0], [0.0], [self.minimum]),
            machines=MachineColumns(("m",), [1.0], [busy_s / window_s * 100.0]),
            instances=InstanceColumns(
                [0],
                [0],
                [0],
                [True],
                records_in=[kept],
                busy_ns=[busy_s * 1e9],
                cpu_ns=[used_s * 1e9],
                age_s=[1e3],
                queue_rows=[0.0],
                steps=[self.taken_steps] if self.taken_steps else None,
            ),
            inputs=InputColumns([], [], offered=[]),
            partitions=PartitionColumns([0], [appended], [consumed], end_offset=[self.offered], position=[self.read]),
        )
