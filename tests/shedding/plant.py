"""A cluster that obeys: rows flow, instances share their machine's cores, and each step gives the next snapshot."""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.plan import Decision, ShedPlan
from penstock.model.snapshot import ClusterSnapshot
from tests.shedding.clusters import Shape, random_snapshot

WINDOW_S = 5.0
_ROUNDS = 4


@dataclass
class Plant:
    """`rate`: rows/s that a source task's log is given; `cost`: percent of a core for a row/s, by task.

    Rows that an instance has no CPU for are lost at its input; nothing waits, so that only the loop is tested.
    """

    base: ClusterSnapshot
    rate: np.ndarray
    cost: np.ndarray
    source_keep: dict[int, float] = field(default_factory=dict)
    edge_keep: dict[int, float] = field(default_factory=dict)
    cycles: int = 0

    def obey(self, decision: Decision) -> None:
        """Set the shedders as a plan says; another decision leaves them as they are."""
        if isinstance(decision, ShedPlan):
            self.source_keep, self.edge_keep = dict(decision.source_keep), dict(decision.edge_keep)

    def keeps(self) -> np.ndarray:
        """Return what all shedders keep, those of sources first."""
        sources = [self.source_keep.get(t, 1.0) for t in range(len(self.base.tasks))]
        return np.array(sources + [self.edge_keep.get(e, 1.0) for e in range(len(self.base.edges))])

    def step(self) -> ClusterSnapshot:
        """Let a window pass under the shedders as they are; CPU that machines lack is shared out max-min."""
        base = self.base
        task, machine = base.instances.task, base.instances.machine
        producer, consumer = base.edges.producer, base.edges.consumer
        each = np.bincount(task, minlength=len(base.tasks))
        granted = np.full(len(task), 100.0)
        for _ in range(_ROUNDS):
            arriving, taken = self._flow(task, each, granted)
            granted = _shares(np.minimum(100.0, arriving * self.cost[task]), machine, 100.0 * base.machines.cores)
        _, taken = self._flow(task, each, granted)
        cpu = taken * self.cost[task]
        total = np.bincount(task, taken, len(each))
        partition = base.partitions.instance
        appended = (self.rate / each)[task[partition]] / np.bincount(partition, minlength=len(task))[partition]
        self.cycles += 1
        return replace(
            base,
            number=self.cycles,
            time_s=self.cycles * WINDOW_S,
            window_s=WINDOW_S,
            instances=replace(base.instances, records_in=taken * WINDOW_S, cpu_ns=cpu * WINDOW_S * 1e7),
            machines=replace(base.machines, cpu_percent=np.bincount(machine, cpu, len(base.machines))),
            outputs=replace(base.outputs, records_out=taken[base.outputs.instance] * WINDOW_S),
            inputs=replace(base.inputs, offered=(total[producer] / each[consumer])[base.inputs.edge] * WINDOW_S),
            partitions=replace(base.partitions, appended=appended * WINDOW_S),
        )

    def _flow(self, task: np.ndarray, each: np.ndarray, granted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows/s that arrive at every instance and that it takes; tasks are numbered along the data."""
        producer, consumer = self.base.edges.producer, self.base.edges.consumer
        total, arriving, taken = np.zeros(len(each)), np.zeros(len(task)), np.zeros(len(task))
        for t in range(len(each)):
            into = np.flatnonzero(consumer == t)
            if len(into):
                arrives = sum(self.edge_keep.get(e, 1.0) * total[producer[e]] for e in into.tolist())
            else:
                arrives = self.rate[t] * self.source_keep.get(t, 1.0)
            own = task == t
            arriving[own] = arrives / each[t]
            taken[own] = np.minimum(arriving[own], granted[own] / self.cost[t])
            total[t] = taken[own].sum()
        return arriving, taken


def _shares(demand: np.ndarray, machine: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    granted = demand.copy()
    for m, cpu in enumerate(capacity.tolist()):
        rows = np.flatnonzero(machine == m)
        if demand[rows].sum() <= cpu:
            continue
        left = cpu
        for place, i in enumerate(rows[np.argsort(demand[rows])].tolist()):
            granted[i] = min(demand[i], left / (len(rows) - place))
            left -= granted[i]
    return granted


def random_plant(rng: np.random.Generator, shape: Shape) -> Plant:
    """Return a plant of random applications whose load may be several times what their machines carry."""
    base = random_snapshot(rng, replace(shape, zeros=0.0, young=0.0, missing=0.0))
    tasks = len(base.tasks)
    return Plant(base, rng.uniform(100, 1000, tasks), rng.uniform(0.01, 0.3, tasks))
