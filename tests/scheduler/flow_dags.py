"""Random applications with branches, merges and several sources for tests of Flink-ER; their flow by networkx."""

from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np

from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    EdgeColumns,
    InstanceColumns,
    MachineColumns,
    OutputColumns,
    PartitionColumns,
    TaskColumns,
)

WINDOW_S = 5.0
FREE, FORWARD, FIXED = "free", "forward", "fixed"


@dataclass(frozen=True)
class Dag:
    """Tasks 0, 1, ... in the order of the data; the first ``len(offered)`` are sources, of which ``lagging`` lags.

    ``rates`` and ``shares`` by task and instance; ``edges``: producer, consumer, rows out for a row in, and exchange.
    """

    offered: list[float]
    lagging: int
    rates: list[list[float]]
    shares: list[list[float]]
    edges: list[tuple[int, int, float, str]]

    def needs(self) -> list[float]:
        """Return what must enter each task, rows a second."""
        needs = self.offered + [0.0] * (len(self.rates) - len(self.offered))
        for producer, consumer, gain, _ in sorted(self.edges):
            needs[consumer] += needs[producer] * gain
        return needs

    def below(self) -> set[int]:
        """Return the tasks below the lagging source, and itself."""
        found = {self.lagging}
        for producer, consumer, _, _ in sorted(self.edges):
            if producer in found:
                found.add(consumer)
        return found

    def exchange(self, task: int) -> str:
        """Return how rows find an instance of a task."""
        kinds = {kind for _, consumer, _, kind in self.edges if consumer == task}
        return kinds.pop() if len(kinds) == 1 else FIXED


def random_dag(seed: int) -> Dag:
    """Return a random application whose sources do not lack capacity."""
    random = np.random.default_rng(seed)
    sources, tasks = int(random.integers(1, 3)), int(random.integers(3, 8))
    counts = [1] * sources + random.integers(1, 4, tasks - sources).tolist()
    edges = []
    for consumer in range(sources, tasks):
        above = random.choice(consumer, size=min(consumer, int(random.integers(1, 3))), replace=False)
        for producer in sorted(above.tolist()):
            alike = counts[producer] == counts[consumer]
            kind = str(random.choice([FREE, FORWARD, FIXED] if alike else [FREE, FIXED]))
            edges.append((producer, consumer, float(random.uniform(0.2, 3.0)), kind))
    return Dag(
        random.uniform(500, 2000, sources).tolist(),
        int(random.integers(sources)),
        [[1e9]] * sources + [random.uniform(300, 6000, count).tolist() for count in counts[sources:]],
        [random.dirichlet(np.full(count, 5.0)).tolist() for count in counts],
        edges,
    )


def dag_snapshot(dag: Dag, read: float = 0.1) -> ClusterSnapshot:
    """Return the state of the application while its sources read this share of what is offered."""
    counts = [len(rates) for rates in dag.rates]
    first = np.concatenate([[0], np.cumsum(counts)])[:-1]
    task = np.repeat(np.arange(len(counts)), counts)
    share = np.concatenate(dag.shares)
    rows = np.array(dag.needs())[task] * read * share * WINDOW_S
    zeros, tasks, sources = np.zeros(len(task)), len(counts), len(dag.offered)
    producer, consumer = (np.array([edge[end] for edge in dag.edges], np.int32) for end in (0, 1))
    out = np.array([gain for _, _, gain, _ in dag.edges]) * np.array(dag.needs())[producer] * read * WINDOW_S
    return ClusterSnapshot(
        1,
        WINDOW_S,
        WINDOW_S,
        applications=ApplicationColumns(("job",)),
        tasks=TaskColumns(
            tuple(f"t{number}" for number in range(tasks)),
            np.zeros(tasks),
            np.arange(tasks) < sources,
            np.bincount(producer, minlength=tasks) == 0,
            np.zeros(tasks, np.bool_),
            np.zeros(tasks, np.bool_),
            np.ones(tasks),
            np.zeros(tasks),
        ),
        edges=EdgeColumns(
            producer,
            consumer,
            np.array([kind == FREE for *_, kind in dag.edges], np.bool_),
            is_forward=np.array([kind == FORWARD for *_, kind in dag.edges], np.bool_),
        ),
        machines=MachineColumns(("m",), np.array([64.0])),
        instances=InstanceColumns(
            task,
            np.arange(len(task)) - first[task],
            zeros,
            np.ones(len(task)),
            records_in=rows,
            busy_ns=rows / np.concatenate(dag.rates) * 1e9,
            remote_wait_ns=zeros,
            core_wait_ns=zeros,
        ),
        outputs=OutputColumns(np.arange(len(dag.edges)), first[producer], records_out=out),
        partitions=PartitionColumns(
            np.arange(sources),
            appended=np.array(dag.offered) * WINDOW_S,
            consumed=np.array(dag.offered) * read * WINDOW_S,
            end_offset=np.where(np.arange(sources) == dag.lagging, 1e6, 0.0),
            position=np.zeros(sources),
        ),
    )


def paced(dag: Dag) -> float:
    """Return the share of the need that comes through where all branches keep the pace of the slowest."""
    return min([1.0, *[sum(_lanes(dag, stage)) for stage in _stages(dag)]])


def minimum_cut(dag: Dag) -> tuple[float, set[int]]:
    """Return the most that flows of the need below the lagging source, and the tasks at the minimum cut.

    Every instance is an edge between its input and its output, every exchange goes through a hub. Each way from the
    source to an end carries an equal part of the need.
    """
    stages = _stages(dag)
    stage_of = {task: number for number, stage in enumerate(stages) for task in stage}
    between = nx.DiGraph()
    between.add_nodes_from(range(len(stages)))
    for producer, consumer, _, _ in dag.edges:
        if producer in stage_of and stage_of[producer] != stage_of[consumer]:
            between.add_edge(stage_of[producer], stage_of[consumer])
    ends = [number for number in between if not between.out_degree(number)]
    ways = [way for end in ends for way in nx.all_simple_paths(between, 0, end)] if 0 not in ends else [[0]]
    part = {number: sum(number in way for way in ways) / len(ways) for number in between}
    graph = nx.DiGraph()
    graph.add_edge("log", ("hub", 0), capacity=1.0)
    for number, stage in enumerate(stages):
        for lane, capacity in enumerate(_lanes(dag, stage)):
            graph.add_edge(("hub", number), (number, lane, "in"))
            graph.add_edge((number, lane, "in"), (number, lane, "out"), capacity=capacity * part[number])
            graph.add_edge((number, lane, "out"), ("behind", number) if between.out_degree(number) else "end")
    for above, below in between.edges:
        along = sum((above, below) in pairwise(way) for way in ways) / len(ways)
        graph.add_edge(("behind", above), ("hub", below), capacity=along)
    value, (side, _) = nx.minimum_cut(graph, "log", "end")
    cut = {vertex[0] for vertex in side if vertex[-1] == "in" and (*vertex[:2], "out") not in side}
    return float(value), {task for number in cut for task in _narrowest(dag, stages[number])}


def narrowest(dag: Dag) -> set[int]:
    """Return the tasks that pace the others, if any is short."""
    least = paced(dag)
    short = [stage for stage in _stages(dag) if sum(_lanes(dag, stage)) <= min(least, 1 - 1e-9)]
    return {task for stage in short for task in _narrowest(dag, stage)}


def _capacities(dag: Dag, stage: list[int]) -> list[list[float]]:
    """Return the shares of the need that the instances of each task can take; of fixed ones, all together."""
    needs, head = dag.needs(), stage[0]
    capacities = [[rate / needs[task] for rate in dag.rates[task]] for task in stage]
    if dag.exchange(head) == FREE:
        return capacities
    return [[min(most / part for most, part in zip(capacities[0], dag.shares[head], strict=True))]]


def _lanes(dag: Dag, stage: list[int]) -> list[float]:
    return [min(own) for own in zip(*_capacities(dag, stage), strict=True)]


def _narrowest(dag: Dag, stage: list[int]) -> set[int]:
    return {stage[int(np.argmin(own))] for own in zip(*_capacities(dag, stage), strict=True)}


def _stages(dag: Dag) -> list[list[int]]:
    """Return the tasks in series, together those whose instances only go on with the rows of one free task."""
    stages: dict[int, list[int]] = {}
    head: dict[int, int] = {}
    for task in sorted(dag.below()):
        above = {producer for producer, consumer, _, _ in dag.edges if consumer == task}
        heads = {head.get(producer) for producer in above}
        leads = heads.pop() if len(heads) == 1 else None
        if dag.exchange(task) == FORWARD and leads is not None and dag.exchange(leads) == FREE:
            head[task] = leads
            stages[leads].append(task)
        else:
            head[task] = task
            stages[task] = [task]
    return list(stages.values())
