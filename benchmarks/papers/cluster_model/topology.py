"""The instances of a simulated cluster and what joins them, as arrays in the order in which rows flow.

Made anew whenever parallelism, owners, routes or places change; the step reads nothing else of the specs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.cache import zipf_shares
from penstock.benchmarks.papers.cluster_model.spec import ClusterSpec
from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.model.columns import Bools, Floats

Indices = NDArray[np.int64]


@dataclass
class Layout:
    """The changeable layout: instances of each task and their machines, owners of buckets, routes, keep probabilities.

    ``machines`` by task and number; -1 waits for a place. ``bucket_shares`` are parts of a keyed task's rows.
    """

    machines: list[list[int]]
    owners: dict[int, Indices]
    bucket_shares: dict[int, Floats]
    routes: dict[int, Floats]

    def parallelism(self, task: int) -> int:
        """Return how many instances a task has."""
        return len(self.machines[task])


@dataclass(frozen=True, slots=True)
class Level:
    """Slices of the tasks that are equally far from the sources: of instances, of their inputs and of their outputs.

    ``consumed`` are the edges that end in it, with ``starts`` of their inputs in the slice; ``produced`` those that
    begin in it, of which ``output_edge`` says which each output belongs to. ``even``: 1 / inputs of the instance.
    """

    instances: slice
    inputs: slice
    outputs: slice
    consumed: Indices
    starts: Indices
    produced: Indices
    output_edge: Indices
    input_instance: Indices
    output_instance: Indices
    even: Floats


@dataclass(frozen=True, slots=True)
class Topology:
    """Arrays over instances, inputs (edge and consumer instance) and outputs (edge and producer instance).

    ``slot`` is an instance's place in what is counted, the same for life: first of its task, plus its number.
    ``place`` is its machine, the first one if it has none yet.
    """

    levels: tuple[Level, ...]
    task: Indices
    number: Indices
    machine: Indices
    place: Indices
    application: Indices
    slot: Indices
    first: Indices
    input_edge: Indices
    input_instance: Indices
    input_share: Floats
    input_slot: Indices
    output_edge: Indices
    output_instance: Indices
    output_slot: Indices
    edge_machine_share: Floats
    edge_producer_share: Floats

    @property
    def count(self) -> int:
        """Number of instances."""
        return len(self.task)


@dataclass(frozen=True, slots=True)
class Graph:
    """Tasks, edges, machines and applications of a spec by number, and where what they count is kept."""

    application: Indices
    producer: Indices
    consumer: Indices
    level: Indices
    is_source: Bools
    task_slot: Indices
    input_slot: Indices
    output_slot: Indices
    slots: int
    input_slots: int
    output_slots: int


def graph_of(spec: ClusterSpec) -> Graph:
    """Number everything.

    Raises:
        ValueError: an edge begins at a later task than it ends at, or a keyed edge ends at a task that is not keyed.
    """
    tasks = {task.name: index for index, task in enumerate(spec.tasks)}
    applications = {item.name: index for index, item in enumerate(spec.applications)}
    producer = np.array([tasks[edge.producer] for edge in spec.edges], np.int64)
    consumer = np.array([tasks[edge.consumer] for edge in spec.edges], np.int64)
    level = np.zeros(len(tasks), np.int64)
    for edge, above, below in zip(spec.edges, producer, consumer, strict=True):
        if above >= below:
            raise ValueError(f"{edge.producer} is named after {edge.consumer}, which it feeds")
        if edge.exchange == "hash" and not spec.tasks[below].is_keyed:
            raise ValueError(f"{edge.consumer} has a keyed input, and no keys")
    for task in range(len(tasks)):
        above = producer[consumer == task]
        level[task] = 1 + level[above].max() if len(above) else 0
    is_source = np.isin(np.arange(len(tasks)), consumer, invert=True)
    if {task.name for task, first in zip(spec.tasks, is_source, strict=True) if first} != {
        s.task for s in spec.sources
    }:
        raise ValueError("every task without an input reads a log, and no other")
    most = np.array([task.most_parallelism for task in spec.tasks], np.int64)
    return Graph(
        application=np.array([applications[task.application] for task in spec.tasks], np.int64),
        producer=producer,
        consumer=consumer,
        level=level,
        is_source=is_source,
        task_slot=np.cumsum(most) - most,
        input_slot=np.cumsum(most[consumer]) - most[consumer],
        output_slot=np.cumsum(most[producer]) - most[producer],
        slots=int(most.sum()),
        input_slots=int(most[consumer].sum()),
        output_slots=int(most[producer].sum()),
    )


def topology_of(spec: ClusterSpec, graph: Graph, layout: Layout) -> Topology:
    """Return the arrays of a layout."""
    by_level = sorted(range(len(spec.tasks)), key=lambda task: (graph.level[task], task))
    parallelism = np.array([layout.parallelism(task) for task in range(len(spec.tasks))], np.int64)
    task = np.repeat(by_level, parallelism[by_level])
    number = np.concatenate([np.arange(parallelism[item]) for item in by_level])
    machine = np.concatenate([np.array(layout.machines[item], np.int64) for item in by_level])
    first = np.zeros(len(spec.tasks), np.int64)
    first[by_level] = np.cumsum(parallelism[by_level]) - parallelism[by_level]

    place = {item: index for index, item in enumerate(by_level)}
    edges_in = sorted(range(len(spec.edges)), key=lambda edge: (place[int(graph.consumer[edge])], edge))
    edges_out = sorted(range(len(spec.edges)), key=lambda edge: (place[int(graph.producer[edge])], edge))
    inputs = _pairs(edges_in, graph.consumer, parallelism, first)
    outputs = _pairs(edges_out, graph.producer, parallelism, first)
    shares = [edge_shares(spec, graph, layout, edge) for edge in edges_in]
    machines = len(spec.machines)
    topology = Topology(
        levels=tuple(_levels(graph, task, inputs, outputs, edges_in, edges_out)),
        task=task,
        number=number,
        machine=machine,
        place=np.maximum(machine, 0),
        application=graph.application[task],
        slot=graph.task_slot[task] + number,
        first=first,
        input_edge=inputs[0],
        input_instance=inputs[1],
        input_share=np.concatenate(shares) if shares else np.zeros(0),
        input_slot=graph.input_slot[inputs[0]] + number[inputs[1]] if len(inputs[0]) else inputs[0],
        output_edge=outputs[0],
        output_instance=outputs[1],
        output_slot=graph.output_slot[outputs[0]] + number[outputs[1]] if len(outputs[0]) else outputs[0],
        edge_machine_share=np.zeros((len(spec.edges), machines)),
        edge_producer_share=np.zeros((len(spec.edges), machines)),
    )
    for item in range(len(inputs[0])):
        at = machine[inputs[1][item]]
        if at >= 0:
            topology.edge_machine_share[inputs[0][item], at] += topology.input_share[item]
    for edge in range(len(spec.edges)):
        above = machine[task == graph.producer[edge]]
        topology.edge_producer_share[edge] = np.bincount(above[above >= 0], minlength=machines) / max(1, len(above))
    return topology


def edge_shares(spec: ClusterSpec, graph: Graph, layout: Layout, edge: int) -> Floats:
    """Return which part of an edge's rows goes to each instance of its consumer."""
    consumer = int(graph.consumer[edge])
    count = layout.parallelism(consumer)
    if spec.edges[edge].exchange == "hash":
        return tally(layout.owners[consumer], layout.bucket_shares[consumer], count)
    route = layout.routes.get(edge)
    return np.full(count, 1 / count) if route is None or len(route) != count else route


def bucket_shares(key_groups: int, zipf: float, seed: int) -> Floats:
    """Return what part of a keyed task's rows each bucket gets: Zipf(zipf) in an order that the seed shuffles."""
    return np.random.default_rng(seed).permutation(zipf_shares(key_groups, zipf))


def _pairs(edges: Sequence[int], ends: Indices, parallelism: Indices, first: Indices) -> tuple[Indices, Indices]:
    """Return edge and instance of every pair of an edge and an instance at one of its ends."""
    if not edges:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    count = parallelism[ends[edges]]
    return np.repeat(edges, count), np.concatenate(
        [first[ends[edge]] + np.arange(parallelism[ends[edge]]) for edge in edges]
    )


def _levels(
    graph: Graph,
    task: Indices,
    inputs: tuple[Indices, Indices],
    outputs: tuple[Indices, Indices],
    edges_in: Sequence[int],
    edges_out: Sequence[int],
) -> Sequence[Level]:
    levels = []
    for level in range(int(graph.level.max()) + 1):
        rows = _slice(graph.level[task] == level)
        ins = _slice(graph.level[graph.consumer[inputs[0]]] == level)
        outs = _slice(graph.level[graph.producer[outputs[0]]] == level)
        consumed = np.array([edge for edge in edges_in if graph.level[graph.consumer[edge]] == level], np.int64)
        produced = np.array([edge for edge in edges_out if graph.level[graph.producer[edge]] == level], np.int64)
        position: Mapping[int, int] = {int(edge): index for index, edge in enumerate(produced)}
        mine, of_rows = inputs[0][ins], inputs[1][ins] - rows.start
        levels.append(
            Level(
                instances=rows,
                inputs=ins,
                outputs=outs,
                consumed=consumed,
                starts=np.array([np.flatnonzero(mine == edge)[0] for edge in consumed], np.int64),
                produced=produced,
                output_edge=np.array([position[int(edge)] for edge in outputs[0][outs]], np.int64),
                input_instance=of_rows,
                output_instance=outputs[1][outs] - rows.start,
                even=1 / np.maximum(1, np.bincount(of_rows, minlength=1))[of_rows],
            )
        )
    return levels


def _slice(chosen: Bools) -> slice:
    """Return the slice of a run of chosen places; empty if there is none."""
    indices = np.flatnonzero(chosen)
    return slice(int(indices[0]), int(indices[-1]) + 1) if len(indices) else slice(0, 0)
